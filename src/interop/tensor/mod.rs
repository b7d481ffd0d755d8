//! Tensors of other libraries: elements whose type, shape and place are known at run time.

mod described;
mod lend;

pub use described::{Described, TensorPlace};

use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use super::export;
use crate::backend::{Keeps, Memory, Streams};
use crate::error::{AdoptFault, Error, NotAdoptable, Site};
use crate::memory::{Allocation, ForeignSpan, Owner};
use crate::memory::{By, Claim};
use crate::{Adopted, DType, Device, DynBuffer, Failed, NcclMem, Result, Stream};

/// A tensor of another library: where its elements are, their type, their device, and the owner
/// that keeps them. Nothing is copied.
///
/// It can be lent ([`Device::lend`]: `&x` for reading, `&mut x` for writing), or become a buffer
/// ([`on`](Self::on), [`nccl_on`](Self::nccl_on)). Its elements have to be in C order for that,
/// since ranks do not know each other's order. Only one of these can use the elements at a time: an
/// overlap, through any handles, is [`Error::NotAdoptable`]; only loans for reading may overlap.
///
/// ```
/// # use typed_nccl::{DType, Host, Seat, Sum, interop::{Described, Tensor, TensorPlace}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut theirs = vec![1.0_f32; 6];
/// let described = Described {
///     library: "mine",
///     address: theirs.as_mut_ptr().expose_provenance(),
///     dtype: DType::F32,
///     shape: vec![2, 3],
///     strides: None,
///     place: TensorPlace::OnHost { pinned: false },
///     writable: true,
/// };
/// // SAFETY: the tensor owns the vector, whose elements stay where they are.
/// let mut tensor = unsafe { Tensor::new(described, theirs) }?;
/// comm.device().lend(&mut tensor, |x| comm.all_reduce_in_place(x, Sum))?;
/// assert_eq!(tensor.shape(), [2, 3]);
/// assert_eq!(tensor.into_inner(), [1.0; 6]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct Tensor<O = ()> {
    pub(super) described: Box<Described>,
    pub(super) len: usize,
    pub(super) owner: O,
    /// The thread whose stream CUDA's per-thread one is, if the tensor has that one.
    pub(super) thread: Option<ThreadId>,
    /// Keeps its stream alive, if the owner does not.
    pub(super) keeps: Option<Keeps>,
}

/// A tensor's elements, for one of our devices.
struct Used<D: Device> {
    place: ForeignSpan<D>,
    /// The stream that orders their other uses.
    stream: Option<Stream<D>>,
    claim: Claim,
}

impl<O> Tensor<O> {
    /// A tensor that a library has described. The modules of the libraries call this.
    ///
    /// # Errors
    /// [`Error::NotAdoptable`]: there are no elements, or too many; the address is null or
    /// misaligned; or the elements are not one contiguous block. The owner is dropped.
    ///
    /// # Safety
    /// While `owner` lives, wherever it is moved:
    /// * the elements are present, initialised, and, if the description says so, may be written;
    /// * a stream that is given belongs to the GPU's primary context, and lives. CUDA's per-thread
    ///   default stream is the calling thread's; another thread's uses are refused.
    ///
    /// While a loan or a buffer of this library uses the elements, nobody else writes them, or
    /// reads elements that are written, except uses that the stream orders before or after.
    #[track_caller]
    pub unsafe fn new(described: Described, owner: O) -> Result<Self> {
        match described.checked() {
            Ok(len) => {
                let thread = described.its_thread();
                Ok(Self { described: Box::new(described), len, owner, thread, keeps: None })
            }
            Err(fault) => {
                let refusal = NotAdoptable::new("Tensor::new", fault, Site::caller());
                Err(refusal.of(described.library).into())
            }
        }
    }

    /// The address of the first element, on its device.
    pub fn address(&self) -> usize {
        self.described.address
    }

    /// The number of elements, at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The data type.
    pub fn dtype(&self) -> DType {
        self.described.dtype
    }

    /// The number of elements along each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.described.shape
    }

    /// The distance between neighbours along each dimension, in elements; `None` in C order.
    pub fn strides(&self) -> Option<&[isize]> {
        self.described.strides.as_deref()
    }

    /// Where the elements are.
    pub fn place(&self) -> TensorPlace {
        self.described.place
    }

    /// The owner that keeps the elements.
    pub fn into_inner(self) -> O {
        self.owner
    }

    /// The same tensor, with an owner that contains this one.
    #[cfg(feature = "python")]
    pub(in crate::interop) fn map_owner<P>(self, hold: impl FnOnce(O) -> P) -> Tensor<P> {
        let Self { described, len, owner, thread, keeps } = self;
        Tensor { described, len, owner: hold(owner), thread, keeps }
    }

    /// The same tensor, which keeps its stream alive by this.
    #[cfg(feature = "cupy")]
    pub(in crate::interop) fn keeping(self, keeps: Option<Keeps>) -> Self {
        Self { keeps, ..self }
    }

    /// A buffer over the elements, which are in C order; nothing is copied. Local; the host does
    /// not wait: present work on the tensor's stream comes before the buffer's uses, and work
    /// enqueued there after the buffer is dropped comes after them.
    /// [`into_inner`](DynBuffer::into_inner) gives the owner back.
    ///
    /// # Errors
    /// With the tensor: [`Error::NotAdoptable`] (not in C order; the other kind of device;
    /// read-only; in use), [`Error::OtherDevice`].
    #[track_caller]
    pub fn on<D: Device>(self, device: &D) -> Result<DynBuffer<D, Adopted<O>>, Failed<Self>>
    where
        O: Send + 'static,
    {
        let (operation, site) = ("on", Site::caller());
        let claimed = self.claimed_by(device, true, operation, site).and_then(|used| {
            // SAFETY: the promise to `new`; the owner goes into the allocation.
            let allocation = unsafe { used.place.claim(device, operation, site) }?;
            Ok((allocation, used.claim))
        });
        match claimed {
            Ok((allocation, claim)) => {
                allocation.own(Owner::new(Box::new(self.owner), Some(claim)));
                Ok(DynBuffer::from_allocation(allocation, self.len, self.described.dtype))
            }
            Err(error) => Err(Failed { error, value: self }),
        }
    }

    /// A buffer over elements at the start of NCCL memory that this library allocated (`empty` of a
    /// library's module, [`Tensor::export`]), which can back a window. Local; the host does not
    /// wait, as in [`on`](Self::on). The memory and the owner live as long as the buffer, or a
    /// window of it.
    ///
    /// # Errors
    /// As [`on`](Self::on), and for memory from anywhere else.
    #[track_caller]
    pub fn nccl_on<D: Device>(self, device: &D) -> Result<DynBuffer<D, NcclMem>, Failed<Self>>
    where
        O: Send + 'static,
    {
        match self.alias(device, "nccl_on", Site::caller()) {
            Ok((allocation, ours, claim)) => {
                allocation.own(Owner::new(Box::new((self.owner, ours)), Some(claim)));
                let (len, dtype) = (self.len, self.described.dtype);
                Ok(DynBuffer::from_allocation(Arc::new(allocation), len, dtype))
            }
            Err(error) => Err(Failed { error, value: self }),
        }
    }

    /// An allocation over the exported one, that one, and the claim.
    fn alias<D: Device>(
        &self,
        device: &D,
        operation: &'static str,
        site: Site,
    ) -> Result<(Allocation<D::Backend>, Arc<Allocation<D::Backend>>, Claim)> {
        let Used { place, claim, .. } = self.claimed_by(device, true, operation, site)?;
        place.check(device, operation, site)?;
        let bytes = self.len * self.dtype().size();
        let ours = export::find::<D::Backend>(self.address(), bytes)
            .ok_or_else(|| self.refused(operation, AdoptFault::NotNccls, site))?;
        // SAFETY: it is long enough; it goes into the owner; no buffer of ours has it, and the
        // claim keeps other handles away.
        let block = unsafe { <D::Backend as Memory>::alias(ours.block(), 0, bytes) }?;
        let allocation = Allocation::alias(place.ordinal, (block, ours.before()), place.theirs);
        if let Some(mark) = place.after {
            allocation.order.begin_after(mark.stream(), mark.seq());
        }
        Ok((allocation, ours, claim))
    }

    /// Claims the elements for `device`.
    fn claimed_by<D: Device>(
        &self,
        device: &D,
        write: bool,
        operation: &'static str,
        site: Site,
    ) -> Result<Used<D>> {
        let Described { library, address, dtype, .. } = *self.described;
        let bytes = address..address + self.len * dtype.size();
        let claim = Claim::new(bytes, write, By { library, operation, site })
            .map_err(|fault| self.refused(operation, fault, site))?;
        let (place, stream) = self.used_by(device, write, operation, site)?;
        Ok(Used { place, stream, claim })
    }

    /// The elements' location for `device`, and the stream that orders their other uses.
    pub(in crate::interop) fn used_by<D: Device>(
        &self,
        device: &D,
        write: bool,
        operation: &'static str,
        site: Site,
    ) -> Result<(ForeignSpan<D>, Option<Stream<D>>)> {
        let Described { address, dtype, place, writable, .. } = *self.described;
        let refused = |fault| self.refused(operation, fault, site);
        self.described.in_c_order().map_err(refused)?;
        if write && !writable {
            return Err(refused(AdoptFault::ReadOnly));
        }
        let (ordinal, handle) = match place {
            TensorPlace::OnHost { pinned } if D::KIND == "cuda" => {
                return Err(refused(AdoptFault::HostMemory { pinned }));
            }
            TensorPlace::OnGpu { ordinal, .. } if D::KIND == "host" => {
                return Err(refused(AdoptFault::DeviceMemory { ordinal }));
            }
            TensorPlace::OnHost { .. } => (device.ordinal(), None),
            TensorPlace::OnGpu { ordinal, stream } => (ordinal, stream),
        };
        let stream = match handle {
            Some(handle) if ordinal == device.ordinal() => {
                if self.thread.is_some_and(|made| made != thread::current().id()) {
                    return Err(refused(AdoptFault::PerThreadStream));
                }
                let keeps = self.keeps.clone();
                // SAFETY: the promise to `new`, or the stream's object that is kept.
                let raw = unsafe { <D::Backend as Streams>::theirs(ordinal, handle, keeps) }?;
                Some(Stream::adopted(device, raw, operation, site)?)
            }
            _ => None,
        };
        let after = stream.as_ref().map(Stream::mark).transpose()?;
        // On the thread that drops the buffer, the per-thread stream may be another one.
        let theirs = stream.as_ref().filter(|_| self.thread.is_none());
        let theirs = theirs.map(|stream| stream.core.raw().clone());
        let start = std::ptr::with_exposed_provenance_mut(address);
        let place = ForeignSpan { start, len: self.len, dtype, ordinal, after, theirs };
        Ok((place, stream))
    }

    fn refused(&self, operation: &'static str, fault: AdoptFault, site: Site) -> Error {
        NotAdoptable::new(operation, fault, site).of(self.described.library).into()
    }
}

impl<O> fmt::Debug for Tensor<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described { library, dtype, shape, place, .. } = &*self.described;
        write!(f, "Tensor of {library}: {shape:?} {dtype} in {place:?}")
    }
}

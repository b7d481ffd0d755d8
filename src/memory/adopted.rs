//! Buffers over memory owned by another library or by the program.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Allocation, Buffer, Owner};
use crate::backend::{Backend, Memory, Streams};
use crate::error::{AdoptFault, Error, Failed, NotAdoptable, OtherDevice, Site};
use crate::{DType, Device, Element, Mark, Result, wait};

/// The kind of adopted memory: `device.adopt(owner)` returns a `Buffer<T, D, Adopted<O>>`. It is an
/// operand wherever plain memory is, and cannot back a window.
///
/// ```
/// # use typed_nccl::{Adopted, Buffer, Host};
/// let x: Buffer<f32, Host, Adopted<Vec<f32>>> = Host::local()?.adopt(vec![1.0, 2.0])?;
/// assert_eq!(x.into_inner()?, [1.0, 2.0]); // the same vector
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adopted<O>(PhantomData<fn() -> O>);

/// Memory that a buffer on `D` can be made of: [`Device::adopt`].
///
/// On the host `Vec<T>` and `Box<[T]>` implement this, on GPUs `cudarc::driver::CudaSlice<T>`.
///
/// # Safety
/// * [`start`](Self::start) points to [`elements`](Self::elements) initialised elements on the
///   device of `D`'s kind with that [`ordinal`](Self::ordinal).
/// * They stay there until the owner is dropped, also while the owner itself is moved.
/// * While nobody touches the owner, nobody reads or writes them, except work that is over once the
///   mark of [`ready`](Self::ready) is reached.
///
/// ```
/// # use typed_nccl::{ForeignMemory, Host};
/// /// A leaked array.
/// struct Leaked(&'static mut [f32]);
///
/// // SAFETY: the elements live forever, and nobody else has them.
/// unsafe impl<Tag: 'static> ForeignMemory<Host<Tag>> for Leaked {
///     type Elem = f32;
///
///     fn start(&mut self) -> *mut f32 {
///         self.0.as_mut_ptr()
///     }
///
///     fn elements(&self) -> usize {
///         self.0.len()
///     }
/// }
///
/// let x = Host::local()?.adopt(Leaked(vec![1.0; 4].leak()))?;
/// assert_eq!(x.to_vec()?, [1.0; 4]);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a buffer on `{D}` cannot be made of `{Self}`",
    label = "no owner of memory of that device",
    note = "the host adopts `Vec<T>` and `Box<[T]>`, a GPU `cudarc::driver::CudaSlice<T>`; borrowed memory is lent with `device.lend(..)`",
    note = "for memory of another library, implement `ForeignMemory` for its owner, or use `Buffer::from_raw`"
)]
pub unsafe trait ForeignMemory<D: Device>: Send + 'static {
    /// The element type.
    type Elem: Element;

    /// The device address of the first element.
    fn start(&mut self) -> *mut Self::Elem;

    /// The number of elements.
    fn elements(&self) -> usize;

    /// Which device of its kind the memory is on. Host memory is on every host device.
    fn ordinal(&self, device: &D) -> u32 {
        device.ordinal()
    }

    /// The mark after everything that may still use the memory; `None` if nothing does. Asked once,
    /// after [`start`](Self::start).
    ///
    /// # Errors
    /// The memory cannot be obtained.
    fn ready(&mut self, device: &D) -> Result<Option<Mark<D>>> {
        let _ = device;
        Ok(None)
    }
}

/// The location of elements owned elsewhere.
pub(crate) struct ForeignSpan<D: Device> {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
    pub(crate) dtype: DType,
    pub(crate) ordinal: u32,
    /// Our uses come after this mark.
    pub(crate) after: Option<Mark<D>>,
    /// The stream that orders others' uses, if they keep using the elements after the allocation is
    /// gone.
    pub(crate) theirs: Option<<D::Backend as Streams>::Stream>,
}

impl<D: Device> ForeignSpan<D> {
    /// Elements of a type that the compiler knows.
    pub(crate) fn of<T: Element>(
        start: *mut T,
        len: usize,
        ordinal: u32,
        after: Option<Mark<D>>,
    ) -> Self {
        Self { start: start.cast(), len, dtype: T::DTYPE, ordinal, after, theirs: None }
    }

    /// Fails unless they are on `device`, at an address of such elements.
    pub(crate) fn check(&self, device: &D, operation: &'static str, site: Site) -> Result<()> {
        let Self { start, len, dtype, ordinal, .. } = *self;
        let at = (ordinal, device.ordinal());
        OtherDevice::unless_same(operation, "memory", D::KIND, at, site)?;
        match AdoptFault::of_address(start.addr(), len, dtype) {
            Some(fault) => Err(NotAdoptable::new(operation, fault, site).into()),
            None => Ok(()),
        }
    }

    /// An allocation over the elements.
    ///
    /// # Safety
    /// The elements are there, initialised, and stay until `owner` is dropped or, without one,
    /// until nothing uses the allocation. Nobody else touches them meanwhile, except work before
    /// `after`.
    pub(crate) unsafe fn claim(
        self,
        device: &D,
        operation: &'static str,
        site: Site,
    ) -> Result<Arc<Allocation<D::Backend>>> {
        self.check(device, operation, site)?;
        let Self { start, len, dtype, ordinal, after, theirs } = self;
        // A slice of so many bytes exists, or `from_raw` promised one.
        let bytes = len * dtype.size();
        // SAFETY: the caller's promise.
        let block = unsafe { <D::Backend as Memory>::adopt(ordinal, start, bytes) }?;
        let allocation = Allocation::adopted(ordinal, block, theirs);
        if let Some(mark) = after {
            allocation.order.begin_after(mark.stream(), mark.seq());
        }
        Ok(Arc::new(allocation))
    }
}

/// Names the holder of registered memory, and how to end it.
pub(super) const REGISTERED: &str = "a communicator that has them registered, which `comm.deregister_buffer(registration)` ends, or the communicator's end (after an abort that of all ranks of this process)";

/// Returns the owner of adopted memory once nothing of ours uses the memory.
pub(crate) fn take_back<B: Backend, O: 'static>(
    allocation: &Allocation<B>,
    site: Site,
) -> Result<O> {
    let by = match &allocation.order {
        order if order.is_captured() => Some("a graph that captured it"),
        order if order.is_registered() => Some(REGISTERED),
        _ => None,
    };
    if let Some(by) = by {
        let fault = AdoptFault::InUse { by: by.to_owned() };
        return Err(NotAdoptable::new("into_inner", fault, site).into());
    }
    wait::until(&allocation.order.points(true)?, None, "into_inner", site)?;
    allocation.order.tell_undone()?;
    let owner = allocation.disown::<O>();
    let owner = owner.ok_or_else(|| Error::other("the buffer's owner was given back already"))?;
    Ok(*owner)
}

impl<T: Element, D: Device, O: ForeignMemory<D, Elem = T>> Buffer<T, D, Adopted<O>> {
    pub(crate) fn adopt(device: &D, owner: O, site: Site) -> Result<Self, Failed<O>> {
        // An address may hold only while the owner is not moved.
        let mut owner = Box::new(owner);
        match Self::claim(device, &mut owner, site) {
            Ok((allocation, len)) => {
                allocation.own(Owner::new(owner, None));
                Ok(Self::from_allocation(allocation, len))
            }
            Err(error) => Err(Failed { error, value: *owner }),
        }
    }

    fn claim(
        device: &D,
        owner: &mut O,
        site: Site,
    ) -> Result<(Arc<Allocation<D::Backend>>, usize)> {
        let len = owner.elements();
        if len == 0 {
            let (operation, fault) = ("adopt", AdoptFault::Empty);
            return Err(NotAdoptable::new(operation, fault, site).into());
        }
        let (ordinal, start) = (owner.ordinal(device), owner.start());
        let after = if ordinal == device.ordinal() { owner.ready(device)? } else { None };
        let place = ForeignSpan::of(start, len, ordinal, after);
        // SAFETY: the promise of implementing `ForeignMemory`; the owner goes into the allocation.
        let allocation = unsafe { place.claim(device, "adopt", site) }?;
        Ok((allocation, len))
    }
}

impl<T: Element, D: Device> Buffer<T, D, Adopted<()>> {
    /// A buffer over `len` elements owned elsewhere. [`into_inner`](Self::into_inner) returns once
    /// nothing of ours uses them any more.
    ///
    /// # Errors
    /// [`Error::NotAdoptable`]: there are no elements, or the address is null or not aligned.
    ///
    /// # Safety
    /// The elements are on `device` at the address it sees, initialised. Until
    /// [`into_inner`](Self::into_inner) has succeeded they stay there and nobody else reads or
    /// writes them; without it, for ever. Nothing enqueued before uses them. They are not memory
    /// registered with NCCL: its transfers would wait for ever.
    #[track_caller]
    pub unsafe fn from_raw(device: &D, start: *mut T, len: usize) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::from_raw_owned(device, start, len, ()) }.map_err(Error::from)
    }
}

impl<T: Element, D: Device, O: Send + 'static> Buffer<T, D, Adopted<O>> {
    /// [`from_raw`](Buffer::from_raw) with an owner that keeps the elements there, as for
    /// [`Device::adopt`]: memory of a library for which nothing implements [`ForeignMemory`].
    ///
    /// # Errors
    /// As there, with the owner.
    ///
    /// # Safety
    /// As there, until the owner is given back or dropped.
    #[track_caller]
    pub unsafe fn from_raw_owned(
        device: &D,
        start: *mut T,
        len: usize,
        owner: O,
    ) -> Result<Self, Failed<O>> {
        let (operation, site) = ("from_raw", Site::caller());
        let place = ForeignSpan::of(start, len, device.ordinal(), None);
        let claimed = match (len, T::DTYPE.bytes_of(len).is_some()) {
            (0, _) => Err(NotAdoptable::new(operation, AdoptFault::Empty, site).into()),
            (_, false) => Err(NotAdoptable::new(operation, AdoptFault::TooLong, site).into()),
            // SAFETY: the caller's promise; the owner goes into the allocation.
            (_, true) => unsafe { place.claim(device, operation, site) },
        };
        match claimed {
            Ok(allocation) => {
                allocation.own(Owner::new(Box::new(owner), None));
                Ok(Self::from_allocation(allocation, len))
            }
            Err(error) => Err(Failed { error, value: owner }),
        }
    }

    /// Returns the owner. The host waits for enqueued uses of the memory, not for later work on
    /// those streams, within the deadlines of the communicators that used them.
    ///
    /// # Errors
    /// With the buffer, to try again: what went wrong on those streams, and that a write to the
    /// memory never happened, once; a passed deadline; an abort. [`Error::NotAdoptable`]: a graph
    /// has captured the memory, or a communicator has it registered
    /// ([`register_buffer`](crate::Communicator::register_buffer)).
    #[track_caller]
    pub fn into_inner(self) -> Result<O, Failed<Self>> {
        take_back(self.allocation(), Site::caller()).map_err(|error| Failed { error, value: self })
    }
}

// SAFETY: a vector owns its initialised elements, which stay where they are while it is moved.
unsafe impl<T: Element, Tag> ForeignMemory<crate::Host<Tag>> for Vec<T> {
    type Elem = T;

    fn start(&mut self) -> *mut T {
        self.as_mut_ptr()
    }

    fn elements(&self) -> usize {
        self.len()
    }
}

// SAFETY: as for a vector. The address is taken where the box stays.
unsafe impl<T: Element, Tag> ForeignMemory<crate::Host<Tag>> for Box<[T]> {
    type Elem = T;

    fn start(&mut self) -> *mut T {
        self.as_mut_ptr()
    }

    fn elements(&self) -> usize {
        self.len()
    }
}

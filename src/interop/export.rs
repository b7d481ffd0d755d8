//! Memory of ours that another library's object refers to.
//!
//! It lives as long as the object, or a buffer or window made from the object
//! ([`Tensor::nccl_on`]). Streams of the other library may still use it after that, so it is reused
//! only once all of the device's work at that time is over.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use super::{Described, Tensor, TensorPlace};
use crate::backend::{Backend, Streams};
use crate::error::{AdoptFault, BadLength, Error, Failed, NotAdoptable, Site};
use crate::lock::{Mutex, MutexGuard};
use crate::memory::Allocation;
use crate::{Device, DynBuffer, Result, wait};

/// Keeps memory of this library that another library refers to: the owner of an exported
/// [`Tensor`]. The other library's object holds it, and drops it with itself.
///
/// ```
/// # use typed_nccl::{DType, DynBuffer, Host, interop::{Exported, Tensor}};
/// let buffer = DynBuffer::zeros(&Host::local()?, DType::F32, 6)?;
/// let tensor = Tensor::export(buffer, &[2, 3], None)?;
/// let address = tensor.address(); // for the other library,
/// let owner: Exported = tensor.into_inner(); // which drops this when it is done
/// assert_ne!(address, 0);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct Exported {
    memory: Arc<dyn Any + Send + Sync>,
    /// Its entry in the list, if it is NCCL's memory.
    listed: Option<usize>,
}

/// The memory that objects at an address refer to.
struct Listed {
    memory: Weak<dyn Any + Send + Sync>,
    bytes: usize,
    /// How many objects there are.
    names: usize,
}

fn listed() -> MutexGuard<'static, Option<HashMap<usize, Listed>>> {
    static LISTED: Mutex<Option<HashMap<usize, Listed>>> = Mutex::new(None);
    LISTED.lock()
}

/// Exported NCCL memory that starts at this address and has this length.
pub(super) fn find<B: Backend>(address: usize, bytes: usize) -> Option<Arc<Allocation<B>>> {
    let long_enough = |found: &&Listed| bytes <= found.bytes;
    let memory =
        listed().as_ref()?.get(&address).filter(long_enough).map(|found| found.memory.clone());
    // Unlock first: this may drop another backend's memory.
    memory?.upgrade()?.downcast().ok()
}

impl Tensor<Exported> {
    /// A buffer's memory as a tensor for another library, which uses [`address`](Tensor::address)
    /// and keeps the owner ([`into_inner`](Tensor::into_inner)) as long as it does. Nothing is
    /// copied. Local. **The host waits** for all enqueued uses of the buffer.
    ///
    /// # Errors
    /// With the buffer: [`Error::BadLength`], the shape has more or fewer elements;
    /// [`Error::NotAdoptable`], there are none, the strides are not contiguous, a graph has captured
    /// it, or peers may put into it; as [`to_vec`](crate::Buffer::to_vec).
    #[track_caller]
    pub fn export<D: Device, M>(
        buffer: DynBuffer<D, M>,
        shape: &[usize],
        strides: Option<&[isize]>,
    ) -> Result<Self, Failed<DynBuffer<D, M>>> {
        // SAFETY: no stream is named.
        unsafe { export(buffer, (shape, strides), None, Site::caller()) }
    }

    /// [`export`](Self::export) for a stream of the other library: later work on it comes after all
    /// enqueued uses of the buffer, and the host does not wait.
    ///
    /// # Errors
    /// As there; an error that the device reports.
    ///
    /// # Safety
    /// The handle (`CUstream`) is of a stream of the device's primary context, and lives at least
    /// as long as the owner.
    #[track_caller]
    pub unsafe fn export_on<D: Device, M>(
        buffer: DynBuffer<D, M>,
        shape: &[usize],
        strides: Option<&[isize]>,
        stream: usize,
    ) -> Result<Self, Failed<DynBuffer<D, M>>> {
        // SAFETY: the caller's promise.
        unsafe { export(buffer, (shape, strides), Some(stream), Site::caller()) }
    }
}

/// # Safety
/// As [`Tensor::export_on`], if a stream is given.
unsafe fn export<D: Device, M>(
    buffer: DynBuffer<D, M>,
    (shape, strides): (&[usize], Option<&[isize]>),
    stream: Option<usize>,
    site: Site,
) -> Result<Tensor<Exported>, Failed<DynBuffer<D, M>>> {
    let allocation = buffer.allocation();
    let address = allocation.address().addr();
    let ordinal = allocation.ordinal();
    let described = Described {
        library: "typed-nccl",
        address,
        dtype: buffer.dtype(),
        shape: shape.to_vec(),
        strides: strides.map(<[isize]>::to_vec),
        place: match D::KIND {
            "cuda" => TensorPlace::OnGpu { ordinal, stream },
            _ => TensorPlace::OnHost { pinned: false },
        },
        writable: true,
    };
    // SAFETY: the caller's promise.
    let ready = || unsafe { hand_over(allocation, stream, site) };
    let outcome = fits(&described, buffer.len(), site).and_then(|()| ready());
    if let Err(error) = outcome {
        return Err(Failed { error, value: buffer });
    }
    let bytes = buffer.len() * buffer.dtype().size();
    let owner = Exported::new(allocation.clone(), bytes);
    let len = buffer.len();
    let thread = described.its_thread();
    Ok(Tensor { described: Box::new(described), len, owner, thread, keeps: None })
}

fn fits(described: &Described, found: usize, site: Site) -> Result<()> {
    let operation = "export";
    let needed = described
        .checked()
        .map_err(|fault| Error::from(NotAdoptable::new(operation, fault, site)))?;
    if needed == found {
        return Ok(());
    }
    let because = format!("shape {:?}", described.shape);
    let lengths = (found, needed);
    Err(BadLength::new(operation, "device", described.dtype, lengths, because, site).into())
}

/// Orders the other library's uses after the work enqueued here. From then on it names the memory,
/// which is no longer claimed.
///
/// # Safety
/// A given stream belongs to the allocation's device.
pub(super) unsafe fn hand_over<B: Backend>(
    allocation: &Allocation<B>,
    stream: Option<usize>,
    site: Site,
) -> Result<()> {
    may_leave(allocation, site)?;
    let points = allocation.order.points(true)?;
    let Some(handle) = stream else {
        wait::until(&points, None, "export", site)?;
        allocation.order.tell_undone()?;
        allocation.export();
        return Ok(());
    };
    // SAFETY: the caller's promise.
    let theirs = unsafe { B::theirs(allocation.ordinal(), handle, None) }?;
    points.iter().try_for_each(|at| <B as Streams>::wait_for(&theirs, &at.point))?;
    allocation.export();
    Ok(())
}

/// Refuses memory whose uses another library cannot be ordered with.
pub(super) fn may_leave<B: Backend>(allocation: &Allocation<B>, site: Site) -> Result<()> {
    // Neither a graph's launches nor peers' puts would be ordered with the other library's uses.
    let in_use = |by: &str| Some(AdoptFault::InUse { by: by.to_owned() });
    let fault = match &allocation.order {
        order if order.is_in_a_graph() => in_use("a graph that captured it"),
        order if order.is_in_a_window() => in_use("a window of another communicator"),
        order if order.is_exposed() => Some(AdoptFault::Exposed),
        _ => None,
    };
    fault.map_or(Ok(()), |fault| Err(NotAdoptable::new("export", fault, site).into()))
}

impl Exported {
    /// Memory of this many bytes.
    pub(super) fn new<B: Backend>(allocation: Arc<Allocation<B>>, bytes: usize) -> Self {
        let address = allocation.address().addr();
        let is_listed = allocation.is_nccls();
        let memory: Arc<dyn Any + Send + Sync> = allocation;
        if is_listed {
            let mut listed = listed();
            let all = listed.get_or_insert_with(HashMap::new);
            // Memory made from an object of ours and exported again is still that object's memory.
            let new = || Listed { memory: Arc::downgrade(&memory), bytes, names: 0 };
            all.entry(address).or_insert_with(new).names += 1;
        }
        Self { memory, listed: is_listed.then_some(address) }
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        let Some(address) = self.listed else { return };
        let mut listed = listed();
        let Some(all) = listed.as_mut() else { return };
        if let Some(found) = all.get_mut(&address) {
            found.names -= 1;
            if found.names == 0 {
                all.remove(&address);
            }
        }
    }
}

impl fmt::Debug for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exported, named {} times", Arc::strong_count(&self.memory))
    }
}

//! Buffers that are parts of one allocation.
//!
//! A part is an allocation of its own, with its own order of uses. Whatever takes a buffer takes a
//! part, on any thread, and no part waits for another.

use super::adopted::REGISTERED;
use super::{Buffer, Extent, MemoryKind};
use crate::error::{AdoptFault, Failed, NotAdoptable, Site};
use crate::{Device, Element, Result};

impl<T: Element, D: Device, M> Buffer<T, D, M> {
    /// Cuts it in two: the first `mid` elements, and the rest. Each is a buffer like any other, used
    /// and dropped in any order; the memory goes back with the last part of it. Local: nothing is
    /// copied, and the host does not wait. [`parts_mut`](Self::parts_mut) makes views instead.
    ///
    /// Parts can be windows, of one communicator or several. Such a part begins at a multiple of
    /// 4096 bytes, the same on all ranks; cut off what lies between as a part that nobody uses.
    ///
    /// ```
    /// # use typed_nccl::{Host, Seat};
    /// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    /// let memory = comm.device().nccl_zeros::<f32>(2048)?;
    /// let (weights, grads) = memory.split_at(1024)?; // after 4096 bytes
    /// let mut weights = comm.register_window(weights)?;
    /// let grads = comm.register_window(grads)?;
    /// weights.copy_from(&[1.0; 1024])?;
    /// comm.put_signal(weights.slice(0..8), 0, grads.at(0))?;
    /// comm.wait_signal(0)?;
    /// drop(comm.close(weights)?);
    /// assert_eq!(comm.close(grads)?.to_vec()?[6..10], [1.0, 1.0, 0.0, 0.0]);
    /// # comm.finish()?;
    /// # Ok::<(), typed_nccl::Error>(())
    /// ```
    ///
    /// # Errors
    /// With the buffer: [`Error::BadRange`](crate::Error::BadRange), it is shorter;
    /// [`Error::NotAdoptable`](crate::Error::NotAdoptable), a graph has captured it, a communicator
    /// has it registered or in a window, or it was in a window of a communicator that failed.
    #[track_caller]
    pub fn split_at(self, mid: usize) -> Result<(Self, Self), Failed<Self>>
    where
        M: MemoryKind,
    {
        self.halves(mid, Site::caller()).map_err(|error| Failed { error, value: self })
    }

    #[track_caller]
    fn halves(&self, mid: usize, site: Site) -> Result<(Self, Self)> {
        Extent::whole(self.len()).narrow(..mid).checked()?;
        // What names the memory would go on to use it in an order of its own.
        let in_use = |by: &str| Some(AdoptFault::InUse { by: by.to_owned() });
        let fault = match &self.allocation().order {
            order if order.is_captured() => in_use("a graph that captured it"),
            order if order.is_registered() => in_use(REGISTERED),
            order if order.is_in_a_window() => {
                in_use("a window of another communicator, or of one that ended before `close`")
            }
            order if order.is_exposed() => Some(AdoptFault::Exposed),
            _ => None,
        };
        if let Some(fault) = fault {
            return Err(NotAdoptable::new("split_at", fault, site).into());
        }
        // A device's memory may end there. A part without elements begins where this does.
        let rest = if mid == self.len() { 0 } else { mid };
        Ok((self.part(0, mid)?, self.part(rest, self.len() - mid)?))
    }

    fn part(&self, at: usize, len: usize) -> Result<Self> {
        let size = size_of::<T>();
        // SAFETY: the elements are in this buffer, whose owner has the parts instead from now on.
        let allocation = unsafe { self.allocation().part(at * size, len * size) }?;
        Ok(Self::from_allocation(allocation, len))
    }
}

//! Buffers that can back windows, over memory that another library got from NCCL's allocator.

use std::sync::Arc;

use super::{Allocation, Buffer, NcclMem, Owner};
use crate::cuda::adopt_nccls;
use crate::error::{AdoptFault, Error, Failed, NotAdoptable, Site};
use crate::{Cuda, Element, Result};

impl<T: Element, Tag> Buffer<T, Cuda<Tag>, NcclMem> {
    /// A buffer over `len` elements that another library got from NCCL's allocator
    /// (`ncclMemAlloc`) or mapped by CUDA's virtual memory functions: a whole allocation, or part
    /// of one. It can back a window, as memory of [`nccl_zeros`](crate::Device::nccl_zeros) can.
    /// `owner` keeps the elements there, and is dropped once nothing of ours uses them: the buffer,
    /// a window, enqueued work.
    ///
    /// A tensor that this library made in such memory is taken safely, with
    /// [`Tensor::nccl_on`](crate::interop::Tensor::nccl_on).
    ///
    /// NCCL: `ncclCommWindowRegister` takes such memory, 2.27. A window of it begins at a multiple
    /// of 4096 bytes, the same on all ranks, in its allocation.
    ///
    /// # Errors
    /// With the owner. [`Error::NotAdoptable`]: no elements, an address that is null or not
    /// aligned, or memory that is not virtual memory of CUDA's, such as that of `cudaMalloc`. An
    /// error of CUDA's.
    ///
    /// # Safety
    /// The elements are on `device`, initialised, and readable and writable there. Until the owner
    /// is dropped they stay there, nobody else reads or writes them, and no other library has them
    /// registered with NCCL. Nothing enqueued before uses them.
    #[track_caller]
    pub unsafe fn from_raw_nccl<O: Send + 'static>(
        device: &Cuda<Tag>,
        start: *mut T,
        len: usize,
        owner: O,
    ) -> Result<Self, Failed<O>> {
        const OPERATION: &str = "from_raw_nccl";

        let site = Site::caller();
        let refused = |fault| Err(Error::from(NotAdoptable::new(OPERATION, fault, site)));
        let ordinal = crate::Device::ordinal(device);
        let adopted = match (len, T::DTYPE.bytes_of(len)) {
            (0, _) => refused(AdoptFault::Empty),
            (_, None) => refused(AdoptFault::TooLong),
            (_, Some(bytes)) => match AdoptFault::of_address(start.addr(), len, T::DTYPE) {
                Some(fault) => refused(fault),
                // SAFETY: the caller's promise; the owner goes into the allocation.
                None => match unsafe { adopt_nccls(ordinal, start.cast(), bytes) } {
                    Ok(Some(adopted)) => Ok(adopted),
                    Ok(None) => refused(AdoptFault::NotVirtual),
                    Err(error) => Err(error),
                },
            },
        };
        match adopted {
            Ok((block, before, mapped)) => {
                let allocation = Allocation::alias(ordinal, (block, before), None);
                // Fields are dropped in this order: the mapping before the memory.
                allocation.own(Owner::new(Box::new((mapped, owner)), None));
                Ok(Self::from_allocation(Arc::new(allocation), len))
            }
            Err(error) => Err(Failed { error, value: owner }),
        }
    }
}

//! A second address for NCCL's memory, which NCCL does not know as registered.
//!
//! NCCL's send and receive take a faster path for memory that is registered, as a window or
//! otherwise, and assume that the other rank's memory is registered too: between a window and a
//! plain buffer both hang. A rank cannot know what its peer passes, so transfers use a second,
//! unregistered address of such memory.

use cudarc::driver::{DriverError, sys};

use super::{Gpu, driver};
use crate::Result;

/// The second address of an allocation, and its length. Its holder unmaps it.
pub(super) struct AliasMapping {
    pub(super) address: sys::CUdeviceptr,
    bytes: usize,
}

/// `CUmemAccessDesc`, laid out the same in every release of CUDA: the kind of location, its id, and
/// the access.
#[repr(C)]
struct Access {
    kind: u32,
    id: i32,
    flags: u32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const DEVICE: u32 = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_AND_WRITE: u32 = 3;

const _: () = assert!(size_of::<Access>() == size_of::<sys::CUmemAccessDesc>());

impl AliasMapping {
    /// Maps an allocation of NCCL's a second time. `None` if it is not virtual memory, which cannot
    /// back a window either.
    pub(super) fn of(gpu: &Gpu, allocation: sys::CUdeviceptr) -> Result<Option<Self>> {
        let mut handle = 0;
        // SAFETY: `handle` is valid for the write; any address may be queried.
        let retained = unsafe {
            sys::cuMemRetainAllocationHandle(&raw mut handle, allocation as usize as *mut _)
        };
        if let Err(error) = retained.result() {
            log::debug!("cuda:{}: no second address for NCCL's memory: {error:?}", gpu.ordinal());
            return Ok(None);
        }
        let mapped = Self::map(gpu, allocation, handle);
        // SAFETY: the handle was retained above; a mapping keeps the memory alive by itself.
        let released = unsafe { sys::cuMemRelease(handle) }.result();
        if let Err(error) = released {
            // On failure only a reference to the memory leaks; the address stays usable.
            log::warn!("cuda:{}: a handle of NCCL's memory stays: {error:?}", gpu.ordinal());
        }
        let failed = |error| driver::failed("mapping NCCL's memory again", gpu.ordinal(), error);
        mapped.map(Some).map_err(failed)
    }

    fn map(
        gpu: &Gpu,
        allocation: sys::CUdeviceptr,
        handle: sys::CUmemGenericAllocationHandle,
    ) -> Result<Self, DriverError> {
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: both are valid for the write.
        unsafe { sys::cuMemGetAddressRange_v2(&raw mut start, &raw mut bytes, allocation) }
            .result()?;
        let mut address = 0;
        // SAFETY: `address` is valid for the write.
        unsafe { sys::cuMemAddressReserve(&raw mut address, bytes, 0, 0, 0) }.result()?;
        let alias = Self { address, bytes };
        // SAFETY: the range was reserved above and has the allocation's length.
        let mapped = unsafe { sys::cuMemMap(address, bytes, 0, handle, 0) }.result();
        let access =
            Access { kind: DEVICE, id: gpu.ordinal().cast_signed(), flags: READ_AND_WRITE };
        let access: *const Access = &raw const access;
        let allowed = mapped.and_then(|()| {
            // SAFETY: one description, of the layout that every release of CUDA has.
            unsafe { sys::cuMemSetAccess(address, bytes, access.cast(), 1) }.result()
        });
        match allowed {
            Ok(()) => Ok(alias),
            Err(error) => {
                // SAFETY: nobody else knows the address yet.
                unsafe { alias.unmap() };
                Err(error)
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The second address of `address`, which is in the allocation.
    pub(super) fn part_at(&self, address: sys::CUdeviceptr) -> Result<Self, DriverError> {
        let (mut start, mut bytes) = (0, 0);
        // SAFETY: both are valid for the write.
        unsafe { sys::cuMemGetAddressRange_v2(&raw mut start, &raw mut bytes, address) }
            .result()?;
        Ok(self.part((address - start) as usize))
    }

    /// A copy for another user of the allocation, which must not unmap it.
    pub(super) fn again(&self) -> Self {
        self.part(0)
    }

    /// The same from byte `at` on, for a user of that part.
    pub(super) fn part(&self, at: usize) -> Self {
        Self { address: self.address + at as u64, bytes: self.bytes - at }
    }

    /// Unmaps it.
    ///
    /// # Safety
    /// Nothing uses the address any more.
    pub(super) unsafe fn unmap(self) {
        // SAFETY: the range is ours, and unused by the caller's promise; CUDA refuses a range that
        // is not mapped.
        let unmapped = unsafe { sys::cuMemUnmap(self.address, self.bytes) }.result();
        // SAFETY: the range was reserved by `map`.
        let freed = unsafe { sys::cuMemAddressFree(self.address, self.bytes) }.result();
        if let Err(error) = unmapped.and(freed) {
            log::debug!("a second address of NCCL's memory stays: {error:?}");
        }
    }
}

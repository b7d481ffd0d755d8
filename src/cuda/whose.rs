//! Finds the GPU of an address.

use cudarc::driver::{DriverError, sys};

#[cfg(feature = "python")]
use super::driver;

/// The GPU whose memory this is, from any allocator.
#[cfg(feature = "python")]
pub(crate) fn ordinal_of(address: usize) -> crate::Result<u32> {
    driver::ready()?;
    ask(address).map_err(|error| driver::failed("ask whose memory it is", 0, error))
}

/// The GPU whose memory this is, `None` if CUDA does not know the address, and `expected` if CUDA
/// cannot be asked now: the failure shows in the next call.
pub(super) fn ordinal_or(address: usize, expected: u32) -> Option<u32> {
    match ask(address) {
        Ok(ordinal) => Some(ordinal),
        Err(DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE)) => None,
        Err(_) => Some(expected),
    }
}

/// The driver was started.
fn ask(address: usize) -> Result<u32, DriverError> {
    let mut ordinal = 0_i32;
    let what = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute is one `int`; CUDA refuses an address that it does not know.
    let asked = unsafe {
        sys::cuPointerGetAttribute((&raw mut ordinal).cast(), what, address as sys::CUdeviceptr)
    };
    asked.result()?;
    Ok(ordinal.cast_unsigned())
}

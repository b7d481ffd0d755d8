//! Finds the GPU of an address.

use cudarc::driver::sys;

use super::driver;
use crate::Result;

/// The GPU whose memory this is, from any allocator.
pub(crate) fn ordinal_of(address: usize) -> Result<u32> {
    driver::ready()?;
    let mut ordinal = 0_i32;
    let what = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: the attribute is one `int`; CUDA refuses an address that it does not know.
    let asked = unsafe {
        sys::cuPointerGetAttribute((&raw mut ordinal).cast(), what, address as sys::CUdeviceptr)
    };
    asked.result().map_err(|error| driver::failed("ask whose memory it is", 0, error))?;
    Ok(ordinal.cast_unsigned())
}

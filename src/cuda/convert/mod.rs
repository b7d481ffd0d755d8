//! Conversions between element types: one kernel per pair, loaded on first use.

pub(super) mod ptx;

use cudarc::driver::sys;

use super::CudaStream;
use super::elementwise::{self, Generated};
use super::module::Handle;
use crate::{DType, Result};

/// A GPU's conversions by their types.
pub(super) type Conversions = Generated<(DType, DType)>;

fn kernel(stream: &CudaStream, from: DType, to: DType) -> Result<Handle> {
    let (gpu, text) = (stream.gpu(), |&(from, to): &_| ptx::text(from, to));
    gpu.conversions.kernel(gpu, (from, to), text, "loading a conversion")
}

/// Loads the kernel that converts between these types.
pub(super) fn load(stream: &CudaStream, from: DType, to: DType) -> Result<()> {
    kernel(stream, from, to).map(drop)
}

/// Enqueues a conversion of this many elements between different types.
///
/// # Safety
/// This many elements of the types lie at these addresses of the stream's GPU, without overlap;
/// other uses are ordered before and after.
pub(super) unsafe fn enqueue(
    stream: &CudaStream,
    (from, dtype): (sys::CUdeviceptr, DType),
    (to, into): (sys::CUdeviceptr, DType),
    count: usize,
) -> Result<()> {
    let kernel = kernel(stream, dtype, into)?;
    let params = [from, to, count as u64];
    // SAFETY: these are the kernel's parameters, and the memory is what the caller promised.
    unsafe { elementwise::launch(stream, kernel, count, params, "converting") }
}

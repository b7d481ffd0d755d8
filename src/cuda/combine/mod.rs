//! Local reductions: one kernel for each reduction, element type and number of regions, loaded when
//! a plan that has it is bound.

mod ptx;

use cudarc::driver::sys;

use super::elementwise::{self, Generated, Kernel};
use super::{CudaBackend, CudaStream};
use crate::backend::Combined;
use crate::{DType, ReductionName, Result};

/// A GPU's reductions: of so many regions.
pub(super) type Combinations = Generated<(ReductionName, DType, usize)>;

fn kernel(stream: &CudaStream, which: (ReductionName, DType, usize)) -> Result<Kernel> {
    let gpu = stream.gpu();
    let text = |&(by, dtype, regions): &_| ptx::text(by, dtype, regions);
    gpu.combinations.kernel(gpu, which, text, "loading a reduction")
}

/// Loads the kernel of a reduction.
pub(crate) fn load(stream: &CudaStream, which: (ReductionName, DType, usize)) -> Result<()> {
    kernel(stream, which).map(drop)
}

/// Enqueues a reduction.
///
/// # Safety
/// As for [`Kernels::combine`](crate::backend::Kernels::combine).
pub(crate) unsafe fn enqueue(
    stream: &CudaStream,
    combined: &Combined<'_, CudaBackend>,
) -> Result<()> {
    let &Combined { by, dtype, of, to: (to, offset), count, .. } = combined;
    let kernel = kernel(stream, (by, dtype, of.len()))?;
    let sources = of.iter().map(|(from, start)| from.block().at(*start) as sys::CUdeviceptr);
    let to = to.block().at(offset) as sys::CUdeviceptr;
    let params = [to, count as u64].into_iter().chain(sources);
    // SAFETY: these are the kernel's parameters, and the memory is what the caller promised.
    unsafe { elementwise::launch(stream, kernel, count, params, "reducing") }
}

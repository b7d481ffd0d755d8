//! Local reductions: one kernel for each reduction, element type and number of regions, loaded when
//! a plan that has it is bound.

mod ptx;

use std::sync::Arc;

use super::elementwise::{self, Generated};
use super::module::Handle;
use super::{CudaBackend, CudaStream};
use crate::backend::{Allocation, Combined};
use crate::{DType, ReductionName, Result};

/// A GPU's reductions: of so many regions.
pub(super) type Combinations = Generated<(ReductionName, DType, usize)>;

fn kernel(stream: &CudaStream, which: (ReductionName, DType, usize)) -> Result<Handle> {
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
    let address =
        |(from, start): &(&Arc<Allocation<CudaBackend>>, usize)| from.block().at(*start) as u64;
    let from: Vec<u64> = of.iter().map(address).collect();
    // SAFETY: the caller's promise.
    unsafe { at(stream, (by, dtype), (to.block().at(offset) as u64, count), &from) }
}

/// Enqueues a reduction of `count` elements at each of these addresses.
///
/// # Safety
/// As for [`Kernels::combine`](crate::backend::Kernels::combine).
pub(crate) unsafe fn at(
    stream: &CudaStream,
    (by, dtype): (ReductionName, DType),
    (to, count): (u64, usize),
    from: &[u64],
) -> Result<()> {
    let kernel = kernel(stream, (by, dtype, from.len()))?;
    let params = [to, count as u64].into_iter().chain(from.iter().copied());
    // SAFETY: these are the kernel's parameters, and the memory is what the caller promised.
    unsafe { elementwise::launch(stream, kernel, count, params, "reducing") }
}

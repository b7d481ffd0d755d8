//! Exact sums: kernels that add the contributions of several ranks and round once, as
//! `host::moves::exact` specifies, whatever their order.

mod ptx;

use std::ffi::CString;

use cudarc::driver::{result, sys};

use super::elementwise;
use super::module::{self, Handle, Lazy};
use super::{CudaStream, Gpu, driver};
use crate::{DType, Result};

pub(crate) use ptx::MOST_RANKS;

/// The element types.
const FLOATS: [DType; 6] =
    [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::F8E4M3, DType::F8E5M2];

/// A GPU's kernels by element type; never unloaded. All are loaded at once, as loading can wait for
/// running work, which may wait for a rank that loads.
pub(super) type ExactSums = Lazy<Vec<Handle>>;

impl Gpu {
    /// Loads the kernels that add exactly, on first use.
    pub(crate) fn load_exact_sums(&'static self) -> Result<()> {
        self.exact_sums().map(drop)
    }

    fn exact_sums(&'static self) -> Result<&'static [Handle]> {
        let kernels = self.exact.get(|| {
            // The text contains no zero byte.
            let text = CString::new(ptx::text(&FLOATS)).unwrap_or_default();
            let names = [c"f16", c"bf16", c"f32", c"f64", c"f8e4m3", c"f8e5m2"];
            module::load(self, &text, names, "loading exact sums")
        })?;
        Ok(kernels)
    }
}

/// What a kernel adds, by device addresses.
#[derive(Clone, Copy)]
pub(crate) struct Addends {
    pub(crate) dtype: DType,
    /// The number of elements.
    pub(crate) count: usize,
    /// One contribution.
    pub(crate) own: u64,
    /// The others, one after the other.
    pub(crate) others: u64,
    /// How many others there are, fewer than [`MOST_RANKS`].
    pub(crate) number: usize,
    /// The bytes from one of them to the next.
    pub(crate) stride: usize,
    /// What the sum is divided by: 1 or the number of contributions.
    pub(crate) by: usize,
    /// Where the results go.
    pub(crate) to: u64,
}

/// Enqueues an exact sum.
///
/// # Safety
/// The addresses are memory of the stream's GPU of at least these sizes; other uses are ordered
/// before and after. `to` is one of the contributions, or overlaps none.
pub(crate) unsafe fn enqueue(stream: &CudaStream, addends: &Addends) -> Result<()> {
    let &Addends { dtype, count, own, others, number, stride, by, to } = addends;
    let kernels = stream.gpu().exact_sums()?;
    let Some((_, kernel)) = FLOATS.iter().zip(kernels).find(|(known, _)| **known == dtype) else {
        let missing = result::DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND);
        return Err(driver::failed("adding exactly", stream.gpu().ordinal(), missing));
    };
    let params = [to, count as u64, own, others, number as u64, stride as u64, by as u64];
    // SAFETY: these are the kernel's parameters, and the memory is what the caller promised.
    unsafe { elementwise::launch(stream, *kernel, count, params, "adding exactly") }
}

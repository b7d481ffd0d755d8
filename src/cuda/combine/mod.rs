//! Local reductions: one kernel for each reduction, element type and number of regions, loaded when
//! a plan that has it is bound.

mod ptx;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys;

use super::{CudaBackend, CudaStream, Gpu, driver};
use crate::backend::Combined;
use crate::lock::Mutex;
use crate::{DType, ReductionName, Result};

/// A GPU's kernels by what they do; never unloaded.
#[derive(Default)]
pub(in crate::cuda) struct Combinations(Mutex<HashMap<Which, Kernel>>);

/// A reduction of so many regions.
type Which = (ReductionName, DType, usize);

#[derive(Clone, Copy)]
struct Kernel(sys::CUfunction);

// SAFETY: a kernel's handle may be used from any thread.
unsafe impl Send for Kernel {}

/// Threads per block.
const WIDTH: u32 = 256;

/// Blocks of the grid: enough to fill any GPU.
const BLOCKS: usize = 4096;

impl Combinations {
    fn kernel(&self, gpu: &Gpu, which: Which) -> Result<Kernel> {
        let mut kernels = self.0.lock();
        if let Some(kernel) = kernels.get(&which) {
            return Ok(*kernel);
        }
        gpu.bind()?;
        let failed = |error| driver::failed("loading a reduction", gpu.ordinal(), error);
        let (by, dtype, regions) = which;
        // The text contains no zero byte.
        let text = CString::new(ptx::text(by, dtype, regions)).unwrap_or_default();
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: `module` is valid for the write; the image is PTX and ends with a zero.
        let loaded = unsafe { sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
        loaded.result().map_err(failed)?;
        let name = c"combine".as_ptr();
        // SAFETY: `function` is valid for the write; the module is loaded, and the name ends with a
        // zero.
        let found = unsafe { sys::cuModuleGetFunction(&raw mut function, module, name) };
        found.result().map_err(failed)?;
        kernels.insert(which, Kernel(function));
        Ok(Kernel(function))
    }
}

/// Loads the kernel of a reduction.
pub(crate) fn load(stream: &CudaStream, which: Which) -> Result<()> {
    let gpu = stream.gpu();
    gpu.combinations.kernel(gpu, which).map(drop)
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
    let gpu = stream.gpu();
    let Kernel(kernel) = gpu.combinations.kernel(gpu, (by, dtype, of.len()))?;
    gpu.bind()?;
    if count == 0 {
        return Ok(());
    }
    let sources = of.iter().map(|(from, start)| from.block().at(*start) as sys::CUdeviceptr);
    let mut numbers: Vec<u64> = [to.block().at(offset) as sys::CUdeviceptr, count as u64].into();
    numbers.extend(sources);
    let mut arguments: Vec<*mut c_void> =
        numbers.iter_mut().map(|number| ptr::from_mut(number).cast()).collect();
    let blocks = count.div_ceil(WIDTH as usize).min(BLOCKS) as u32;
    let (arguments, extra) = (arguments.as_mut_ptr(), ptr::null_mut());
    // SAFETY: these are the kernel's arguments, which outlive the call; it reads and writes this
    // many elements, as the caller promised.
    let launched = unsafe {
        sys::cuLaunchKernel(kernel, blocks, 1, 1, WIDTH, 1, 1, 0, stream.raw(), arguments, extra)
    };
    launched.result().map_err(|error| driver::failed("reducing", gpu.ordinal(), error))
}

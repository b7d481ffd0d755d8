//! Conversions between element types: one kernel per pair, loaded on first use.

pub(super) mod ptx;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys;

use super::{CudaStream, Gpu, driver};
use crate::lock::Mutex;
use crate::{DType, Result};

/// A GPU's conversion kernels by their types; never unloaded.
#[derive(Default)]
pub(super) struct Conversions(Mutex<HashMap<(DType, DType), Kernel>>);

#[derive(Clone, Copy)]
struct Kernel(sys::CUfunction);

// SAFETY: a kernel's handle may be used from any thread.
unsafe impl Send for Kernel {}

/// Threads per block.
const WIDTH: u32 = 256;

/// Blocks of the grid: enough to fill any GPU.
const BLOCKS: usize = 4096;

impl Conversions {
    /// The kernel that converts between these types.
    fn kernel(&self, gpu: &Gpu, from: DType, to: DType) -> Result<Kernel> {
        let mut kernels = self.0.lock();
        if let Some(kernel) = kernels.get(&(from, to)) {
            return Ok(*kernel);
        }
        gpu.bind()?;
        let failed = |error| driver::failed("loading a conversion", gpu.ordinal(), error);
        // The text contains no zero byte.
        let text = CString::new(ptx::text(from, to)).unwrap_or_default();
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: `module` is valid for the write; the image is PTX and ends with a zero.
        let loaded = unsafe { sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()) };
        loaded.result().map_err(failed)?;
        let name = c"convert".as_ptr();
        // SAFETY: `function` is valid for the write; the module is loaded, and the name ends with a
        // zero.
        let found = unsafe { sys::cuModuleGetFunction(&raw mut function, module, name) };
        found.result().map_err(failed)?;
        kernels.insert((from, to), Kernel(function));
        Ok(Kernel(function))
    }
}

/// Loads the kernel that converts between these types.
pub(super) fn load(stream: &CudaStream, from: DType, to: DType) -> Result<()> {
    let gpu = stream.gpu();
    gpu.conversions.kernel(gpu, from, to).map(drop)
}

/// Enqueues a conversion of this many elements between different types.
///
/// # Safety
/// This many elements of the types lie at these addresses of the stream's GPU, without overlap;
/// other uses are ordered before and after.
pub(super) unsafe fn enqueue(
    stream: &CudaStream,
    (mut from, dtype): (sys::CUdeviceptr, DType),
    (mut to, into): (sys::CUdeviceptr, DType),
    count: usize,
) -> Result<()> {
    let gpu = stream.gpu();
    let Kernel(kernel) = gpu.conversions.kernel(gpu, dtype, into)?;
    gpu.bind()?;
    if count == 0 {
        return Ok(());
    }
    let mut number = count as u64;
    let mut arguments: [*mut c_void; 3] =
        [(&raw mut from).cast(), (&raw mut to).cast(), (&raw mut number).cast()];
    let blocks = count.div_ceil(WIDTH as usize).min(BLOCKS) as u32;
    let (arguments, extra) = (arguments.as_mut_ptr(), ptr::null_mut());
    // SAFETY: these are the kernel's three arguments, which outlive the call; it reads and writes
    // this many elements, as the caller promised.
    let launched = unsafe {
        sys::cuLaunchKernel(kernel, blocks, 1, 1, WIDTH, 1, 1, 0, stream.raw(), arguments, extra)
    };
    launched.result().map_err(|error| driver::failed("converting", gpu.ordinal(), error))
}

//! The kernels of programs, loaded once per GPU.

use std::ffi::{CString, c_void};
use std::sync::OnceLock;

use cudarc::driver::{DriverError, result, sys};
use typed_nccl::{DeviceView, DeviceViewMut, RawStream};

use super::device::Dev;

/// The driver compiles it.
const SOURCE: &str = concat!(include_str!("kernels.ptx"), "\0");

const BLOCK: u32 = 128;

/// By ordinal.
static LOADED: [OnceLock<Kernels>; 64] = [const { OnceLock::new() }; 64];

pub(super) struct Kernels {
    mixed: sys::CUfunction,
    split: sys::CUfunction,
    scaled: sys::CUfunction,
}

// SAFETY: a kernel's handle may be used from any thread whose current context is the kernel's.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing changes it.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Loads them on the current GPU, which is `ordinal`.
    pub(super) fn load(ordinal: usize) {
        LOADED[ordinal].get_or_init(|| Self::new().expect("CUDA compiles the kernels"));
    }

    /// The kernels of an opened GPU.
    pub(super) fn of(device: &Dev) -> &'static Self {
        LOADED[device.ordinal() as usize].get().expect("a GPU is opened before it is used")
    }

    fn new() -> Result<Self, DriverError> {
        // SAFETY: PTX as text, which ends in a zero.
        let module = unsafe { result::module::load_data(SOURCE.as_ptr().cast()) }?;
        let function = |name: &str| {
            let name = CString::new(name).expect("no zero in it");
            // SAFETY: the module is never unloaded.
            unsafe { result::module::get_function(module, name) }
        };
        Ok(Self {
            mixed: function("mixed")?,
            split: function("split")?,
            scaled: function("scaled")?,
        })
    }

    pub(super) fn mixed(
        &self,
        from: DeviceView<'_, u32>,
        mut to: DeviceViewMut<'_, u32>,
        on: RawStream<'_>,
    ) {
        let len = from.len().min(to.len());
        let (from, to) = (address(from.as_ptr()), address(to.as_mut_ptr()));
        // SAFETY: the kernel takes two addresses, reads `len` elements from the first on and writes
        // as many from the second on; the views have these, and only this launch uses them.
        unsafe { enqueue(self.mixed, &mut [from, to], len, on) }
    }

    pub(super) fn split(
        &self,
        mut left: DeviceViewMut<'_, u32>,
        mut right: DeviceViewMut<'_, u32>,
        on: RawStream<'_>,
    ) {
        let len = left.len().min(right.len());
        let (left, right) = (address(left.as_mut_ptr()), address(right.as_mut_ptr()));
        // SAFETY: the kernel takes two addresses and writes `len` elements from each on; the views
        // have these, and only this launch uses them.
        unsafe { enqueue(self.split, &mut [left, right], len, on) }
    }

    pub(super) fn scaled(&self, mut all: DeviceViewMut<'_, u32>, on: RawStream<'_>) {
        let len = all.len();
        // SAFETY: the kernel takes one address and writes `len` elements from it on; the view has
        // these, and only this launch uses it.
        unsafe { enqueue(self.scaled, &mut [address(all.as_mut_ptr())], len, on) }
    }
}

fn address(start: *const u32) -> u64 {
    start.expose_provenance() as u64
}

/// Enqueues a kernel with a thread for each element, or nothing if there is none.
///
/// # Safety
/// It is a kernel of the stream's GPU. It takes this many addresses and a length. From each address
/// on there are `len` elements, which nothing else uses in conflict until the stream has passed it.
unsafe fn enqueue(kernel: sys::CUfunction, addresses: &mut [u64], len: usize, on: RawStream<'_>) {
    if len == 0 {
        return;
    }
    let mut len = u32::try_from(len).expect("stores are short");
    let (grid, block) = ((len.div_ceil(BLOCK), 1, 1), (BLOCK, 1, 1));
    let mut parameters: Vec<*mut c_void> =
        addresses.iter_mut().map(|address| (&raw mut *address).cast()).collect();
    parameters.push((&raw mut len).cast());
    // SAFETY: the parameters have the kernel's types, and the driver copies them at the call; the
    // kernel's accesses are the caller's promise.
    unsafe { result::launch_kernel(kernel, grid, block, 0, on.as_ptr().cast(), &mut parameters) }
        .expect("CUDA starts a kernel");
}

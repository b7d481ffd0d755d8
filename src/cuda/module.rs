//! Modules of kernels. None is ever unloaded.

use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::{DriverError, sys};

use super::{Gpu, driver};
use crate::Result;
use crate::lock::Mutex;

/// A kernel of a loaded module.
#[derive(Clone, Copy, Debug)]
pub struct Handle(pub(super) sys::CUfunction);

// SAFETY: a kernel's handle may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// A loaded module.
pub(super) struct Module(sys::CUmodule);

impl Module {
    /// Loads an image into the current context.
    ///
    /// # Safety
    /// The image is machine code, or PTX that ends with a zero.
    pub(super) unsafe fn load(image: &[u8]) -> Result<Self, DriverError> {
        let mut module = ptr::null_mut();
        // SAFETY: `module` is valid for the write; the caller promised the image.
        unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) }.result()?;
        Ok(Self(module))
    }

    pub(super) fn kernel(&self, name: &CStr) -> Result<Handle, DriverError> {
        let mut function = ptr::null_mut();
        // SAFETY: `function` is valid for the write; the module is loaded, and the name ends with a
        // zero.
        unsafe { sys::cuModuleGetFunction(&raw mut function, self.0, name.as_ptr()) }.result()?;
        Ok(Handle(function))
    }
}

/// Loads kernels of a PTX text, at once even if the driver loads lazily.
pub(super) fn load<'n>(
    gpu: &Gpu,
    text: &CStr,
    names: impl IntoIterator<Item = &'n CStr>,
    doing: &'static str,
) -> Result<Vec<Handle>> {
    gpu.bind()?;
    let failed = |error| driver::failed(doing, gpu.ordinal(), error);
    // SAFETY: the image is PTX and ends with a zero.
    let module = unsafe { Module::load(text.to_bytes_with_nul()) }.map_err(failed)?;
    let load = |name| {
        let handle = module.kernel(name)?;
        let registers = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        let mut used = 0;
        // A driver that loads lazily loads it now. SAFETY: `used` is valid for the write; the
        // kernel exists.
        unsafe { sys::cuFuncGetAttribute(&raw mut used, registers, handle.0) }.result()?;
        Ok(handle)
    };
    names.into_iter().map(load).collect::<Result<_, _>>().map_err(failed)
}

/// Kernels that one thread loads on first use.
pub(super) struct Lazy<T> {
    all: OnceLock<T>,
    loading: Mutex<()>,
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self { all: OnceLock::new(), loading: Mutex::default() }
    }
}

impl<T> Lazy<T> {
    pub(super) fn get(&self, load: impl FnOnce() -> Result<T>) -> Result<&T> {
        if let Some(loaded) = self.all.get() {
            return Ok(loaded);
        }
        let _loading = self.loading.lock();
        if let Some(loaded) = self.all.get() {
            return Ok(loaded);
        }
        let loaded = load()?;
        Ok(self.all.get_or_init(|| loaded))
    }
}

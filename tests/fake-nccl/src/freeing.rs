//! The device memory of communicators: freed when they are destroyed, for which the driver waits
//! until the device is idle. The double of CUDA does, if it is the driver.

use std::ffi::c_int;
use std::sync::OnceLock;

use libloading::Library;

use crate::moves::Hold;

struct Driver {
    current: unsafe extern "C" fn() -> c_int,
    until_idle: unsafe extern "C" fn(c_int),
}

fn driver() -> Option<&'static Driver> {
    static FOUND: OnceLock<Option<Driver>> = OnceLock::new();
    let find = || {
        // SAFETY: the library of this name is CUDA's driver, or its double.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        // SAFETY: only the double has it, with this type.
        let current = unsafe { library.get("fake_cuda_current") }.ok().map(|it| *it);
        // SAFETY: as above.
        let until_idle = unsafe { library.get("fake_cuda_until_idle") }.ok().map(|it| *it);
        std::mem::forget(library);
        Some(Driver { current: current?, until_idle: until_idle? })
    };
    FOUND.get_or_init(find).as_ref()
}

/// The device that is current on this thread, or -1.
pub(crate) fn current() -> c_int {
    // SAFETY: it may be called at any time.
    driver().map_or(-1, |driver| unsafe { (driver.current)() })
}

/// Waits until all work on a device is over.
pub(crate) fn until_idle(gpu: c_int) {
    // The process does not end meanwhile either.
    let _hold = Hold::new();
    if let Some(driver) = driver() {
        // SAFETY: it may be called at any time, with any number.
        unsafe { (driver.until_idle)(gpu) };
    }
}

//! CUDA's driver: whether it is available, and what its errors say.

use std::sync::OnceLock;

use cudarc::driver::{DriverError, result, sys};
use libloading::Library;

use crate::Result;
use crate::error::{CudaFailed, Error, NoDriver, NoMemory, NoSuchDevice};
use crate::own_thread;

/// The file names of the driver's library. cudarc panics if it finds none, so we look first.
const NAMES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// Why the driver cannot be used.
struct Unusable {
    why: String,
    /// In a few words, if that is because the machine has no GPU.
    absent: Option<&'static str>,
}

/// Whether CUDA's driver is present and starts. Checked once.
fn started() -> &'static Result<(), Unusable> {
    static STARTED: OnceLock<Result<(), Unusable>> = OnceLock::new();
    STARTED.get_or_init(|| {
        load().map_err(|why| Unusable { why, absent: Some("no CUDA driver") })?;
        result::init().map_err(|error| {
            let (name, says) = text(error);
            let sees_none = error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE;
            let absent = sees_none.then_some(SEES_NONE);
            Unusable { why: format!("it gives {name} ({says})"), absent }
        })
    })
}

const SEES_NONE: &str = "CUDA's driver sees none";

/// Succeeds if CUDA's driver is present and starts.
pub(super) fn ready() -> Result<()> {
    match started() {
        Ok(()) => Ok(()),
        Err(unusable) => Err(NoDriver { why: unusable.why.clone() }.into()),
    }
}

/// Why this process has no GPU at all. A driver that fails otherwise is a fault of the machine.
pub(crate) fn absent() -> Option<&'static str> {
    match started() {
        Err(unusable) => unusable.absent,
        Ok(()) => count().is_ok_and(|count| count == 0).then_some(SEES_NONE),
    }
}

fn load() -> Result<(), String> {
    let mut tried = Vec::new();
    for name in NAMES {
        // SAFETY: the library of this name is CUDA's driver, whose initialisers any CUDA program
        // runs.
        match unsafe { Library::new(*name) } {
            Ok(library) => {
                // cudarc opens it again; it must not be unloaded in between.
                std::mem::forget(library);
                return Ok(());
            }
            Err(error) => tried.push(why(&error)),
        }
    }
    Err(tried.join("; "))
}

/// Why a library was not loaded, as the system says it.
pub(super) fn why(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.unwrap_or_else(|| error.to_string())
}

/// The driver's function of this name, if the loaded release has it.
///
/// # Safety
/// It is of type `F`.
unsafe fn function<F: Copy>(name: &[u8]) -> Option<F> {
    // SAFETY: as in `load`.
    let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(name) }.ok().map(|it| *it);
    std::mem::forget(library);
    found
}

/// `cuEventElapsedTime`
pub(super) type Elapsed =
    unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;

/// The driver's function for the time between two events. cudarc uses CUDA 12.8's variant and
/// panics with an older driver; every release has the original.
pub(super) fn elapsed() -> Option<Elapsed> {
    static FOUND: OnceLock<Option<Elapsed>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the function is of that type in every release.
        unsafe { function(b"cuEventElapsedTime\0") }
    })
}

/// Lets a thread of the library's own ask the driver while another library captures on another
/// thread: in CUDA's default mode a question from any thread would break that capture.
#[inline]
pub(super) fn is_asked() {
    if own_thread::is_new() {
        relax();
    }
}

#[cold]
fn relax() {
    type Exchange = unsafe extern "C" fn(*mut sys::CUstreamCaptureMode) -> sys::CUresult;
    // SAFETY: the function is of that type in every release that has it, CUDA 10.1 and later.
    let exchange = unsafe { function::<Exchange>(b"cuThreadExchangeStreamCaptureMode\0") };
    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: valid for the write; it changes this thread only, which is ours.
    if let Some(Err(error)) = exchange.map(|exchange| unsafe { exchange(&raw mut mode) }.result()) {
        log::warn!("this thread may break others' captures: {error:?}");
    }
}

/// `cuCtxRecordEvent`
pub(super) type RecordAll = unsafe extern "C" fn(sys::CUcontext, sys::CUevent) -> sys::CUresult;

/// The driver's function that records an event after all work in a context: CUDA 12.5. cudarc's
/// wrapper panics with a driver that lacks it.
pub(super) fn record_all() -> Option<RecordAll> {
    static FOUND: OnceLock<Option<RecordAll>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the function is of that type in every release that has it.
        unsafe { function(b"cuCtxRecordEvent\0") }
    })
}

/// `cuDriverGetVersion`: 12080 for CUDA 12.8.
pub(crate) fn version() -> Option<i32> {
    type Version = unsafe extern "C" fn(*mut i32) -> sys::CUresult;
    // SAFETY: the function is of that type in every release.
    let version = unsafe { function::<Version>(b"cuDriverGetVersion\0") }?;
    let mut number = 0;
    // SAFETY: valid for the write.
    unsafe { version(&raw mut number) }.result().ok().map(|()| number)
}

/// Raises a kernel's limit of dynamic shared memory.
pub(super) fn allow_shared(kernel: sys::CUfunction, bytes: u32) -> Result<(), DriverError> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the kernel is of a loaded module.
    unsafe { result::function::set_function_attribute(kernel, most, bytes) }
}

/// Waits for all work on the device of the current context.
pub(super) fn wait_for_all(ordinal: u32) -> Result<()> {
    result::ctx::synchronize().map_err(|error| failed("waiting for all work", ordinal, error))
}

/// The number of GPUs that this process sees.
pub(crate) fn count() -> Result<u32> {
    ready()?;
    let count = result::device::get_count().map_err(|error| failed("count devices", 0, error))?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// Fails if there is no GPU of this ordinal.
pub(super) fn sees(ordinal: u32) -> Result<()> {
    let count = count()?;
    if ordinal < count {
        return Ok(());
    }
    Err(NoSuchDevice { asked: ordinal, count }.into())
}

/// A driver error, in our words.
#[cold]
pub(super) fn failed(doing: &'static str, ordinal: u32, error: DriverError) -> Error {
    let (code, (name, says)) = (error.0 as u32, text(error));
    CudaFailed { doing, ordinal, code, name, says }.into()
}

/// The error of an allocation, in our words.
#[cold]
pub(super) fn no_memory(bytes: usize, ordinal: u32, error: DriverError) -> Error {
    match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            Error::from(NoMemory { bytes, kind: "cuda", ordinal, kept: 0, in_use: 0 })
        }
        _ => failed("allocating memory", ordinal, error),
    }
}

pub(super) fn text(error: DriverError) -> (String, String) {
    let read = |text: Result<&std::ffi::CStr, DriverError>| {
        text.map_or_else(
            |_| format!("{}", error.0 as u32),
            |text| text.to_string_lossy().into_owned(),
        )
    };
    (read(error.error_name()), read(error.error_string()))
}

//! The driver's functions needed to move data, found as NCCL finds them: by the library's name.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;
use nccl_sys::ncclResult_t;

use crate::state::{Answer, Refusal};

type HostFunction = unsafe extern "C" fn(*mut c_void);
type Prepare = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
/// `fake_cuda_again` of the driver's double.
type Again = unsafe extern "C" fn(u64, Prepare, HostFunction, u64) -> c_int;

struct Driver {
    launch: unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int,
    device: unsafe extern "C" fn(*mut c_int) -> c_int,
    current: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    of_stream: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    bus: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
}

/// A rank's device.
pub(crate) struct Place {
    pub(crate) device: c_int,
    pub(crate) context: usize,
    pub(crate) bus: String,
}

fn failed(words: impl Into<String>) -> Refusal {
    Refusal { result: ncclResult_t::ncclUnhandledCudaError, words: words.into() }
}

fn driver() -> Result<&'static Driver, Refusal> {
    static FOUND: OnceLock<Driver> = OnceLock::new();
    if let Some(driver) = FOUND.get() {
        return Ok(driver);
    }
    // SAFETY: the library of this name is CUDA's driver, or its double.
    let library = unsafe { Library::new("libcuda.so.1") };
    let library = library.map_err(|error| failed(error.to_string()))?;
    // SAFETY: the functions have these types in the driver's header.
    let found = unsafe { functions(&library) };
    std::mem::forget(library);
    let driver = found.map_err(|error| failed(error.to_string()))?;
    Ok(FOUND.get_or_init(|| driver))
}

/// # Safety
///
/// It is CUDA's driver.
unsafe fn functions(library: &Library) -> Result<Driver, libloading::Error> {
    macro_rules! of {
        ($name:literal) => {{
            // SAFETY: the function's type is the field's, as in the driver's header.
            *unsafe { library.get($name) }?
        }};
    }
    Ok(Driver {
        launch: of!("cuLaunchHostFunc"),
        device: of!("cuCtxGetDevice"),
        current: of!("cuCtxGetCurrent"),
        of_stream: of!("cuStreamGetCtx"),
        bus: of!("cuDeviceGetPCIBusId"),
    })
}

fn done(what: &str, code: c_int) -> Answer {
    if code == 0 { Ok(()) } else { Err(failed(format!("{what} gives {code}"))) }
}

/// The device that is current on this thread.
pub(crate) fn here() -> Result<Place, Refusal> {
    let driver = driver()?;
    let (mut device, mut context, mut bus) = (0, ptr::null_mut(), [0; 32]);
    // SAFETY: the variable is valid for a write.
    done("cuCtxGetDevice", unsafe { (driver.device)(&raw mut device) })?;
    // SAFETY: the variable is valid for a write.
    done("cuCtxGetCurrent", unsafe { (driver.current)(&raw mut context) })?;
    let room = bus.len() as c_int;
    // SAFETY: the buffer has this many bytes.
    done("cuDeviceGetPCIBusId", unsafe { (driver.bus)(bus.as_mut_ptr(), room, device) })?;
    // SAFETY: the driver has written a text that ends with a zero.
    let bus = unsafe { CStr::from_ptr(bus.as_ptr()) }.to_string_lossy().into_owned();
    Ok(Place { device, context: context.addr(), bus })
}

/// Refuses a stream of another device.
pub(crate) fn is_of(stream: usize, context: usize) -> Answer {
    let mut found = ptr::null_mut();
    let stream = ptr::with_exposed_provenance_mut(stream);
    // SAFETY: the variable is valid for a write; a stream is looked up.
    done("cuStreamGetCtx", unsafe { (driver()?.of_stream)(stream, &raw mut found) })?;
    match found.addr() == context {
        true => Ok(()),
        false => Err(failed("the stream is of another device")),
    }
}

/// Work that a stream does once.
pub(super) type Once = Box<dyn FnOnce() + Send>;

unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: it is a box of `enqueue` or of `prepare`, which is passed here once.
    let work = unsafe { Box::from_raw(data.cast::<Once>()) };
    work();
}

fn into_data(work: Once) -> *mut c_void {
    Box::into_raw(Box::new(work)).cast()
}

/// Makes a stream do this in order.
pub(super) fn enqueue(stream: usize, work: Once) -> Answer {
    let data = into_data(work);
    data.expose_provenance();
    let stream = ptr::with_exposed_provenance_mut(stream);
    // SAFETY: the function takes the box once, on any thread.
    let code = unsafe { (driver()?.launch)(stream, run, data) };
    if code != 0 {
        // SAFETY: the driver has not taken what it refused.
        drop(unsafe { Box::from_raw(data.cast::<Once>()) });
    }
    done("cuLaunchHostFunc", code)
}

/// Makes a capturing stream do, at each launch, the work that this returns then.
pub(super) fn enqueue_each(
    stream: usize,
    each: impl Fn() -> Once + Send + Sync + 'static,
) -> Answer {
    type Each = Box<dyn Fn() -> Once + Send + Sync>;
    unsafe extern "C" fn prepare(data: *mut c_void) -> *mut c_void {
        // SAFETY: it is the box from below, which is never freed.
        let each = unsafe { &*data.cast::<Each>() };
        into_data(each())
    }
    // SAFETY: the library of this name is CUDA's driver, or its double.
    let library = unsafe { Library::new("libcuda.so.1") };
    let library = library.map_err(|error| failed(error.to_string()))?;
    // SAFETY: only the double has it, with this type.
    let again = unsafe { library.get::<Again>("fake_cuda_again") };
    let again = *again.map_err(|error| failed(error.to_string()))?;
    std::mem::forget(library);
    // Never freed, as a graph may be launched at any time.
    let each: Box<Each> = Box::new(Box::new(each));
    let data = Box::into_raw(each).expose_provenance() as u64;
    // SAFETY: the functions accept this data on any thread, and the second consumes once what the
    // first returns.
    done("fake_cuda_again", unsafe { again(stream as u64, prepare, run, data) })
}

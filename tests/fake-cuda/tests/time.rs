//! Work that takes time. A single test, because the environment belongs to the process.
#![cfg(target_os = "linux")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use fake_cuda::{Code, Fake, File};

type Handle = *mut c_void;

/// Calls a function of the double's.
macro_rules! call {
    ($fake:expr, $name:ident($($arg:expr => $type:ty),* $(,)?)) => {{
        // SAFETY: it is the function's type in the driver's header.
        let function = unsafe {
            $fake.function::<unsafe extern "C" fn($($type),*) -> c_int>(stringify!($name))
        };
        // SAFETY: handles are looked up; memory is the double's, or outlives the test.
        unsafe { function($($arg),*) }
    }};
}

fn ok(code: c_int) {
    assert_eq!(code, 0);
}

fn stream(fake: &Fake) -> Handle {
    let mut stream = ptr::null_mut();
    ok(call!(fake, cuStreamCreate(&raw mut stream => *mut Handle, 1 => c_uint)));
    stream
}

/// What the host function waits for.
static GATE: Mutex<Option<Receiver<()>>> = Mutex::new(None);

unsafe extern "C" fn waits(_: *mut c_void) {
    let gate = GATE.lock().expect("nobody panics").take().expect("the test has put it there");
    gate.recv().expect("the test opens it");
}

#[test]
fn streams_go_on_by_themselves() {
    // SAFETY: no other thread of this process reads the environment meanwhile.
    unsafe { std::env::set_var("FAKE_CUDA_DEVICES", "4") };
    // SAFETY: as above.
    unsafe { std::env::set_var("CUDA_VISIBLE_DEVICES", "3,1") };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-cuda").join("time");
    let fake = File::install(folder).load();
    ok(call!(fake, cuInit(0 => c_uint)));
    let (mut count, mut bus, mut context) = (0, [0; 16], ptr::null_mut());
    ok(call!(fake, cuDeviceGetCount(&raw mut count => *mut c_int)));
    assert_eq!(count, 2);
    ok(call!(fake, cuDeviceGetPCIBusId(
        bus.as_mut_ptr() => *mut c_char, 16 => c_int, 0 => c_int,
    )));
    // SAFETY: the double's texts end with a zero.
    assert_eq!(unsafe { CStr::from_ptr(bus.as_ptr()) }, c"0000:04:00.0");
    ok(call!(fake, cuDevicePrimaryCtxRetain(&raw mut context => *mut Handle, 1 => c_int)));
    ok(call!(fake, cuCtxSetCurrent(context => Handle)));

    let (first, second) = (stream(&fake), stream(&fake));
    let (mut address, mut point) = (0, ptr::null_mut());
    ok(call!(fake, cuMemAlloc_v2(&raw mut address => *mut u64, 8 => usize)));
    ok(call!(fake, cuEventCreate(&raw mut point => *mut Handle, 2 => c_uint)));
    let (opens, gate) = channel();
    *GATE.lock().expect("nobody panics") = Some(gate);
    let none = ptr::null_mut();
    ok(call!(fake, cuLaunchHostFunc(
        first => Handle, waits => unsafe extern "C" fn(*mut c_void), none => Handle,
    )));
    ok(call!(fake, cuMemsetD32Async(
        address => u64, 7 => c_uint, 2 => usize, first => Handle,
    )));
    ok(call!(fake, cuEventRecord(point => Handle, first => Handle)));
    ok(call!(fake, cuStreamWaitEvent(second => Handle, point => Handle, 0 => c_uint)));
    let mut found = [0_u32; 2];
    ok(call!(fake, cuMemcpyDtoHAsync_v2(
        found.as_mut_ptr().cast() => *mut c_void, address => u64, 8 => usize, second => Handle,
    )));
    for stream in [first, second] {
        let busy = call!(fake, cuStreamQuery(stream => Handle));
        assert_eq!(busy, Code::NOT_READY.number());
    }
    opens.send(()).expect("the stream waits");
    ok(call!(fake, cuStreamSynchronize(second => Handle)));
    assert_eq!(found, [7; 2]);
    ok(call!(fake, cuStreamQuery(first => Handle)));
    assert_eq!(fake.misuse(), [""; 0]);
}

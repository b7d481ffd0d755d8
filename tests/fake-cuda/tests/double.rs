//! The double's own promises. Every test uses its own copy, which is a separate library.
#![cfg(target_os = "linux")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::thread;

use fake_cuda::{Code, Fake, File};

type Handle = *mut c_void;

/// A double of one test's own.
fn double(name: &str) -> Fake {
    File::install(Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-cuda").join(name)).load()
}

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

/// Makes a device current on this thread, and opens a stream there.
fn open(fake: &Fake, device: c_int) -> Handle {
    ok(call!(fake, cuInit(0 => c_uint)));
    let (mut context, mut stream) = (ptr::null_mut(), ptr::null_mut());
    ok(call!(fake, cuDevicePrimaryCtxRetain(&raw mut context => *mut Handle, device => c_int)));
    ok(call!(fake, cuCtxSetCurrent(context => Handle)));
    ok(call!(fake, cuStreamCreate(&raw mut stream => *mut Handle, 1 => c_uint)));
    stream
}

fn event(fake: &Fake) -> Handle {
    let mut event = ptr::null_mut();
    ok(call!(fake, cuEventCreate(&raw mut event => *mut Handle, 2 => c_uint)));
    event
}

fn alloc(fake: &Fake, bytes: usize) -> u64 {
    let mut address = 0;
    ok(call!(fake, cuMemAlloc_v2(&raw mut address => *mut u64, bytes => usize)));
    address
}

fn number(handle: Handle) -> u64 {
    handle.addr() as u64
}

fn record(fake: &Fake, event: Handle, stream: Handle) {
    ok(call!(fake, cuEventRecord(event => Handle, stream => Handle)));
}

fn reached(fake: &Fake, event: Handle) -> bool {
    match call!(fake, cuEventQuery(event => Handle)) {
        0 => true,
        code => {
            assert_eq!(code, Code::NOT_READY.number());
            false
        }
    }
}

fn set(fake: &Fake, to: u64, value: c_uchar, bytes: usize, stream: Handle) -> c_int {
    call!(fake, cuMemsetD8Async(to => u64, value => c_uchar, bytes => usize, stream => Handle))
}

/// The first bytes of device memory.
fn read(address: u64) -> [u8; 4] {
    let start = ptr::with_exposed_provenance::<[u8; 4]>(address as usize);
    // SAFETY: the tests' pieces have at least four bytes, and stay.
    unsafe { start.read_unaligned() }
}

#[test]
fn a_held_stream_does_nothing_until_it_is_released() {
    let fake = double("held");
    let stream = open(&fake, 0);
    let (address, point) = (alloc(&fake, 8), event(&fake));
    assert_eq!(read(address), [0xcd; 4]);
    assert!(reached(&fake, point), "never recorded");
    ok(set(&fake, address, 1, 8, stream));
    assert_eq!(read(address), [1; 4]);

    fake.hold(number(stream));
    ok(set(&fake, address, 2, 8, stream));
    record(&fake, point, stream);
    let from = [7_u8; 2];
    ok(call!(fake, cuMemcpyHtoDAsync_v2(
        address => u64, from.as_ptr().cast() => *const c_void, 2 => usize, stream => Handle,
    )));
    assert_eq!(read(address), [1; 4]);
    assert!(!reached(&fake, point));
    assert_eq!(call!(fake, cuStreamQuery(stream => Handle)), Code::NOT_READY.number());

    fake.release(number(stream));
    assert_eq!(read(address), [7, 7, 2, 2]);
    assert!(reached(&fake, point));
    ok(call!(fake, cuStreamQuery(stream => Handle)));
    let mut to = [0_u8; 4];
    ok(call!(fake, cuMemcpyDtoHAsync_v2(
        to.as_mut_ptr().cast() => *mut c_void, address => u64, 4 => usize, stream => Handle,
    )));
    assert_eq!(to, [7, 7, 2, 2]);
    assert_eq!(fake.misuse(), [""; 0]);
}

#[test]
fn a_wait_means_the_recording_that_there_was() {
    let fake = double("waits");
    let (first, second) = (open(&fake, 0), open(&fake, 0));
    let (address, point) = (alloc(&fake, 8), event(&fake));
    fake.hold(number(first));
    record(&fake, point, first);
    ok(call!(fake, cuStreamWaitEvent(second => Handle, point => Handle, 0 => c_uint)));
    // Recorded again: the wait keeps its meaning, the event gets a new one.
    let third = open(&fake, 0);
    record(&fake, point, third);
    assert!(reached(&fake, point));
    ok(set(&fake, address, 3, 8, second));
    assert_eq!(read(address), [0xcd; 4]);
    assert_eq!(call!(fake, cuStreamQuery(second => Handle)), Code::NOT_READY.number());
    fake.release(number(first));
    assert_eq!(read(address), [3; 4]);
    ok(call!(fake, cuStreamQuery(second => Handle)));
}

#[test]
fn who_synchronizes_or_frees_waits() {
    let fake = Arc::new(double("blocks"));
    let stream = open(&fake, 0);
    let address = alloc(&fake, 8);
    fake.hold(number(stream));
    let waits = {
        let (fake, stream) = (fake.clone(), number(stream));
        thread::spawn(move || {
            open(&fake, 0);
            let stream = ptr::without_provenance_mut(stream as usize);
            ok(call!(fake, cuStreamSynchronize(stream => Handle)));
            ok(call!(fake, cuMemFree_v2(address => u64)));
        })
    };
    while !fake.called().contains(&"cuStreamSynchronize") {
        thread::yield_now();
    }
    assert_eq!(fake.log().last().map(|call| call.result), Some(None));
    fake.release(number(stream));
    waits.join().expect("it goes on");
    assert_eq!(fake.live().pieces, 0);
    assert_eq!(set(&fake, address, 0, 1, stream), Code::INVALID_VALUE.number());
    assert!(fake.misuse()[0].contains("is freed memory"), "{:?}", fake.misuse());
}

#[test]
fn a_context_is_a_threads() {
    let fake = double("contexts");
    let mut context = ptr::null_mut::<c_void>();
    let not_ready = Code::NOT_INITIALIZED.number();
    assert_eq!(call!(fake, cuCtxGetCurrent(&raw mut context => *mut Handle)), not_ready);
    let stream = number(open(&fake, 1));
    assert_eq!(fake.current(), Some(1));
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(fake.current(), None);
            let mut address = 0;
            let none = Code::INVALID_CONTEXT.number();
            let asked = call!(fake, cuMemAlloc_v2(&raw mut address => *mut u64, 8 => usize));
            assert_eq!(asked, none);
            let stream: Handle = ptr::without_provenance_mut(stream as usize);
            assert_eq!(set(&fake, 0x1000, 0, 0, stream), none);
            // A query needs no context.
            ok(call!(fake, cuStreamQuery(stream => Handle)));
        });
    });
    assert_eq!(fake.misuse().len(), 2);
    let stream = ptr::without_provenance_mut(stream as usize);
    open(&fake, 0);
    let wrong = call!(fake, cuEventRecord(event(&fake) => Handle, stream => Handle));
    assert_eq!(wrong, Code::INVALID_HANDLE.number());
    let mut device = 0;
    let asked = call!(fake, cuDeviceGet(&raw mut device => *mut c_int, 4 => c_int));
    assert_eq!(asked, Code::INVALID_DEVICE.number());
}

#[test]
fn memory_has_limits() {
    let fake = double("limits");
    let stream = open(&fake, 0);
    fake.set_limit(1000);
    let first = alloc(&fake, 600);
    let mut address = 0;
    let asked = call!(fake, cuMemAlloc_v2(&raw mut address => *mut u64, 500 => usize));
    assert_eq!(asked, Code::OUT_OF_MEMORY.number());
    open(&fake, 1);
    alloc(&fake, 500);
    assert_eq!((fake.live().pieces, fake.live().bytes), (2, 1100));
    ok(call!(fake, cuMemFree_v2(first => u64)));
    assert_ne!(alloc(&fake, 400), first);
    assert_eq!(set(&fake, first + 599, 0, 1, stream), Code::INVALID_VALUE.number());
    let second = alloc(&fake, 0x10);
    assert_eq!(set(&fake, second + 8, 0, 9, stream), Code::INVALID_VALUE.number());
    ok(set(&fake, second + 8, 0, 8, stream));
}

#[test]
fn answers_on_request() {
    let fake = double("answers");
    fake.fail("cuInit", Code::NO_DEVICE);
    let code = call!(fake, cuInit(0 => c_uint));
    let mut text = ptr::null::<c_char>();
    ok(call!(fake, cuGetErrorName(code => c_int, &raw mut text => *mut *const c_char)));
    // SAFETY: the double's texts end with a zero, and are never freed.
    assert_eq!(unsafe { CStr::from_ptr(text) }, c"CUDA_ERROR_NO_DEVICE");
    let stream = open(&fake, 0);
    fake.set_fault(true);
    let lost = Code::ILLEGAL_ADDRESS.number();
    assert_eq!(call!(fake, cuStreamQuery(stream => Handle)), lost);
    ok(call!(fake, cuGetErrorString(lost => c_int, &raw mut text => *mut *const c_char)));
    fake.set_fault(false);
    ok(call!(fake, cuStreamQuery(stream => Handle)));
    let log = fake.log();
    assert_eq!((log[0].function, log[0].result), ("cuInit", Some(Code::NO_DEVICE)));
    let opened = log.iter().find(|call| call.function == "cuStreamCreate").expect("called");
    assert_eq!((opened.argument("Flags"), opened.gives), (1, Some(number(stream))));
    fake.clear();
    assert_eq!(fake.called(), [""; 0]);
}

#[test]
fn memory_of_others_can_be_mapped_again() {
    let fake = double("mapped");
    let stream = open(&fake, 0);
    let (mine, theirs) = (alloc(&fake, 8), [0_u8; 8]);
    let theirs = theirs.as_ptr().addr() as u64;
    let retain = |address: u64, handle: &mut u64| {
        let address = ptr::without_provenance_mut(address as usize);
        call!(fake, cuMemRetainAllocationHandle(&raw mut *handle => *mut u64, address => Handle))
    };
    let (mut handle, mut start, mut at, mut bytes) = (0, 0, 0, 0);
    assert_eq!(retain(theirs, &mut handle), Code::INVALID_VALUE.number());
    let page = 2 << 20;
    fake.set_virtual(page);
    assert_eq!(retain(mine, &mut handle), Code::INVALID_VALUE.number());
    ok(retain(theirs, &mut handle));
    ok(call!(fake, cuMemGetAddressRange_v2(
        &raw mut start => *mut u64, &raw mut bytes => *mut usize, theirs => u64,
    )));
    assert_eq!((start, bytes), (theirs, page));
    ok(call!(fake, cuMemAddressReserve(
        &raw mut at => *mut u64, page => usize, 0 => usize, 0 => u64, 0 => u64,
    )));
    let map = || {
        call!(fake, cuMemMap(
            at => u64, page => usize, 0 => usize, handle => u64, 0 => u64,
        ))
    };
    let unmap = || call!(fake, cuMemUnmap(at => u64, page => usize));
    let free = || call!(fake, cuMemAddressFree(at => u64, page => usize));
    ok(map());
    assert_eq!(map(), Code::INVALID_VALUE.number());
    assert_eq!(fake.live().mappings, 0);
    let access = [0_u32; 3];
    let access = access.as_ptr().cast();
    ok(call!(fake, cuMemSetAccess(
        at => u64, page => usize, access => *const c_void, 1 => usize,
    )));
    assert_eq!(fake.live().mappings, 1);
    ok(call!(fake, cuMemRelease(handle => u64)));
    assert_eq!(set(&fake, at + 8, 0, 1, stream), Code::INVALID_VALUE.number());
    assert_eq!(free(), Code::INVALID_VALUE.number());
    assert_eq!(fake.misuse().len(), 3, "{:?}", fake.misuse());
    ok(unmap());
    assert_eq!(unmap(), Code::INVALID_VALUE.number());
    ok(free());
    assert_eq!((fake.live().mappings, fake.misuse().len()), (0, 3));
}

//! A double for each test, and calls.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use fake_nccl::Fake;
use nccl_sys::*;

pub(crate) const IA: ncclResult_t = ncclResult_t::ncclInvalidArgument;
pub(crate) const IU: ncclResult_t = ncclResult_t::ncclInvalidUsage;
pub(crate) const OK: ncclResult_t = ncclResult_t::ncclSuccess;
pub(crate) const BUSY: ncclResult_t = ncclResult_t::ncclInProgress;
/// No header has it.
pub(crate) const UNKNOWN: ncclResult_t = ncclResult_t(77);

pub(crate) const F32: ncclDataType_t = ncclDataType_t::ncclFloat32;
pub(crate) const SUM: ncclRedOp_t = ncclRedOp_t::ncclSum;
pub(crate) const STREAM: cudaStream_t = ptr::without_provenance_mut(0x57);
pub(crate) const FROM: *const c_void = ptr::without_provenance(0x1000);
pub(crate) const TO: *mut c_void = ptr::without_provenance_mut(0x2000);

/// A folder of one test's own.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("double").join(name)
}

pub(crate) fn version(text: &str) -> Version {
    let mut numbers = text.split('.').map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    Version::new(next(), next(), next())
}

/// A double of one test's own, and its table, with nothing in the log.
pub(crate) fn double(name: &str) -> (Fake, &'static Api) {
    let fake = Fake::new(folder(name));
    let api = fake.api().expect("the double loads");
    fake.clear();
    (fake, api)
}

/// The same of a release.
pub(crate) fn release(text: &str, name: &str) -> (Fake, &'static Api) {
    let fake = Fake::release(version(text), folder(name));
    let api = fake.api().expect("the double loads");
    fake.clear();
    (fake, api)
}

/// Calls a function of the table.
macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $api.$name().expect("the double has the function");
        // SAFETY: the double looks handles up and follows none, and moves no data; other pointers
        // are null, or to places of the declared types.
        unsafe { function($($arg),*) }
    }};
}

pub(crate) fn text(string: *const c_char) -> String {
    assert!(!string.is_null());
    // SAFETY: it is not null; the double's strings end with a zero and stay as they are.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// A communicator of a few ranks.
pub(crate) fn join(api: &Api, rank: c_int, count: c_int) -> ncclComm_t {
    let mut id = ncclUniqueId::zeroed();
    assert_eq!(call!(api, ncclGetUniqueId(&mut id)), OK);
    let mut comm = NCCL_COMM_NULL;
    assert_eq!(call!(api, ncclCommInitRank(&mut comm, count, id, rank)), OK);
    assert!(!comm.is_null());
    comm
}

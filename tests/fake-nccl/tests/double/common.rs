//! A double for each test, and calls.

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use fake_nccl::Fake;
use nccl_sys::*;

pub(crate) const IA: ncclResult_t = ncclResult_t::ncclInvalidArgument;
pub(crate) const IU: ncclResult_t = ncclResult_t::ncclInvalidUsage;
pub(crate) const OK: ncclResult_t = ncclResult_t::ncclSuccess;

pub(crate) const F32: ncclDataType_t = ncclDataType_t::ncclFloat32;
pub(crate) const SUM: ncclRedOp_t = ncclRedOp_t::ncclSum;
pub(crate) const STREAM: cudaStream_t = ptr::without_provenance_mut(0x57);
pub(crate) const FROM: *const c_void = ptr::without_provenance(0x1000);
pub(crate) const TO: *mut c_void = ptr::without_provenance_mut(0x2000);

/// A separate folder for one test.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-nccl").join(name)
}

/// A separate double for one test, and its table, with an empty log.
pub(crate) fn double(name: &str) -> (Fake, &'static Api) {
    let fake = Fake::new(folder(name));
    let api = fake.api().expect("the double loads");
    fake.clear();
    (fake, api)
}

/// Calls a function of the table.
macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $api.$name().expect("the double has the function");
        // SAFETY: the double looks handles up without dereferencing them, and moves no data; other
        // pointers are null or valid for the declared types.
        unsafe { function($($arg),*) }
    }};
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

//! The version, and descriptions of errors.

use std::ffi::{CStr, c_char, c_int};

use nccl_sys::{Version, ncclComm_t, ncclResult_t};

use crate::export::exports;

/// A release's description of a result.
fn words(result: ncclResult_t, knows_timeout: bool) -> &'static CStr {
    match result {
        ncclResult_t::ncclSuccess => c"no error",
        ncclResult_t::ncclUnhandledCudaError => c"unhandled cuda error",
        ncclResult_t::ncclSystemError => c"unhandled system error",
        ncclResult_t::ncclInternalError => c"internal error",
        ncclResult_t::ncclInvalidArgument => c"invalid argument",
        ncclResult_t::ncclInvalidUsage => c"invalid usage",
        ncclResult_t::ncclRemoteError => c"remote process exited or there was a network error",
        ncclResult_t::ncclInProgress => c"NCCL operation in progress",
        ncclResult_t::ncclTimeout if knows_timeout => c"timeout",
        _ => c"unknown result code",
    }
}

exports! {
    answer fn ncclGetVersion(version: *mut c_int) -> ncclResult_t =
        |state| version.put(state.version);

    tell fn ncclGetErrorString(result: ncclResult_t) -> *const c_char =
        |state| words(result, state.at_least(Version::new(2, 30, 3))).as_ptr();

    tell fn ncclGetLastError(comm: ncclComm_t) -> *const c_char = |state| state.error().as_ptr();

    tell fn ncclResetDebugInit() = |_| ();
}

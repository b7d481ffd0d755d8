//! The function by which RCCL is told from NCCL.

use std::ffi::{c_char, c_int};

use nccl_sys::ncclResult_t;

/// There to be found; nothing calls it. Only copies of [`File::rccl`](crate::File::rccl) show it.
#[unsafe(no_mangle)]
extern "C" fn mscclLoadAlgo(_: *const c_char, _: *mut c_int, _: c_int) -> ncclResult_t {
    ncclResult_t::ncclInvalidUsage
}

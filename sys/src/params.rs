//! NCCL's run-time parameters, by handle and by key.
//!
//! 2.30.3 exports the functions but does not declare them in `nccl.h`; 2.30.4 does, and spells the
//! handle as a pointer to a struct of its name. Neither of them has a parameter to read.

use std::ffi::{c_char, c_int, c_void};

use crate::macros::functions;
use crate::result::ncclResult_t;

/// A parameter, which only NCCL can look into.
#[repr(C)]
pub struct ncclParamHandle {
    opaque: [u8; 0],
    _not_send: std::marker::PhantomData<*mut ()>,
}

/// A parameter; valid as long as the library is loaded.
pub type ncclParamHandle_t = *mut ncclParamHandle;

functions! {
    /// Looks a parameter up.
    fn ncclParamBind(out: *mut ncclParamHandle_t, key: *const c_char) -> ncclResult_t;

    /// Reads a parameter that is stored as a signed integer of 8 bits.
    fn ncclParamGetI8(h: ncclParamHandle_t, out: *mut i8) -> ncclResult_t;

    /// Reads a parameter that is stored as a signed integer of 16 bits.
    fn ncclParamGetI16(h: ncclParamHandle_t, out: *mut i16) -> ncclResult_t;

    /// Reads a parameter that is stored as a signed integer of 32 bits.
    fn ncclParamGetI32(h: ncclParamHandle_t, out: *mut i32) -> ncclResult_t;

    /// Reads a parameter that is stored as a signed integer of 64 bits.
    fn ncclParamGetI64(h: ncclParamHandle_t, out: *mut i64) -> ncclResult_t;

    /// Reads a parameter that is stored as an unsigned integer of 8 bits.
    fn ncclParamGetU8(h: ncclParamHandle_t, out: *mut u8) -> ncclResult_t;

    /// Reads a parameter that is stored as an unsigned integer of 16 bits.
    fn ncclParamGetU16(h: ncclParamHandle_t, out: *mut u16) -> ncclResult_t;

    /// Reads a parameter that is stored as an unsigned integer of 32 bits.
    fn ncclParamGetU32(h: ncclParamHandle_t, out: *mut u32) -> ncclResult_t;

    /// Reads a parameter that is stored as an unsigned integer of 64 bits.
    fn ncclParamGetU64(h: ncclParamHandle_t, out: *mut u64) -> ncclResult_t;

    /// Reads a parameter that is stored as a string; valid until this thread asks again.
    fn ncclParamGetStr(h: ncclParamHandle_t, out: *mut *const c_char) -> ncclResult_t;

    /// Copies a parameter's bytes, at most `maxLen`, and writes how many.
    fn ncclParamGet(
        h: ncclParamHandle_t,
        out: *mut c_void,
        maxLen: c_int,
        len: *mut c_int,
    ) -> ncclResult_t;

    /// Any parameter as a string; valid until this thread asks again.
    fn ncclParamGetParameter(
        key: *const c_char,
        value: *mut *const c_char,
        valueLen: *mut c_int,
    ) -> ncclResult_t;

    /// The keys of the documented parameters (of all, with `NCCL_PARAM_DUMP_ALL=true`); valid until
    /// this thread asks again.
    fn ncclParamGetAllParameterKeys(
        table: *mut *mut *const c_char,
        tableLen: *mut c_int,
    ) -> ncclResult_t;

    /// Writes the parameters to NCCL's log.
    fn ncclParamDumpAll();
}

//! Parameters: there are none, as in the first releases that have the functions.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use nccl_sys::{ncclParamHandle, ncclParamHandle_t, ncclResult_t};

use crate::export::exports;
use crate::pointer::Place;
use crate::state::{Answer, Refusal};

fn unbound(handle: Place<ncclParamHandle>) -> Answer {
    let address = handle.address();
    Err(Refusal::argument(format!("{address:#x} is no parameter of this library")))
}

fn unknown() -> Answer {
    Err(Refusal::argument("there is no such parameter"))
}

exports! {
    answer fn ncclParamBind(
        out: *mut ncclParamHandle_t,
        key: *const c_char,
    ) -> ncclResult_t = |_| unknown();

    answer fn ncclParamGetI8(h: ncclParamHandle_t, out: *mut i8) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetI16(h: ncclParamHandle_t, out: *mut i16) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetI32(h: ncclParamHandle_t, out: *mut i32) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetI64(h: ncclParamHandle_t, out: *mut i64) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetU8(h: ncclParamHandle_t, out: *mut u8) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetU16(h: ncclParamHandle_t, out: *mut u16) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetU32(h: ncclParamHandle_t, out: *mut u32) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetU64(h: ncclParamHandle_t, out: *mut u64) -> ncclResult_t =
        |_| unbound(h);

    answer fn ncclParamGetStr(
        h: ncclParamHandle_t,
        out: *mut *const c_char,
    ) -> ncclResult_t = |_| unbound(h);

    answer fn ncclParamGet(
        h: ncclParamHandle_t,
        out: *mut c_void,
        maxLen: c_int,
        len: *mut c_int,
    ) -> ncclResult_t = |_| unbound(h);

    answer fn ncclParamGetParameter(
        key: *const c_char,
        value: *mut *const c_char,
        valueLen: *mut c_int,
    ) -> ncclResult_t = |_| unknown();

    answer fn ncclParamGetAllParameterKeys(
        table: *mut *mut *const c_char,
        tableLen: *mut c_int,
    ) -> ncclResult_t = |_| {
        tableLen.needed()?;
        table.put(ptr::null_mut())?;
        tableLen.put(0)
    };

    tell fn ncclParamDumpAll() = |_| ();
}

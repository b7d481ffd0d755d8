//! Parameters: two of them, from the first release with parameters on.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use nccl_sys::{Version, ncclParamHandle, ncclParamHandle_t, ncclResult_t};

use crate::export::exports;
use crate::pointer::{Place, Source};
use crate::state::{Answer, Refusal, State};

/// A parameter that is stored as an `i64`, and one that is stored as text.
const KEYS: [&CStr; 2] = [c"NCCL_BUFFSIZE", c"NCCL_ALGO"];
const TEXTS: [&CStr; 2] = [c"4194304", c"Ring"];
const SIZE: i64 = 4 << 20;

/// A table that programs may read.
struct Table([*const c_char; 2]);

// SAFETY: the keys are constants.
unsafe impl Sync for Table {}

static TABLE: Table = Table([KEYS[0].as_ptr(), KEYS[1].as_ptr()]);

fn has_any(state: &State) -> bool {
    state.at_least(Version::new(2, 30, 7))
}

/// The parameter that a key names. Asking for an unknown one is not misuse.
fn find(state: &State, key: Source<c_char>) -> Option<usize> {
    if key.is_null() || !has_any(state) {
        return None;
    }
    // SAFETY: it is not null; the caller keeps NCCL's contract: a key ends with a zero.
    let key = unsafe { CStr::from_ptr(ptr::with_exposed_provenance(key.exposed())) };
    KEYS.iter().position(|known| *known == key)
}

/// A getter of a type: reads a handle of that type.
fn get<T>(handle: Place<ncclParamHandle>, out: Place<T>, value: Option<T>) -> ncclResult_t {
    let value = value.filter(|_| handle.address() == 1 && !out.is_null());
    value.map_or(ncclResult_t::ncclInvalidArgument, |value| put(out, value))
}

fn put<T>(out: Place<T>, value: T) -> ncclResult_t {
    out.put(value).map_or(ncclResult_t::ncclInvalidArgument, |()| ncclResult_t::ncclSuccess)
}

fn unread(handle: Place<ncclParamHandle>) -> Answer {
    let address = handle.address();
    Err(Refusal::argument(format!("nobody reads the bytes of parameter {address:#x}")))
}

exports! {
    tell fn ncclParamBind(out: *mut ncclParamHandle_t, key: *const c_char) -> ncclResult_t =
        |state| match find(state, key) {
            Some(found) => put(out, ptr::without_provenance_mut(found + 1)),
            None => ncclResult_t::ncclInvalidArgument,
        };

    tell fn ncclParamGetI8(h: ncclParamHandle_t, out: *mut i8) -> ncclResult_t =
        |_| get(h, out, None);

    tell fn ncclParamGetI16(h: ncclParamHandle_t, out: *mut i16) -> ncclResult_t =
        |_| get(h, out, None);

    tell fn ncclParamGetI32(h: ncclParamHandle_t, out: *mut i32) -> ncclResult_t =
        |_| get(h, out, None);

    tell fn ncclParamGetI64(h: ncclParamHandle_t, out: *mut i64) -> ncclResult_t =
        |_| get(h, out, Some(SIZE));

    tell fn ncclParamGetU8(h: ncclParamHandle_t, out: *mut u8) -> ncclResult_t =
        |_| get(h, out, None);

    tell fn ncclParamGetU16(h: ncclParamHandle_t, out: *mut u16) -> ncclResult_t =
        |_| get(h, out, None);

    tell fn ncclParamGetU32(h: ncclParamHandle_t, out: *mut u32) -> ncclResult_t =
        |_| get(h, out, None);

    tell fn ncclParamGetU64(h: ncclParamHandle_t, out: *mut u64) -> ncclResult_t =
        |_| get(h, out, None);

    tell fn ncclParamGetStr(h: ncclParamHandle_t, out: *mut *const c_char) -> ncclResult_t =
        |_| match h.address() {
            2 => put(out, TEXTS[1].as_ptr()),
            _ => ncclResult_t::ncclInvalidArgument,
        };

    answer fn ncclParamGet(
        h: ncclParamHandle_t,
        out: *mut c_void,
        maxLen: c_int,
        len: *mut c_int,
    ) -> ncclResult_t = |_| unread(h);

    answer fn ncclParamGetParameter(
        key: *const c_char,
        value: *mut *const c_char,
        valueLen: *mut c_int,
    ) -> ncclResult_t = |state| {
        let Some(found) = find(state, key) else {
            return Err(Refusal::argument("there is no such parameter"));
        };
        value.put(TEXTS[found].as_ptr())?;
        valueLen.put(TEXTS[found].count_bytes() as c_int)
    };

    answer fn ncclParamGetAllParameterKeys(
        table: *mut *mut *const c_char,
        tableLen: *mut c_int,
    ) -> ncclResult_t = |state| {
        tableLen.needed()?;
        let any = has_any(state);
        // The table is never written to.
        table.put(if any { ptr::from_ref(&TABLE.0).cast_mut().cast() } else { ptr::null_mut() })?;
        tableLen.put(if any { KEYS.len() as c_int } else { 0 })
    };

    tell fn ncclParamDumpAll() = |_| ();
}

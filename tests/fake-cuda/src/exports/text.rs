//! Descriptions of results.

use std::ffi::{c_char, c_int};

use crate::code::Code;
use crate::export::exports;
use crate::state::Refusal;

exports! {
    fn cuGetErrorName(error: c_int, pStr: *mut *const c_char) = |_| {
        let (name, _) = Code::text(error).ok_or(Refusal::Plain(Code::INVALID_VALUE))?;
        pStr.put(name.as_ptr().expose_provenance() as u64)
    };

    fn cuGetErrorString(error: c_int, pStr: *mut *const c_char) = |_| {
        let (_, says) = Code::text(error).ok_or(Refusal::Plain(Code::INVALID_VALUE))?;
        pStr.put(says.as_ptr().expose_provenance() as u64)
    };
}

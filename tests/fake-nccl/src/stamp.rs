//! The version that a copy of the file reports, which can be changed in the file.
//!
//! The loader asks for the version before the library can be told anything, so the version is
//! stored in the file, after a mark that occurs nowhere else in it.

use std::ffi::c_int;

use nccl_sys::BOUND;

const MARK_BYTES: usize = 28;

/// The mark, followed by the version's code.
#[used]
static STAMP: [u8; MARK_BYTES + size_of::<c_int>()] = {
    let mut stamp = *b"fake-nccl says this version:    ";
    let code = (BOUND.code() as c_int).to_ne_bytes();
    let mut at = 0;
    while at < code.len() {
        stamp[MARK_BYTES + at] = code[at];
        at += 1;
    }
    stamp
};

/// Reads this copy's file; the compiler's value may belong to another copy.
fn read() -> [u8; MARK_BYTES + size_of::<c_int>()] {
    // SAFETY: it reads a static that is initialised and never written to. The read is volatile,
    // because the file may have been changed after it was compiled.
    unsafe { std::ptr::read_volatile(&raw const STAMP) }
}

/// The version that this copy initially reports.
pub(crate) fn version() -> c_int {
    let stamp = read();
    let mut code = [0; size_of::<c_int>()];
    code.copy_from_slice(&stamp[MARK_BYTES..]);
    c_int::from_ne_bytes(code)
}

/// The address of this copy of the library, which no other copy has.
pub(crate) fn address() -> usize {
    (&raw const STAMP).addr()
}

/// Writes another version into a file's bytes; returns how often the mark occurred.
#[cfg(target_os = "linux")]
pub(crate) fn restamp(file: &mut [u8], code: c_int) -> usize {
    let stamp = read();
    let mark = &stamp[..MARK_BYTES];
    let found: Vec<usize> =
        (0..file.len()).filter(|&at| file[at] == mark[0] && file[at..].starts_with(mark)).collect();
    for at in &found {
        let place = at + MARK_BYTES..at + stamp.len();
        file[place].copy_from_slice(&code.to_ne_bytes());
    }
    found.len()
}

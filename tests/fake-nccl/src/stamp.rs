//! The version that a copy of the file says, where a copy can be given another.
//!
//! The loader asks for the version before anything else can be told to the library, so it lies in
//! the file, behind a mark that is nowhere else in it.

use std::ffi::c_int;

use nccl_sys::BOUND;

const MARK_BYTES: usize = 28;

/// The mark, then the code of the version.
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

/// What the file of this copy has; what the compiler knew may be another's.
fn read() -> [u8; MARK_BYTES + size_of::<c_int>()] {
    // SAFETY: it reads a static, which is initialised and never written to; volatile, because the file
    // may have been changed after it was compiled.
    unsafe { std::ptr::read_volatile(&raw const STAMP) }
}

/// The version that this copy says at first.
pub(crate) fn version() -> c_int {
    let stamp = read();
    let mut code = [0; size_of::<c_int>()];
    code.copy_from_slice(&stamp[MARK_BYTES..]);
    c_int::from_ne_bytes(code)
}

/// Where this copy of the library lies in the address space: no other copy lies there.
pub(crate) fn address() -> usize {
    (&raw const STAMP).addr()
}

/// Writes another version into the bytes of a file; how often the mark was there.
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

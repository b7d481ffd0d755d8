//! Writes results larger than the cache past it.
//!
//! A plain store first reads its cache line, which doubles the memory traffic of large results.
//! Where the machine has non-temporal stores, they are used for results that would leave the cache
//! before they are read.

use std::ptr;

/// The size of results from which this is used; small in debug builds, so that tests cover it.
pub(super) const LARGE: usize = if cfg!(debug_assertions) { 64 << 10 } else { 12 << 20 };

/// Copies `bytes` bytes past the cache. [`fence`] must be called before they are read.
///
/// # Safety
/// As for [`ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    const WIDE: usize = size_of::<__m128i>();
    /// A cache line, which is written as a whole.
    const LINE: usize = 4 * WIDE;

    let head = to.align_offset(LINE).min(bytes);
    // SAFETY: the caller's promise, for the first bytes.
    unsafe { ptr::copy_nonoverlapping(from, to, head) };
    let whole = head + (bytes - head) / LINE * LINE;
    for line in (head..whole).step_by(LINE) {
        let load = |at: usize| {
            // SAFETY: the address is within the source.
            let from = unsafe { from.add(line + at * WIDE) };
            // SAFETY: that many bytes are readable, at any alignment.
            unsafe { _mm_loadu_si128(from.cast()) }
        };
        for (at, value) in [load(0), load(1), load(2), load(3)].into_iter().enumerate() {
            // SAFETY: the address is within the target.
            let to = unsafe { to.add(line + at * WIDE) };
            // SAFETY: the address is aligned, since the head ends at a line. Nothing else accesses
            // the target, and later readers come after the fence.
            unsafe { _mm_stream_si128(to.cast(), value) };
        }
    }
    // SAFETY: the address is within the source.
    let from = unsafe { from.add(whole) };
    // SAFETY: the address is within the target.
    let to = unsafe { to.add(whole) };
    // SAFETY: the caller's promise, for the last bytes.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes - whole) };
}

/// Makes everything written past the cache visible to later readers.
#[cfg(target_arch = "x86_64")]
pub(super) fn fence() {
    // SAFETY: every x86-64 processor has this instruction.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// # Safety
/// As for [`ptr::copy_nonoverlapping`].
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes) };
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fence() {}

#[cfg(test)]
mod tests {
    use super::{copy, fence};

    #[test]
    fn every_byte_arrives_and_no_other_changes() {
        let from: Vec<u8> = (0..400).map(|x| (x * 7 % 251) as u8 + 1).collect();
        for start in 0..70 {
            for bytes in (0..200).chain([300, 330]) {
                let mut to = vec![0_u8; 410];
                // SAFETY: the address is within the list.
                let target = unsafe { to.as_mut_ptr().add(start) };
                // SAFETY: both hold this many bytes from there on.
                unsafe { copy(from.as_ptr(), target, bytes) };
                fence();
                let mut expected = vec![0_u8; 410];
                expected[start..start + bytes].copy_from_slice(&from[..bytes]);
                assert_eq!(to, expected, "{bytes} bytes at {start}");
            }
        }
    }
}

//! Results that are larger than the cache, written past it.
//!
//! A plain store reads the line that it writes to, so that large results cost their memory twice. Where
//! the machine has stores that do not, they are for results that would be out of the cache before anybody
//! reads them.

use std::ptr;

/// From how many bytes of results on; where the library is debugged, so few that its tests come here.
pub(super) const LARGE: usize = if cfg!(debug_assertions) { 64 << 10 } else { 12 << 20 };

/// Copies `bytes` bytes past the cache; [`fence`] comes before anybody reads them.
///
/// # Safety
/// As of [`ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    const WIDE: usize = size_of::<__m128i>();
    /// A cache line, which is written as a whole.
    const LINE: usize = 4 * WIDE;

    let head = to.align_offset(LINE).min(bytes);
    // SAFETY: the caller's promise, of the first bytes.
    unsafe { ptr::copy_nonoverlapping(from, to, head) };
    let whole = head + (bytes - head) / LINE * LINE;
    for line in (head..whole).step_by(LINE) {
        let load = |at: usize| {
            // SAFETY: within the source.
            let from = unsafe { from.add(line + at * WIDE) };
            // SAFETY: so many bytes are there, at any alignment.
            unsafe { _mm_loadu_si128(from.cast()) }
        };
        for (at, value) in [load(0), load(1), load(2), load(3)].into_iter().enumerate() {
            // SAFETY: within the target.
            let to = unsafe { to.add(line + at * WIDE) };
            // SAFETY: aligned, since the head ends at a line; nobody else touches the target, and whoever
            // reads it later comes after the fence.
            unsafe { _mm_stream_si128(to.cast(), value) };
        }
    }
    // SAFETY: within the source.
    let from = unsafe { from.add(whole) };
    // SAFETY: within the target.
    let to = unsafe { to.add(whole) };
    // SAFETY: the caller's promise, of the last bytes.
    unsafe { ptr::copy_nonoverlapping(from, to, bytes - whole) };
}

/// What was written past the cache is there for whoever comes after this.
#[cfg(target_arch = "x86_64")]
pub(super) fn fence() {
    // SAFETY: every such processor has it.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// # Safety
/// As of [`ptr::copy_nonoverlapping`].
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
                // SAFETY: within the list.
                let target = unsafe { to.as_mut_ptr().add(start) };
                // SAFETY: both hold so many bytes from there on.
                unsafe { copy(from.as_ptr(), target, bytes) };
                fence();
                let mut expected = vec![0_u8; 410];
                expected[start..start + bytes].copy_from_slice(&from[..bytes]);
                assert_eq!(to, expected, "{bytes} bytes at {start}");
            }
        }
    }
}

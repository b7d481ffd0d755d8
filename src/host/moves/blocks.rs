//! Collectives that copy.

use std::ops::Range;

use super::collective::{Collective, Flow};
use super::past;

/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
pub(super) unsafe fn plain(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
}

impl Collective {
    /// Copies elements `range` of a block to its targets.
    ///
    /// # Safety
    /// As [`Collective::run`], for a collective whose blocks come from one rank each.
    pub(super) unsafe fn copy_block(&self, flow: &Flow, range: Range<usize>) {
        let Some(send) = self.parts.get(flow.from.start).and_then(|from| from.send.as_ref()) else {
            return;
        };
        let (size, count) = (self.dtype.size(), self.count);
        // SAFETY: what a rank sends has block `source`, as `Collective` documents.
        let source = unsafe { send.at((flow.source * count + range.start) * size) };
        for recv in self.receivers(flow) {
            // SAFETY: what a rank receives has block `target`.
            let target = unsafe { recv.at((flow.target * count + range.start) * size) };
            // In place, the block is already where it belongs.
            if !std::ptr::eq(source, target) {
                let copy = if self.is_large { past::copy } else { plain };
                // SAFETY: the spans are disjoint unless equal (in place, checked above). No other
                // thread writes this chunk of the target or any of the source meanwhile.
                unsafe { copy(source, target, range.len() * size) };
            }
        }
    }
}

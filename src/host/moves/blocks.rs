//! Collectives that copy.

use std::ops::Range;

use super::Held;
use super::collective::Collective;
use crate::error::Operation;

impl Collective {
    /// Copies elements `range` of block `block` to where they belong.
    ///
    /// | operation | block b is | and goes to |
    /// |---|---|---|
    /// | broadcast | the root's send | every rank's recv |
    /// | all_gather | rank b's send | block b of every rank's recv |
    /// | gather | rank b's send | block b of the root's recv |
    /// | scatter | block b of the root's send | rank b's recv |
    /// | all_to_all (b = from x n + to) | block `to` of `from`'s send | block `from` of `to`'s recv |
    ///
    /// # Safety
    /// As [`Collective::run`].
    pub(super) unsafe fn copy_block(&self, block: usize, range: Range<usize>) {
        let (n, root) = (self.parts.len(), self.root);
        match self.operation {
            Operation::Broadcast => {
                for to in 0..n {
                    // SAFETY: both spans hold `count` elements.
                    unsafe { self.copy(root, 0, to, 0, range.clone()) };
                }
            }
            Operation::AllGather => {
                for to in 0..n {
                    // SAFETY: sends hold `count` elements, receives n times as many.
                    unsafe { self.copy(block, 0, to, block, range.clone()) };
                }
            }
            // SAFETY: sends hold `count` elements, the root's receive n times as many.
            Operation::Gather => unsafe { self.copy(block, 0, root, block, range) },
            // SAFETY: receives hold `count` elements, the root's send n times as many.
            Operation::Scatter => unsafe { self.copy(root, block, block, 0, range) },
            Operation::AllToAll => {
                let (from, to) = (block / n, block % n);
                // SAFETY: both spans hold n times `count` elements.
                unsafe { self.copy(from, to, to, from, range) };
            }
            _ => {}
        }
    }

    /// Copies `range` of block `source` of `from`'s send to block `target` of `to`'s recv.
    ///
    /// # Safety
    /// Both blocks are inside their spans, and the chunk is this thread's.
    unsafe fn copy(
        &self,
        from: usize,
        source: usize,
        to: usize,
        target: usize,
        range: Range<usize>,
    ) {
        let (Some(send), Some(recv)) = (&self.parts[from].send, &self.parts[to].recv) else {
            return;
        };
        let (size, count) = (self.dtype.size(), self.count);
        // SAFETY: inside, by the caller.
        let source = unsafe { Held::at(send, (source * count + range.start) * size) };
        // SAFETY: inside, by the caller.
        let target = unsafe { Held::at(recv, (target * count + range.start) * size) };
        // In place the block is where it belongs already.
        if !std::ptr::eq(source, target) {
            // SAFETY: the spans are disjoint unless they are the same in place (checked above), and
            // nobody else writes this chunk of the target or any of the source meanwhile.
            unsafe { std::ptr::copy_nonoverlapping(source, target, range.len() * size) };
        }
    }
}

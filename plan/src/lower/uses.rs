//! The memory that a group's operations touch.

use std::collections::HashMap;

use crate::check::Ranges;
use crate::program::{Op, OpKind};

/// For each rank and object, the elements that a group reads and writes.
#[derive(Default)]
pub(super) struct Uses(HashMap<(u32, u32), (Ranges, Ranges)>);

impl Uses {
    /// Adds the memory of these operations on their own rank.
    pub(super) fn add(&mut self, rank: u32, ops: &[Op]) {
        for op in ops {
            if !op.source.is_empty() {
                let (reads, _) = self.0.entry((rank, op.source.object)).or_default();
                reads.add(op.source.start, op.source.end);
            }
            if !op.target.is_empty() && op.kind != OpKind::Put {
                let (_, writes) = self.0.entry((rank, op.target.object)).or_default();
                writes.add(op.target.start, op.target.end);
            }
        }
    }

    /// An object with elements that both these operations and earlier ones touch, at least one of
    /// them writing.
    pub(super) fn clash(&self, rank: u32, ops: &[Op]) -> Option<u32> {
        for op in ops {
            let (source, target) = (op.source, op.target);
            if let Some((_, writes)) = self.0.get(&(rank, source.object))
                && writes.overlaps(source.start, source.end)
            {
                return Some(source.object);
            }
            if op.kind != OpKind::Put
                && let Some((reads, writes)) = self.0.get(&(rank, target.object))
                && (reads.overlaps(target.start, target.end)
                    || writes.overlaps(target.start, target.end))
            {
                return Some(target.object);
            }
        }
        None
    }
}

//! The memory that operations read and write.

use std::collections::HashMap;
use std::hash::Hash;

use crate::check::Ranges;
use crate::program::Op;

/// For each object, the elements that are read and those that are written.
pub(super) struct Uses<Object>(HashMap<Object, (Ranges, Ranges)>);

/// A use of memory: the object, the first element, the end, and whether it is written.
pub(super) type Use<Object> = (Object, u64, u64, bool);

impl<Object> Default for Uses<Object> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<Object: Eq + Hash> Uses<Object> {
    pub(super) fn add(&mut self, (object, start, end, writes): Use<Object>) {
        let (read, written) = self.0.entry(object).or_default();
        let ranges = if writes { written } else { read };
        ranges.add(start, end);
    }

    /// Whether it has some of these elements too, and one of both writes.
    pub(super) fn clashes(&self, (object, start, end, writes): &Use<Object>) -> bool {
        self.0.get(object).is_some_and(|(read, written)| {
            written.overlaps(*start, *end) || *writes && read.overlaps(*start, *end)
        })
    }
}

/// What an operation uses on its own rank, by rank and object.
pub(super) fn of(rank: u32, op: &Op) -> impl Iterator<Item = Use<(u32, u32)>> {
    op.touched().map(move |(span, writes)| ((rank, span.object), span.start, span.end, writes))
}

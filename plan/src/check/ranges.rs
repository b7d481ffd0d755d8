//! Sets of elements, as disjoint ranges.

use std::collections::BTreeMap;

/// Elements of one object: where ranges start, and where they end.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((&from, &to)) = self.0.range(..=end).next_back() {
            if to < start {
                break;
            }
            (start, end) = (start.min(from), end.max(to));
            self.0.remove(&from);
        }
        self.0.insert(start, end);
    }

    /// The first element of a range that is not among them.
    pub(crate) fn missing(&self, start: u64, end: u64) -> Option<u64> {
        if start == end {
            return None;
        }
        match self.0.range(..=start).next_back() {
            Some((_, &to)) if to >= end => None,
            Some((_, &to)) if to > start => Some(to),
            _ => Some(start),
        }
    }

    /// Whether any element of the range is among them.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        // Of those that begin before the end, the last one reaches furthest.
        start < end && self.0.range(..end).next_back().is_some_and(|(_, &to)| to > start)
    }
}

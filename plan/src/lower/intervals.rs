//! Sets of elements, as disjoint ranges.

use std::collections::BTreeMap;

/// Elements of one object.
#[derive(Debug, Default)]
pub(super) struct Intervals(BTreeMap<u64, u64>);

impl Intervals {
    pub(super) fn add(&mut self, mut start: u64, mut end: u64) {
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

    /// Whether any element of the range is among them.
    pub(super) fn overlaps(&self, start: u64, end: u64) -> bool {
        // Of those that begin before the end, the last one reaches furthest.
        start < end && self.0.range(..end).next_back().is_some_and(|(_, &to)| to > start)
    }
}

#[cfg(test)]
mod tests {
    use super::Intervals;

    #[test]
    fn touching_is_not_overlapping() {
        let mut set = Intervals::default();
        set.add(4, 8);
        set.add(8, 10);
        set.add(20, 30);
        for (start, end, expected) in [
            (0, 4, false),
            (3, 5, true),
            (9, 12, true),
            (10, 20, false),
            (5, 5, false),
            (0, 99, true),
        ] {
            assert_eq!(set.overlaps(start, end), expected, "[{start}, {end})");
        }
    }
}

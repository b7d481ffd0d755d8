//! Values of ranks, as runs of neighbouring ranks with equal values: a barrier of 100,000 ranks is
//! one run.

use std::collections::BTreeMap;

/// A map from ranks to values.
pub(super) struct Runs<T> {
    /// The last rank and the value of each run, by first rank.
    all: BTreeMap<u32, (u32, T)>,
    known: u32,
}

impl<T> Default for Runs<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), known: 0 }
    }
}

impl<T: Clone + PartialEq> Runs<T> {
    /// Sets the value of ranks `first` to `last`.
    pub(super) fn put(&mut self, first: u32, last: u32, value: T) {
        self.clear(first, last);
        self.fill(first, last, value);
    }

    /// As [`put`](Self::put), for ranks without a value.
    pub(super) fn fill(&mut self, mut first: u32, mut last: u32, value: T) {
        self.known += last - first + 1;
        if let Some((&start, (end, before))) = self.all.range(..first).next_back()
            && end + 1 == first
            && *before == value
        {
            self.all.remove(&start);
            first = start;
        }
        if let Some(next) = last.checked_add(1)
            && let Some((end, after)) = self.all.get(&next)
            && *after == value
        {
            last = *end;
            self.all.remove(&next);
        }
        self.all.insert(first, (last, value));
    }

    fn clear(&mut self, first: u32, last: u32) {
        if let Some((_, (end, value))) = self.all.range_mut(..first).next_back()
            && *end >= first
        {
            let (old, value) = (*end, value.clone());
            *end = first - 1;
            self.known -= old.min(last) - first + 1;
            if old > last {
                self.all.insert(last + 1, (old, value));
                return;
            }
        }
        while let Some((&start, _)) = self.all.range(first..=last).next()
            && let Some((end, value)) = self.all.remove(&start)
        {
            self.known -= end.min(last) - start + 1;
            if end > last {
                self.all.insert(last + 1, (end, value));
            }
        }
    }
}

impl<T> Runs<T> {
    /// The number of ranks with a value.
    pub(super) fn known(&self) -> u32 {
        self.known
    }

    pub(super) fn get(&self, rank: u32) -> Option<&T> {
        let (_, (last, value)) = self.all.range(..=rank).next_back()?;
        (*last >= rank).then_some(value)
    }

    /// The runs, as first rank, last rank and value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u32, &T)> {
        self.all.iter().map(|(&first, (last, value))| (first, *last, value))
    }

    /// The ranks of `first..=last` without a value, as runs.
    pub(super) fn gaps(&self, first: u32, last: u32) -> Vec<(u32, u32)> {
        let mut gaps = Vec::new();
        let mut next = match self.all.range(..=first).next_back() {
            Some((_, (end, _))) => first.max(end + 1),
            None => first,
        };
        for (&start, (end, _)) in self.all.range(first..=last) {
            if next < start {
                gaps.push((next, start - 1));
            }
            next = next.max(end + 1);
        }
        if next <= last {
            gaps.push((next, last));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;
    use crate::control::net::fuzz::Dice;

    /// Compares with a plain list.
    #[test]
    fn runs_match_a_list() {
        for seed in 0..256 {
            let dice = &mut Dice(seed);
            let (mut runs, mut list) = (Runs::default(), [None; 40]);
            for _ in 0..dice.roll(60) {
                let [first, length, value] = [40, 12, 3].map(|below| dice.roll(below) as u32);
                let last = (first + length).min(39);
                let gaps: Vec<u32> =
                    runs.gaps(first, last).into_iter().flat_map(|(a, b)| a..=b).collect();
                let is_gap = |rank: &u32| list[*rank as usize].is_none();
                let expected: Vec<u32> = (first..=last).filter(is_gap).collect();
                assert_eq!(gaps, expected, "seed {seed}");
                runs.put(first, last, value);
                (first..=last).for_each(|rank| list[rank as usize] = Some(value));
                for rank in 0..40 {
                    assert_eq!(runs.get(rank), list[rank as usize].as_ref(), "seed {seed}");
                }
                assert_eq!(runs.known() as usize, list.iter().flatten().count(), "seed {seed}");
                // The runs are maximal.
                let all: Vec<_> = runs.iter().collect();
                let is_apart =
                    |two: &[(u32, u32, &u32)]| two[0].1 + 1 < two[1].0 || two[0].2 != two[1].2;
                assert!(all.windows(2).all(is_apart), "seed {seed}");
            }
        }
    }
}

//! The contributions to a communicator's exchanges that a rank forwards, as runs of neighbouring
//! ranks with equal contributions.
//!
//! Contributions are never withdrawn, and adding one twice has no effect. A rank contributes to an
//! exchange only after it has completed the one before. So once the next exchange is complete, no
//! rank needs this one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::control::Topic;
use crate::control::runs::Runs;
use crate::error::Site;

/// How far a rank may be ahead of the oldest incomplete exchange.
const MOST_AHEAD: u64 = 1 << 16;

/// The number of children of a rank in the tree.
pub(super) const FAN_OUT: u32 = 16;

/// A rank's contribution to an exchange.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Contribution {
    pub(crate) topic: Topic,
    pub(crate) site: Site,
    pub(crate) bytes: Arc<[u8]>,
}

/// The contribution of ranks `first` to `last` to exchange `seq`.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) seq: u64,
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) contribution: Arc<Contribution>,
}

/// See the module.
pub(super) struct Ledger {
    size: u32,
    /// This rank and its descendants.
    below: Vec<(u32, u32)>,
    rounds: BTreeMap<u64, Round>,
    /// The first exchange that may be incomplete.
    next: u64,
}

#[derive(Default)]
struct Round {
    runs: Runs<Arc<Contribution>>,
    /// The number of known contributions of this rank and its descendants.
    below: u32,
    /// The first topic, and whether any contribution has another.
    topic: Option<Topic>,
    differs: bool,
}

/// A run that no rank of this communicator can send.
#[derive(Debug)]
pub(super) struct OutOfRange;

impl Ledger {
    pub(super) fn new(rank: u32, size: u32) -> Self {
        Self { size, below: below(rank, size), rounds: BTreeMap::new(), next: 0 }
    }

    /// Adds a run; the parts of it that are new.
    pub(super) fn add(&mut self, run: &Run) -> Result<Vec<Run>, OutOfRange> {
        let Run { seq, first, last, ref contribution } = *run;
        if first > last || last >= self.size || seq >= self.next + MOST_AHEAD {
            return Err(OutOfRange);
        }
        if !self.rounds.contains_key(&seq) && seq < self.next {
            return Ok(Vec::new());
        }
        let round = self.rounds.entry(seq).or_default();
        round.differs |= *round.topic.get_or_insert(contribution.topic) != contribution.topic;
        let gaps = round.runs.gaps(first, last);
        for &(first, last) in &gaps {
            let inside = |&(a, b): &(u32, u32)| (b.min(last) + 1).saturating_sub(a.max(first));
            round.below += self.below.iter().map(inside).sum::<u32>();
            round.runs.fill(first, last, contribution.clone());
        }
        self.forget();
        let new = |(first, last)| Run { seq, first, last, contribution: contribution.clone() };
        Ok(gaps.into_iter().map(new).collect())
    }

    fn forget(&mut self) {
        while self.rounds.get(&self.next).is_some_and(|round| round.runs.known() == self.size) {
            self.next += 1;
        }
        while let Some(oldest) = self.rounds.first_entry()
            && oldest.key() + 2 < self.next
        {
            oldest.remove();
        }
    }

    /// Whether every rank has contributed.
    pub(super) fn is_complete(&self, seq: u64) -> bool {
        match self.rounds.get(&seq) {
            Some(round) => round.runs.known() == self.size,
            None => seq < self.next,
        }
    }

    /// Whether the ranks' topics differ.
    pub(super) fn differs(&self, seq: u64) -> bool {
        self.rounds.get(&seq).is_some_and(|round| round.differs)
    }

    /// Whether this rank and all its descendants have contributed.
    pub(super) fn is_complete_below(&self, seq: u64) -> bool {
        let all = self.below.iter().map(|(first, last)| last - first + 1).sum::<u32>();
        self.rounds.get(&seq).is_some_and(|round| round.below == all)
    }

    /// Every contribution that a peer may lack.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        self.rounds.iter().flat_map(|(&seq, round)| {
            let run = move |(first, last, contribution): (u32, u32, &Arc<Contribution>)| {
                let contribution = contribution.clone();
                Run { seq, first, last, contribution }
            };
            round.runs.iter().map(run)
        })
    }

    /// A rank's last known contribution.
    pub(super) fn last_of(&self, rank: u32) -> Option<&Contribution> {
        self.rounds
            .values()
            .rev()
            .find_map(|round| round.runs.get(rank))
            .map(|contribution| &**contribution)
    }

    /// Whether every rank has finished.
    pub(super) fn is_finished(&self, finish: Topic) -> bool {
        let last = self.next.checked_sub(1).and_then(|last| self.rounds.get(&last));
        last.is_some_and(|round| {
            round.runs.iter().all(|(_, _, contribution)| contribution.topic == finish)
        })
    }
}

/// `rank` and its descendants, one run for each level of the tree.
pub(super) fn below(rank: u32, size: u32) -> Vec<(u32, u32)> {
    let (mut first, mut last) = (u64::from(rank), u64::from(rank));
    let mut runs = Vec::new();
    while first < u64::from(size) {
        // Both are below `size`.
        let end = last.min(u64::from(size) - 1);
        runs.push((first as u32, end as u32));
        (first, last) =
            (first * u64::from(FAN_OUT) + 1, end * u64::from(FAN_OUT) + u64::from(FAN_OUT));
    }
    runs
}

/// The parent of a rank in a tree that no rank has left.
pub(super) fn parent(rank: u32) -> Option<u32> {
    Some(rank.checked_sub(1)? / FAN_OUT)
}

/// The ranks directly below one, in a tree that no rank has left.
pub(super) fn children(rank: u32, size: u32) -> impl Iterator<Item = u32> {
    let first = u64::from(rank) * u64::from(FAN_OUT) + 1;
    let below = first..(first + u64::from(FAN_OUT)).min(size.into());
    below.filter_map(|rank| u32::try_from(rank).ok())
}

/// Sorts runs and joins adjacent ones with equal contributions.
pub(super) fn merge(runs: &mut Vec<Run>) {
    runs.sort_by_key(|run| (run.seq, run.first));
    runs.dedup_by(|next, run| {
        let follows = run.seq == next.seq && run.last + 1 == next.first;
        let joined = follows
            && (Arc::ptr_eq(&run.contribution, &next.contribution)
                || run.contribution == next.contribution);
        if joined {
            run.last = next.last;
        }
        joined
    });
}

#[cfg(test)]
mod tests {
    use super::{Contribution, Ledger, Run, below, merge, parent};
    use crate::control::net::fuzz::Dice;
    use crate::error::Site;
    use std::sync::Arc;

    fn run(seq: u64, first: u32, last: u32, bytes: &[u8]) -> Run {
        let contribution =
            Arc::new(Contribution { topic: "barrier", site: Site::caller(), bytes: bytes.into() });
        Run { seq, first, last, contribution }
    }

    #[test]
    fn descendants_are_the_ranks_whose_path_to_the_root_leads_here() {
        for (rank, size) in [(0, 1), (0, 300), (1, 300), (3, 60), (17, 300), (5, 6)] {
            let is_below = |mut other: u32| loop {
                match parent(other) {
                    _ if other == rank => break true,
                    Some(above) => other = above,
                    None => break false,
                }
            };
            let expected: Vec<u32> = (0..size).filter(|other| is_below(*other)).collect();
            let found: Vec<u32> = below(rank, size).into_iter().flat_map(|(a, b)| a..=b).collect();
            assert_eq!(found, expected, "below {rank} of {size}");
        }
    }

    #[test]
    fn an_exchange_is_kept_until_the_next_is_complete() {
        let mut ledger = Ledger::new(1, 3);
        for seq in 0..3 {
            assert!(!ledger.is_complete(seq));
            assert_eq!(ledger.add(&run(seq, 0, 2, b"")).expect("in range").len(), 1);
            assert!(ledger.is_complete(seq) && ledger.runs().count() <= 2);
        }
        assert!(ledger.add(&run(0, 1, 1, b"late")).expect("in range").is_empty());
        assert!(ledger.add(&run(3, 2, 1, b"")).is_err());
        assert!(ledger.add(&run(3, 0, 3, b"")).is_err());
        assert!(ledger.add(&run(u64::MAX >> 1, 0, 0, b"")).is_err());
    }

    /// Compares with a plain list of ranks: only unknown ranks are new, in whatever order the runs
    /// arrive.
    #[test]
    fn runs_match_a_list() {
        let (size, rank) = (40, 2);
        for seed in 0..256 {
            let dice = &mut Dice(seed);
            let mut ledger = Ledger::new(rank, size);
            let mut known = vec![None; size as usize];
            for _ in 0..dice.roll(60) {
                let [first, length, byte] = [40, 12, 3].map(|below| dice.roll(below) as u32);
                let (last, byte) = ((first + length).min(size - 1), byte as u8);
                let before = ledger.is_complete(0);
                let new = ledger.add(&run(0, first, last, &[byte])).expect("in range");
                let ranks: Vec<u32> = new.iter().flat_map(|run| run.first..=run.last).collect();
                let is_new = |rank: &u32| known[*rank as usize].is_none();
                let expected: Vec<u32> = (first..=last).filter(is_new).collect();
                assert_eq!(ranks, expected, "seed {seed}");
                assert!(!before || ranks.is_empty(), "seed {seed}");
                ranks.iter().for_each(|rank| known[*rank as usize] = Some(byte));
                let mut below = below(rank, size).into_iter().flat_map(|(a, b)| a..=b);
                let is_below = below.all(|rank| known[rank as usize].is_some());
                assert_eq!(ledger.is_complete_below(0), is_below, "seed {seed}");
                let mut runs: Vec<Run> = ledger.runs().collect();
                let held = runs.len();
                merge(&mut runs);
                assert_eq!(runs.len(), held, "seed {seed}");
                for run in runs {
                    for rank in run.first..=run.last {
                        let contribution = Some(run.contribution.bytes[0]);
                        assert_eq!(known[rank as usize], contribution, "seed {seed}");
                    }
                }
            }
        }
    }
}

//! How far the ranks have come with a communicator.

use std::time::Instant;

use crate::Rank;

/// Tells how far the ranks have come, from any thread and without waiting.
pub trait Pace: Send + Sync {
    /// Asks ranks of other processes how far they have come, now and then.
    fn ask(&self) {}

    /// Each other rank that has not left.
    fn others(&self) -> Vec<Paced>;
}

/// Nobody is compared.
impl Pace for () {
    fn others(&self) -> Vec<Paced> {
        Vec::new()
    }
}

/// What this rank and another one have called.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// The other rank.
    pub rank: Rank,
    /// What this one has called.
    pub own: Counts,
    /// What the other one has called.
    pub theirs: Counts,
    /// When that was known; none of a rank that has told nothing yet.
    pub heard: Option<Instant>,
}

/// How many operations a rank has called of which two ranks have each a part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Collectives.
    pub collectives: u64,
    /// Transfers from this rank to the other one.
    pub there: u64,
    /// Transfers from the other one.
    pub back: u64,
    /// Exchanges on the host, of which no backend knows.
    pub exchanges: u64,
}

impl Counts {
    /// By how many operations `other` is behind; none if it is not, or is ahead in something.
    pub(crate) fn ahead_of(&self, other: &Self) -> Option<u64> {
        let all = |counts: &Self| [counts.collectives, counts.there, counts.back, counts.exchanges];
        let behind =
            all(self).into_iter().zip(all(other)).map(|(own, other)| own.checked_sub(other));
        behind.sum::<Option<u64>>().filter(|&behind| behind > 0)
    }
}

//! The ranks' progress on a communicator.

use std::time::Instant;

use crate::Rank;

/// Reports the ranks' progress, from any thread and without blocking.
pub trait Pace: Send + Sync {
    /// Asks ranks of other processes for their progress, at limited intervals.
    fn ask(&self) {}

    /// Returns the progress of each other rank that has not left.
    fn others(&self) -> Vec<Paced>;
}

/// Compares no ranks.
impl Pace for () {
    fn others(&self) -> Vec<Paced> {
        Vec::new()
    }
}

/// The calls that this rank and another one have made.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// The other rank.
    pub rank: Rank,
    /// This rank's calls.
    pub own: Counts,
    /// The other rank's calls.
    pub theirs: Counts,
    /// When the other rank's counts were known; `None` if it has reported nothing yet.
    pub heard: Option<Instant>,
}

/// The number of operations called by a rank that involve both of two ranks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Collectives.
    pub collectives: u64,
    /// Transfers from this rank to the other.
    pub there: u64,
    /// Transfers from the other rank.
    pub back: u64,
    /// Exchanges on the host, which backends do not see.
    pub exchanges: u64,
}

impl Counts {
    /// How many operations `other` is behind; `None` if it is not behind, or is ahead in any count.
    pub(crate) fn ahead_of(&self, other: &Self) -> Option<u64> {
        let all = |counts: &Self| [counts.collectives, counts.there, counts.back, counts.exchanges];
        let behind =
            all(self).into_iter().zip(all(other)).map(|(own, other)| own.checked_sub(other));
        behind.sum::<Option<u64>>().filter(|&behind| behind > 0)
    }
}

//! What a communicator lost when it went on, and what its ranks were before.

use std::fmt;

use crate::Rank;
use crate::error::Ranks;

/// What [`recover`](crate::Communicator::recover) found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// The ranks that are gone, in their order before.
    pub lost: Vec<Lost>,
    /// This rank's number before.
    pub rank_before: Rank,
    /// How many ranks there were before.
    pub size_before: usize,
    pub(super) rank: Rank,
    /// What the ranks were before, by their number now.
    pub(super) before: Vec<Rank>,
}

/// A rank that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Its number before.
    pub rank: Rank,
    /// What is known of it: its host and its process where it had one of its own, and how it ended.
    pub why: String,
}

impl Recovery {
    /// What a rank of now was before; `None` if there is no such rank.
    pub fn before(&self, rank: Rank) -> Option<Rank> {
        self.before.get(rank.index()).copied()
    }

    /// What a rank of before is now; `None` if it is gone.
    pub fn now(&self, before: Rank) -> Option<Rank> {
        self.before.iter().position(|rank| *rank == before).map(Rank::at)
    }

    /// How many ranks there are now.
    pub fn size(&self) -> usize {
        self.before.len()
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (now, of) = (self.rank, self.size());
        write!(f, "rank {} of {} is rank {now} of {of}", self.rank_before, self.size_before)?;
        let lost: Vec<Rank> = self.lost.iter().map(|lost| lost.rank).collect();
        match lost.as_slice() {
            [] => f.write_str(": nobody is lost"),
            some => write!(f, ": {} lost", Ranks(some)),
        }?;
        self.lost.iter().try_for_each(|lost| write!(f, "; rank {}: {}", lost.rank, lost.why))
    }
}

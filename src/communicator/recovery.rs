//! What a communicator lost when it went on, and what its ranks were before.

use std::fmt;

use crate::error::Ranks;
use crate::{AsRank, Rank};

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
    /// What a rank of now was before; `None` if there is no such rank, also where it is one of another
    /// time.
    pub fn before(&self, now: impl AsRank) -> Option<Rank> {
        let now = Some(Rank::kept(now)).filter(|now| now.may_be(self.rank.beside(now.index())))?;
        self.before.get(now.index()).copied()
    }

    /// What a rank of before is now; `None` if it is gone, also where it is one of another time: a rank
    /// from before several recoveries is looked up in each of them in turn.
    pub fn now(&self, before: impl AsRank) -> Option<Rank> {
        let before = Rank::kept(before);
        let now = self.before.iter().position(|rank| rank.may_be(before));
        now.map(|now| self.rank.beside(now))
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

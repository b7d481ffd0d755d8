//! The outcome of a recovery: the lost ranks and the old numbers of the others.

use std::fmt;

use crate::error::Ranks;
use crate::{AsRank, Rank};

/// The result of [`recover`](crate::Communicator::recover).
///
/// ```
/// use typed_nccl::{Host, Lost, Recovery, spmd};
///
/// spmd::<Host>(3, |place| {
///     let mut comm = place.init()?;
///     comm.barrier()?;
///     if comm.rank() == 1 {
///         return Ok(()); // without `finish`: lost to the others
///     }
///     assert!(comm.barrier().is_err());
///     let recovery: Recovery = comm.recover()?;
///     let [Lost { rank, why, .. }] = recovery.lost.as_slice() else { panic!("{recovery}") };
///     println!("rank {rank} was lost: {why}");
///     assert_eq!((rank.index(), recovery.size_before, recovery.size()), (1, 3, 2));
///     assert_eq!(recovery.now(recovery.rank_before), Some(comm.rank()));
///     comm.finish()
/// })
/// .expect("two ranks continue");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// The ranks that were lost, in their old order.
    pub lost: Vec<Lost>,
    /// This rank's old number.
    pub rank_before: Rank,
    /// The old number of ranks.
    pub size_before: usize,
    pub(crate) rank: Rank,
    /// The old ranks, by new rank.
    pub(crate) before: Vec<Rank>,
}

/// A rank that was lost.
///
/// See the example of [`Recovery`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// Its old number.
    pub rank: Rank,
    /// Its number in the first communicator, which a launcher prints. It differs from the old
    /// number after an earlier recovery, and in a child. For a newcomer, which has none, it is the
    /// old number.
    pub rank_at_start: usize,
    /// What is known of it: its host and process, if it had a process of its own, and how it ended.
    pub why: String,
}

impl Recovery {
    /// The old rank of a new one; `None` if there is no such rank or it belongs to another
    /// generation.
    pub fn before(&self, now: impl AsRank) -> Option<Rank> {
        let now = Some(Rank::kept(now)).filter(|now| now.may_be(self.rank.beside(now.index())))?;
        self.before.get(now.index()).copied()
    }

    /// The new rank of an old one; `None` if it was lost or belongs to another generation. To map a
    /// rank across several recoveries, apply each of them in turn.
    pub fn now(&self, before: impl AsRank) -> Option<Rank> {
        let before = Rank::kept(before);
        let now = self.before.iter().position(|rank| rank.may_be(before));
        now.map(|now| self.rank.beside(now))
    }

    /// The new number of ranks.
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
        self.lost.iter().try_for_each(|lost| write!(f, "; {lost}"))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, rank_at_start, why } = self;
        match rank_at_start {
            same if *same == rank.index() => write!(f, "rank {rank}: {why}"),
            other => write!(f, "rank {rank} ({other} at the start): {why}"),
        }
    }
}

//! Ranks that left, and the calls that cannot complete because of it.

use typed_nccl_match::unanswered;

use super::Family;
use crate::Rank;
use crate::backend::Departure;
use crate::error::{Call, Departed, Error, Revocation};

/// What a rank waits for if each of its calls has its counterparts.
const NEXT: &str = "the next operation";

/// The kind of rank that owes a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::nccl) enum Owing {
    /// A rank that can still raise it.
    Living,
    /// Only dead processes. Even signals that they called for may not have been raised.
    Dead,
}

/// A rank that left.
pub(super) struct Left {
    pub(super) rank: usize,
    pub(super) why: String,
    /// It had completed everything, as far as it knew.
    pub(super) finished: bool,
}

impl Family {
    /// Announces that a rank enqueues nothing more.
    pub(in crate::nccl) fn depart(&self, rank: usize, why: &str, how: Departure) {
        // Every rank knows what ended the communicator.
        let is_news = !self.state.lock().ended;
        if let Some(remote) = self.remote.as_ref().filter(|_| is_news) {
            remote.leave(self, why, how);
        }
        self.departed(rank, why, how, true);
    }

    /// Records that a rank, of this process or another, enqueues nothing more. With `is_known`, all
    /// of its calls are known here.
    pub(super) fn departed(&self, rank: usize, why: &str, how: Departure, is_known: bool) {
        let mut state = self.state.lock();
        if state.ended {
            // Every rank knows the first cause; ranks that leave because of it add nothing.
            return;
        }
        if how == Departure::Survives {
            drop(state);
            let (name, by, why) = (self.name, Rank::at(rank), why.to_owned());
            return self.ended(&Error::from(Revocation { name, by, why }));
        }
        let left = Left { rank, why: why.to_owned(), finished: how == Departure::Finished };
        match state.left.iter_mut().find(|known| known.rank == rank) {
            // It was not done after all.
            Some(known) if known.finished => *known = left,
            Some(_) => {}
            None => state.left.push(left),
        }
        if how != Departure::AtOnce {
            return;
        }
        state.ended = true;
        let lost = state.left.iter().filter(|left| left.rank == rank || !left.finished);
        let lost: Vec<_> = lost.collect();
        let error = |other: usize| {
            let missed = || lost.iter().find_map(|left| self.missed(other, left.rank));
            let missed = is_known.then(missed).flatten();
            self.gone(&lost, missed.unwrap_or_else(|| NEXT.to_owned()))
        };
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != rank);
        // Dropped without the lock, since one may hold a user's value.
        let healths: Vec<_> =
            others.filter_map(|(other, member)| Some((other, member.health()?))).collect();
        // Poisons every member before one of them can report the failure as its own.
        let told: Vec<_> =
            healths.iter().filter(|(other, health)| health.poison(error(*other))).collect();
        // A reader that finds `ended` set finds every member poisoned.
        drop(state);
        for (_, health) in told {
            health.tell_others();
        }
    }

    /// Whether a rank waits for signals, and from what kind of rank.
    pub(in crate::nccl) fn owing(&self, to: usize) -> Option<Owing> {
        let dead = self.state.lock().dead.clone();
        if self.signals.is_owed(to, |from| !dead.contains(&from)) {
            return Some(Owing::Living);
        }
        dead.iter().any(|from| self.signals.awaits_any(to, *from)).then_some(Owing::Dead)
    }

    /// The error for lost ranks. A rank that had completed everything, as far as it knew, is
    /// reported last.
    fn gone(&self, lost: &[&Left], during: String) -> Error {
        let mut lost: Vec<_> = lost.to_vec();
        lost.sort_by_key(|left| left.finished);
        let lost: Vec<_> = lost.iter().map(|left| (Rank::at(left.rank), &*left.why)).collect();
        Departed::each(&lost).error(self.name, during)
    }

    /// Ranks that ended regularly after fewer calls than `rank`, so that one of `rank`'s calls
    /// never completes.
    pub(in crate::nccl) fn left(&self, rank: usize) -> Option<Error> {
        let state = self.state.lock();
        let mut during = None;
        let mut is_missed = |left: &&Left| {
            let missed = (left.rank != rank).then(|| self.missed(rank, left.rank)).flatten();
            let is_missed = missed.is_some();
            during = during.take().or(missed);
            is_missed
        };
        let lost: Vec<_> = state.left.iter().filter(&mut is_missed).collect();
        let during = during?;
        Some(self.gone(&lost, during))
    }

    /// A send from or to `rank` that was never received, once all ranks have finished. NCCL may
    /// report such a send as complete.
    pub(in crate::nccl) fn unmet(&self, rank: usize) -> Option<Error> {
        let others = || (0..self.size()).filter(|&other| other != rank);
        let own = others().find_map(|to| self.unreceived(rank, to));
        own.or_else(|| {
            others().find_map(|from| {
                let (why, during) = (self.unreceived(from, rank)?.to_string(), "finish".to_owned());
                let lost = [(Rank::at(from), &*why)];
                Some(Departed::each(&lost).error(self.name, during))
            })
        })
    }

    /// The first of a rank's calls without a counterpart on another rank.
    fn missed(&self, rank: usize, other: usize) -> Option<String> {
        let (own, theirs) = (self.of(rank), self.of(other));
        // A call that this rank refused waits for no other rank.
        unanswered(own.collectives(), theirs.collectives())
            .next()
            .map(|(number, (call, _))| format!("collective #{number} ({call})"))
            .or_else(|| self.first_unreceived(rank, other))
            .or_else(|| self.first_unsent(other, rank))
            .or_else(|| Some(self.signals.unraised(other, rank)?.to_string()))
    }

    /// The first receive whose send the other rank has not called.
    fn first_unsent(&self, from: usize, to: usize) -> Option<String> {
        let (receives, sends) = (self.of(to).receives(from), self.of(from).sends(to));
        unanswered(&receives, &sends).next().map(transfer)
    }

    /// The first send whose receive the other rank has not called.
    fn first_unreceived(&self, from: usize, to: usize) -> Option<String> {
        let (sends, receives) = (self.of(from).sends(to), self.of(to).receives(from));
        unanswered(&sends, &receives).next().map(transfer)
    }

    /// The error of a rank whose send was never received.
    fn unreceived(&self, from: usize, to: usize) -> Option<Error> {
        let during = self.first_unreceived(from, to)?;
        let state = self.state.lock();
        let left = state.left.iter().find(|left| left.rank == to)?;
        Some(self.gone(&[left], during))
    }
}

/// `transfer #3 (send of 8 f32 to 1, at pipe.rs:7)`
fn transfer((number, (call, _)): (u64, (Call, u8))) -> String {
    format!("transfer #{number} ({call})")
}

//! Who left, and what that keeps from ending.

use typed_nccl_match::unanswered;

use super::Family;
use crate::Rank;
use crate::backend::Departure;
use crate::error::{Call, Error, PeerFailed, Revocation};

/// What a rank waits for that has called nothing that lacks another rank.
const NEXT: &str = "the next operation";

/// Who a rank waits for that has not raised a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::nccl) enum Owing {
    /// One that can.
    Living,
    /// Only processes that have died. What they called for may not have been raised either.
    Dead,
}

/// A rank that left.
pub(super) struct Left {
    pub(super) rank: usize,
    pub(super) why: String,
    /// It was done, as far as it knew.
    pub(super) finished: bool,
}

impl Family {
    /// A rank will enqueue nothing more.
    pub(in crate::nccl) fn depart(&self, rank: usize, why: &str, how: Departure) {
        // What ended it is known to everybody.
        let is_news = !self.state.lock().ended;
        if let Some(remote) = self.remote.as_ref().filter(|_| is_news) {
            remote.leave(self, why, how);
        }
        self.departed(rank, why, how, true);
    }

    /// A rank, here or elsewhere, will enqueue nothing more. `is_known`: all that it called is.
    pub(super) fn departed(&self, rank: usize, why: &str, how: Departure, is_known: bool) {
        let mut state = self.state.lock();
        if state.ended {
            // The first cause is known to everybody; ranks that leave because of it are no news.
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
        // All of them before any of them can pass it on as its own.
        let told: Vec<_> = others
            .filter_map(|(other, member)| Some((other, member.health()?)))
            .filter(|(other, health)| health.poison(error(*other)))
            .map(|(_, health)| health)
            .collect();
        // Whoever finds the end noted finds everybody poisoned.
        drop(state);
        for health in told {
            health.tell_others();
        }
    }

    /// Who owes signals to a rank, if anybody does.
    pub(in crate::nccl) fn owing(&self, to: usize) -> Option<Owing> {
        let dead = self.state.lock().dead.clone();
        if self.signals.is_owed(to, |from| !dead.contains(&from)) {
            return Some(Owing::Living);
        }
        dead.iter().any(|from| self.signals.awaits_any(to, *from)).then_some(Owing::Dead)
    }

    /// These ranks are lost. Those that were done, as far as they knew, speak last.
    fn gone(&self, lost: &[&Left], during: String) -> Error {
        let mut lost: Vec<_> = lost.to_vec();
        lost.sort_by_key(|left| left.finished);
        let lost: Vec<_> = lost.iter().map(|left| (Rank::at(left.rank), &*left.why)).collect();
        PeerFailed::new(self.name, &lost, during).into()
    }

    /// Ranks that ended regularly and called less than `rank` did, so that a call of `rank`'s never
    /// ends.
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

    /// A send of `rank`'s, or to it, that nobody received, when all have finished. NCCL may be done with
    /// one that is never met.
    pub(in crate::nccl) fn unmet(&self, rank: usize) -> Option<Error> {
        let others = || (0..self.size()).filter(|&other| other != rank);
        let own = others().find_map(|to| self.unreceived(rank, to));
        own.or_else(|| {
            others().find_map(|from| {
                let (why, during) = (self.unreceived(from, rank)?.to_string(), "finish".to_owned());
                let lost = [(Rank::at(from), &*why)];
                Some(PeerFailed::new(self.name, &lost, during).into())
            })
        })
    }

    /// The first of a rank's calls that lacks another rank's.
    fn missed(&self, rank: usize, other: usize) -> Option<String> {
        let (own, theirs) = (self.of(rank), self.of(other));
        // What this rank refused waits for nobody.
        unanswered(own.collectives(), theirs.collectives())
            .next()
            .map(|(number, (call, _))| format!("collective #{number} ({call})"))
            .or_else(|| self.first_unreceived(rank, other))
            .or_else(|| self.first_unsent(other, rank))
            .or_else(|| Some(self.signals.unraised(other, rank)?.to_string()))
    }

    /// The first receive of a rank's from another one that has not called the send of it.
    fn first_unsent(&self, from: usize, to: usize) -> Option<String> {
        let (receives, sends) = (self.of(to).receives(from), self.of(from).sends(to));
        unanswered(&receives, &sends).next().map(transfer)
    }

    /// The first send from one rank to another that it has not called the receive of.
    fn first_unreceived(&self, from: usize, to: usize) -> Option<String> {
        let (sends, receives) = (self.of(from).sends(to), self.of(to).receives(from));
        unanswered(&sends, &receives).next().map(transfer)
    }

    /// What a rank is told whose send to another one was never received.
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

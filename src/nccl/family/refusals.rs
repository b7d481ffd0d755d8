//! Calls that a rank refused. The other ranks' parts of them never complete.

use serde::{Deserialize, Serialize};
use typed_nccl_match::Log;

use super::Family;
use crate::Rank;
use crate::backend::{Refusal, Slot};
use crate::error::{Error, Refused};

/// A call that a rank refused.
pub(super) struct Turn {
    pub(super) by: usize,
    pub(super) what: What,
    pub(super) number: u64,
    pub(super) reason: Error,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    Collective,
    /// To this rank.
    Send(usize),
    /// From this rank.
    Recv(usize),
    /// A put or a signal to this rank, in this slot.
    Signal(usize, Slot),
}

/// How many refusals of each rank are kept.
const REFUSALS: usize = 256;

impl Family {
    /// Records calls that a rank refused.
    pub(in crate::nccl) fn refuse(&self, by: usize, refusals: &[Refusal], reason: &Error) {
        let recorder = self.recorder(by);
        let turns = refusals.iter().filter_map(|refusal| {
            let (what, number) = match *refusal {
                Refusal::Collective => (What::Collective, recorder.refused()),
                Refusal::SendTo(to) => (What::Send(to.index()), recorder.refused_send(to.index())),
                Refusal::RecvFrom(from) => {
                    (What::Recv(from.index()), recorder.refused_recv(from.index()))
                }
                Refusal::Signal(to, slot) => {
                    recorder.refused_signal();
                    (What::Signal(to.index(), slot), self.signals.refused(by, to, slot))
                }
                Refusal::Wait(..) => return None,
            };
            Some(Turn { by, what, number, reason: reason.clone() })
        });
        let turns: Vec<_> = turns.collect();
        if let Some(remote) = &self.remote {
            remote.refuse(&turns, reason);
        }
        self.note_refused(by, turns);
    }

    /// Records that a rank, of this process or another, refused calls.
    pub(super) fn note_refused(&self, by: usize, turns: Vec<Turn>) {
        let mut state = self.state.lock();
        state.refused.extend(turns);
        // Old ones have been reported already, or no rank waits for them.
        let own = state.refused.iter().filter(|turn| turn.by == by).count();
        let mut surplus = own.saturating_sub(REFUSALS);
        state.refused.retain(|turn| {
            let goes = surplus > 0 && turn.by == by;
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// A call of `rank` that never completes, because another rank refused its part.
    pub(in crate::nccl) fn refused(&self, rank: usize) -> Option<Error> {
        let state = self.state.lock();
        let own = self.of(rank);
        let stuck = state.refused.iter().find(|turn| {
            // This rank's count of the same call.
            let (mine, called) = match turn.what {
                _ if turn.by == rank => return false,
                What::Collective => (What::Collective, own.issued()),
                What::Send(to) if to == rank => (What::Recv(turn.by), own.received(turn.by)),
                What::Recv(from) if from == rank => (What::Send(turn.by), own.sent(turn.by)),
                What::Signal(to, slot) if to == rank => {
                    return self.signals.awaits(turn.by, rank, slot, turn.number);
                }
                _ => return false,
            };
            let too = |other: &Turn| {
                other.by == rank && other.what == mine && other.number == turn.number
            };
            let refused_too = mine == What::Collective
                && turn.number >= own.collectives().known().start
                && own.call(turn.number).is_none();
            called > turn.number && !refused_too && !state.refused.iter().any(too)
        })?;
        let call = match stuck.what {
            // An old call may be forgotten; then the last one stands in for it.
            What::Collective => own.call(stuck.number).or_else(|| own.last()),
            What::Signal(_, slot) => self.signals.wait(stuck.by, rank, slot),
            What::Send(_) => own.receive(stuck.by, stuck.number).or_else(|| own.last()),
            What::Recv(_) => own.send(stuck.by, stuck.number).or_else(|| own.last()),
        };
        let (by, reason) = (Rank::at(stuck.by), stuck.reason.clone());
        let name = self.name;
        drop(state);
        Some(Refused { name, call: call?, by, reason }.into())
    }
}

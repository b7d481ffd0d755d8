//! Pairs: sends and receives between two ranks, first in, first out.

use std::collections::VecDeque;

use super::comm::{CommState, Place};
use super::flight::{Booked, HostOp};
use super::job::{Done, Job};
use super::round::{mismatch, refused};
use super::state::{Out, State};
use crate::Rank;
use crate::backend::Half;
use crate::error::{Call, Error};
use crate::host::moves::{Held, Moves};

/// From one rank to another.
#[derive(Default)]
pub(super) struct Pairs {
    /// The transfers that are not over, by number from `base` on.
    transfers: VecDeque<Transfer>,
    base: u64,
    /// How many sends, and receives, the ranks have issued or refused.
    pub(super) sent: u64,
    pub(super) received: u64,
}

#[derive(Default)]
struct Transfer {
    send: End,
    recv: End,
    moving: bool,
}

/// One rank's end of a transfer.
#[derive(Default)]
enum End {
    #[default]
    Missing,
    /// Its group has reached it: operation `at` of it.
    Here {
        at: usize,
        call: Call,
    },
    Refused {
        reason: Error,
    },
    Over,
}

impl Transfer {
    /// Which end is here, and its call, if the other is missing.
    fn half(&self) -> Option<(Half, Call)> {
        match (&self.send, &self.recv) {
            (End::Here { call, .. }, End::Missing) => Some((Half::SendTo, *call)),
            (End::Missing, End::Here { call, .. }) => Some((Half::RecvFrom, *call)),
            _ => None,
        }
    }
}

impl Pairs {
    fn get(&mut self, index: u64) -> Option<&mut Transfer> {
        self.transfers.get_mut(usize::try_from(index.checked_sub(self.base)?).ok()?)
    }

    fn set(&mut self, index: u64, side: Half, end: End) {
        // Those that wait in queues have their place: see `CommState::set_part`.
        while self.base + self.transfers.len() as u64 <= index {
            self.transfers.push_back(Transfer::default());
        }
        if let Some(transfer) = self.get(index) {
            match side {
                Half::SendTo => transfer.send = end,
                Half::RecvFrom => transfer.recv = end,
            }
        }
    }

    fn over(&mut self, index: u64) {
        if let Some(transfer) = self.get(index) {
            *transfer = Transfer { send: End::Over, recv: End::Over, moving: false };
        }
        while self.transfers.front().is_some_and(|t| matches!(t.send, End::Over)) {
            self.transfers.pop_front();
            self.base += 1;
        }
    }

    /// Transfers with one end here and the other missing: number, which end is here, its call.
    pub(super) fn half(&self) -> impl Iterator<Item = (u64, Half, Call)> {
        self.half_from(self.base)
    }

    /// The same, from this number on, which is in the list or behind it.
    fn half_from(&self, first: u64) -> impl Iterator<Item = (u64, Half, Call)> {
        let passed = usize::try_from(first - self.base).unwrap_or(usize::MAX);
        (first..)
            .zip(self.transfers.iter().skip(passed))
            .filter_map(|(index, transfer)| transfer.half().map(|(side, call)| (index, side, call)))
    }

    /// The first transfer with one end here whose other rank has not issued its own. Those that both
    /// have issued are passed over as a whole: there may be as many as a program likes.
    pub(super) fn unanswered(&self) -> Option<(u64, Half, Call)> {
        let answered = self.sent.min(self.received).max(self.base);
        self.half_from(answered).find(|(index, side, _)| match side {
            Half::SendTo => self.received <= *index,
            Half::RecvFrom => self.sent <= *index,
        })
    }

    /// Whether a transfer waits for its other end.
    pub(super) fn is_half(&self, index: u64, side: Half) -> bool {
        let at = index.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let transfer = at.and_then(|at| self.transfers.get(at));
        transfer.and_then(Transfer::half).is_some_and(|(here, _)| here == side)
    }

    /// Forgets every transfer that does not move; hands back which ends had a group waiting.
    pub(super) fn void(&mut self) -> Vec<Half> {
        let mut ends = Vec::new();
        for t in self.transfers.iter_mut().filter(|t| !t.moving) {
            for (side, end) in [(Half::SendTo, &mut t.send), (Half::RecvFrom, &mut t.recv)] {
                if let End::Here { .. } = std::mem::replace(end, End::Over) {
                    ends.push(side);
                }
            }
        }
        ends
    }
}

impl CommState {
    pub(super) fn pairs(&mut self, from: usize, to: usize) -> &mut Pairs {
        let size = self.members.len();
        self.pairs.take(from * size + to)
    }

    /// None if neither has called the other.
    pub(super) fn seen_pairs(&self, from: usize, to: usize) -> Option<&Pairs> {
        self.pairs.get(from * self.members.len() + to)
    }

    fn take_held(&mut self, rank: usize, at: usize) -> Option<Held> {
        match &mut self.members[rank].flight.as_mut()?.ops[at] {
            HostOp { op: Booked::Transfer(one), .. } => one.span.take(),
            _ => None,
        }
    }
}

impl State {
    /// A rank's group has reached the transfer at `at`.
    pub(super) fn post_transfer(&mut self, place: Place, at: usize, out: &mut Out) {
        self.order_operates(place, at);
        let Some(comm) = self.comm(place) else { return };
        let Some(flight) = comm.members[place.rank].flight.as_ref() else { return };
        let HostOp { index, op: Booked::Transfer(one) } = &flight.ops[at] else { return };
        let (index, side, peer, call) = (*index, one.half, one.peer.index(), one.call);
        let refused = flight.refused.clone();
        let is_refused = refused.is_some();
        let end = refused.map_or(End::Here { at, call }, |reason| End::Refused { reason });
        let (from, to) = ends(place.rank, peer, side);
        comm.pairs(from, to).set(index, side, end);
        if is_refused {
            self.op_over(place);
        }
        self.meet(place, from, to, index, out);
    }

    /// A rank refused its next transfer with `peer`.
    pub(super) fn refuse_transfer(
        &mut self,
        place: Place,
        side: Half,
        peer: usize,
        reason: Error,
        out: &mut Out,
    ) {
        let Some(comm) = self.comm(place) else { return };
        let (broken, (from, to)) = (comm.broken, ends(place.rank, peer, side));
        let pairs = comm.pairs(from, to);
        let count = match side {
            Half::SendTo => &mut pairs.sent,
            Half::RecvFrom => &mut pairs.received,
        };
        let index = *count;
        *count += 1;
        if !broken {
            pairs.set(index, side, End::Refused { reason });
            self.meet(place, from, to, index, out);
        }
    }

    /// Decides what happens to a transfer once both ends are there.
    fn meet(&mut self, place: Place, from: usize, to: usize, index: u64, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let name = comm.name;
        let Some(transfer) = comm.pairs(from, to).get(index) else { return };
        match (&transfer.send, &transfer.recv) {
            (&End::Here { at: s, call: send }, &End::Here { at: r, call: recv }) => {
                if (send.count, send.dtype) != (recv.count, recv.dtype) {
                    let what = format!("transfer #{index} from rank {from} to rank {to}");
                    let calls = vec![(Rank::at(from), send), (Rank::at(to), recv)];
                    let error = mismatch(name, what, calls);
                    comm.members[from].pend(error.clone());
                    if from != to {
                        comm.members[to].pend(error);
                    }
                } else if send.count > 0 {
                    transfer.moving = true;
                    if let (Some(source), Some(target)) =
                        (comm.take_held(from, s), comm.take_held(to, r))
                    {
                        self.order_message(place, from, to);
                        let done = Done::Transfer { place, from, to, index };
                        out.jobs.push(Job::new(done, Moves::copy(source, target)));
                        return;
                    }
                }
                self.transfer_over(place, from, to, index);
            }
            (End::Refused { reason }, &End::Here { call, .. }) => {
                let error = refused(name, from, call, reason.clone());
                comm.members[to].pend(error);
                comm.pairs(from, to).over(index);
                self.op_over(place.of(to));
            }
            (&End::Here { call, .. }, End::Refused { reason }) => {
                let error = refused(name, to, call, reason.clone());
                comm.members[from].pend(error);
                comm.pairs(from, to).over(index);
                self.op_over(place.of(from));
            }
            (End::Refused { .. }, End::Refused { .. }) => comm.pairs(from, to).over(index),
            _ => self.check_pair(place, from, to, out),
        }
    }

    /// Both ranks are done with a transfer.
    pub(super) fn transfer_over(&mut self, place: Place, from: usize, to: usize, index: u64) {
        if let Some(comm) = self.comm(place) {
            comm.pairs(from, to).over(index);
        }
        self.op_over(place.of(from));
        self.op_over(place.of(to));
    }
}

/// Sender and receiver of a transfer between this rank and a peer.
pub(super) fn ends(rank: usize, peer: usize, side: Half) -> (usize, usize) {
    match side {
        Half::SendTo => (rank, peer),
        Half::RecvFrom => (peer, rank),
    }
}

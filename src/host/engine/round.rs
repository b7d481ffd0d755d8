//! Rounds: one collective, from its first arrival to its end on all ranks.

use super::comm::{CommState, Place};
use super::flight::{Booked, HostOp, entry};
use super::job::{Done, Job};
use super::state::{Out, State};
use crate::Rank;
use crate::error::{Call, Error, Mismatch, Refused};
use crate::host::moves::Moves;

/// One collective of a communicator.
pub(super) struct Round {
    parts: Vec<Arrival>,
    /// How many ranks have arrived.
    arrived: usize,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not every rank has arrived.
    Waiting,
    /// Data moves.
    Moving,
    /// Every rank is done with it.
    Over,
}

/// A rank's part.
enum Arrival {
    Missing,
    /// Its group has reached the collective: operation `at` of it.
    Here {
        at: usize,
        call: Configured,
    },
    /// It moves nothing and went on at once (NCCL drops a collective of no elements).
    Empty {
        call: Configured,
    },
    /// It refused its call.
    Refused {
        reason: Error,
    },
}

/// A call, and a number for how it is configured.
type Configured = (Call, u8);

impl Round {
    fn new(size: usize) -> Self {
        let parts = (0..size).map(|_| Arrival::Missing).collect();
        Self { parts, arrived: 0, phase: Phase::Waiting }
    }

    fn reset(&mut self) {
        (self.arrived, self.phase) = (0, Phase::Waiting);
        self.parts.fill_with(|| Arrival::Missing);
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting && self.arrived > 0
    }

    pub(super) fn has(&self, rank: usize) -> bool {
        !matches!(self.parts[rank], Arrival::Missing)
    }

    /// Whether this rank's group waits in it.
    pub(super) fn holds(&self, rank: usize) -> bool {
        self.is_waiting() && matches!(self.parts[rank], Arrival::Here { .. })
    }

    pub(super) fn any_call(&self) -> Option<Call> {
        self.parts.iter().find_map(Arrival::call)
    }

    /// Ends it where it waits; hands back the ranks whose groups waited in it.
    pub(super) fn void(&mut self) -> Vec<usize> {
        if !self.is_waiting() {
            return Vec::new();
        }
        self.phase = Phase::Over;
        let here = |rank: &usize| matches!(self.parts[*rank], Arrival::Here { .. });
        (0..self.parts.len()).filter(here).collect()
    }

    fn is_complete(&self) -> bool {
        self.arrived == self.parts.len()
    }

    /// What of it differs, if the ranks' calls are not one collective.
    fn differs(&self) -> Option<&'static str> {
        let calls = || self.parts.iter().filter_map(Arrival::configured);
        let (first, config) = calls().next()?;
        if calls().any(|(call, _)| !call.matches(&first)) {
            return Some("");
        }
        calls().any(|(_, other)| other != config).then_some("the `CallConfig` of ")
    }

    fn calls(&self) -> Vec<(Rank, Call)> {
        let call = |(rank, part): (usize, &Arrival)| Some((Rank::at(rank), part.call()?));
        self.parts.iter().enumerate().filter_map(call).collect()
    }

    fn refusal(&self) -> Option<(usize, Error)> {
        self.parts.iter().enumerate().find_map(|(rank, part)| match part {
            Arrival::Refused { reason } => Some((rank, reason.clone())),
            _ => None,
        })
    }
}

impl Arrival {
    fn call(&self) -> Option<Call> {
        self.configured().map(|(call, _)| call)
    }

    fn configured(&self) -> Option<Configured> {
        match self {
            Self::Here { call, .. } | Self::Empty { call } => Some(*call),
            _ => None,
        }
    }
}

impl CommState {
    pub(super) fn round(&mut self, index: u64) -> Option<&mut Round> {
        self.rounds.get_mut(usize::try_from(index.checked_sub(self.base)?).ok()?)
    }

    /// A round that waits, by its number.
    pub(super) fn seen_round(&self, index: u64) -> Option<&Round> {
        self.rounds.get(usize::try_from(index.checked_sub(self.base)?).ok()?)
    }

    fn set_part(&mut self, rank: usize, index: u64, part: Arrival) {
        let size = self.members.len();
        // Refusals come ahead of calls that wait in queues: those have their rounds all the same, or
        // nothing behind them could ever be forgotten.
        while self.base + self.rounds.len() as u64 <= index {
            self.rounds.push_back(self.spare.pop().unwrap_or_else(|| Round::new(size)));
        }
        if let Some(round) = self.round(index) {
            round.arrived += usize::from(!round.has(rank));
            round.parts[rank] = part;
        }
    }

    /// Marks a round as over and forgets the ones that are.
    fn close_round(&mut self, index: u64) {
        if let Some(round) = self.round(index) {
            round.phase = Phase::Over;
        }
        self.forget_rounds();
    }

    /// Forgets the rounds that are over.
    pub(super) fn forget_rounds(&mut self) {
        while self.rounds.front().is_some_and(|round| round.phase == Phase::Over) {
            if let Some(mut round) = self.rounds.pop_front() {
                round.reset();
                self.spare.push(round);
            }
            self.base += 1;
        }
    }
}

impl State {
    /// A rank's group has reached the collective at `at`.
    pub(super) fn post_collective(&mut self, place: Place, at: usize, out: &mut Out) {
        self.order_operates(place, at);
        let Some(comm) = self.comm(place) else { return };
        let Some(flight) = comm.members[place.rank].flight.as_mut() else { return };
        let HostOp { index, op: Booked::Collective(one) } = &flight.ops[at] else { return };
        let (index, call) = (*index, (one.call, one.config.unwrap_or(0)));
        let part = match &flight.refused {
            Some(reason) => Arrival::Refused { reason: reason.clone() },
            None if one.call.count == 0 => Arrival::Empty { call },
            None => Arrival::Here { at, call },
        };
        let waits = matches!(part, Arrival::Here { .. });
        comm.set_part(place.rank, index, part);
        if !waits {
            self.op_over(place);
        }
        self.decide(place, index, out);
    }

    /// A rank refused its next collective.
    pub(super) fn refuse_collective(&mut self, place: Place, reason: Error, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let index = comm.members[place.rank].collectives;
        comm.members[place.rank].collectives += 1;
        if !comm.broken {
            comm.set_part(place.rank, index, Arrival::Refused { reason });
            self.decide(place, index, out);
        }
    }

    /// Decides what happens to a collective once every rank has arrived.
    fn decide(&mut self, place: Place, index: u64, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let name = comm.name;
        let Some(round) = comm.round(index) else { return };
        if !round.is_complete() {
            return self.check_round(place, index, out);
        }
        if let Some((by, reason)) = round.refusal() {
            let error = |call| refused(name, by, call, reason.clone());
            return self.void_round(place, index, &error);
        }
        if let Some(part) = round.differs() {
            let calls = round.calls();
            let what = format!("{part}collective #{index}");
            let error = |_| mismatch(name, what.clone(), calls.clone());
            return self.void_round(place, index, &error);
        }
        round.phase = Phase::Moving;
        let (is_checked, size) = (comm.order.is_some(), comm.size());
        let (mut entries, mut ranks) = (Vec::with_capacity(size), Vec::new());
        for rank in 0..comm.members.len() {
            let Some(Arrival::Here { at, .. }) = comm.round(index).map(|round| &round.parts[rank])
            else {
                continue;
            };
            let at = *at;
            if let Some(flight) = comm.members[rank].flight.as_mut()
                && let Booked::Collective(queued) = &mut flight.ops[at].op
            {
                entries.push(entry(queued));
                if is_checked {
                    ranks.push(rank);
                }
            }
        }
        if entries.is_empty() {
            comm.close_round(index);
        } else {
            self.order_collective(place, &entries[0], &ranks);
            out.jobs.push(Job::new(Done::Round { place, index }, Moves::new(entries)));
        }
    }

    /// The collective does not happen; every rank that made a call is told at its next wait.
    fn void_round(&mut self, place: Place, index: u64, error: &dyn Fn(Call) -> Error) {
        let Some(comm) = self.comm(place) else { return };
        for rank in 0..comm.members.len() {
            let call = comm.round(index).and_then(|round| round.parts[rank].call());
            if let Some(call) = call {
                comm.members[rank].pend(error(call));
            }
        }
        self.round_over(place, index);
    }

    /// Every rank is done with a collective.
    pub(super) fn round_over(&mut self, place: Place, index: u64) {
        let Some(comm) = self.comm(place) else { return };
        let size = comm.members.len();
        for rank in 0..size {
            let Some(comm) = self.comm(place) else { return };
            let here = |round: &mut Round| matches!(round.parts[rank], Arrival::Here { .. });
            if comm.round(index).is_some_and(here) {
                self.op_over(place.of(rank));
            }
        }
        if let Some(comm) = self.comm(place) {
            comm.close_round(index);
        }
    }
}

pub(super) fn refused(name: &'static str, by: usize, call: Call, reason: Error) -> Error {
    Error::Refused(Box::new(Refused { name, call, by: Rank::at(by), reason }))
}

pub(super) fn mismatch(name: &'static str, what: String, calls: Vec<(Rank, Call)>) -> Error {
    Error::Mismatch(Box::new(Mismatch { name, what, calls, ended: false }))
}

//! Flights: the group that a rank is at, from its first operation to its last.
//!
//! A group is a bag with NCCL's order: first the one-sided operations, one after the other in program
//! order; then all collectives; then all transfers. A phase begins when the one before is over.

use super::comm::Place;
use super::job::{Done, Job};
use super::state::{Out, State, Step};
use crate::backend::{Slot, WindowId};
use crate::error::{Call, Error};
use crate::host::moves::{Entry, Held, Moves};

/// An operation of a group. `index` counts collectives, and transfers of a pair, as they are issued.
pub(super) enum HostOp {
    Collective { index: u64, entry: Option<Entry> },
    SendTo { peer: usize, index: u64, call: Call, from: Option<Held> },
    RecvFrom { peer: usize, index: u64, call: Call, to: Option<Held> },
    Put { call: Call, peer: usize, from: Option<Held>, window: WindowId, offset: usize, slot: Slot },
    Signal { call: Call, peer: usize, slot: Slot },
    Wait { call: Call, peer: usize, slot: Slot, count: u64 },
}

impl HostOp {
    pub(super) fn call(&self) -> Option<Call> {
        match self {
            Self::Collective { entry, .. } => entry.as_ref().map(|entry| entry.call),
            Self::SendTo { call, .. }
            | Self::RecvFrom { call, .. }
            | Self::Put { call, .. }
            | Self::Signal { call, .. }
            | Self::Wait { call, .. } => Some(*call),
        }
    }
}

pub(super) struct Flight {
    /// The stream that is at this group.
    pub(super) stream: usize,
    pub(super) ops: Vec<HostOp>,
    pub(super) phase: Phase,
    /// Operations of this phase that are not over.
    pub(super) left: usize,
    /// The communicator broke: nothing more starts.
    pub(super) void: bool,
    /// Why this rank refuses its part. Its waits still consume the signals that they wait for.
    pub(super) refused: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// At this operation, among the one-sided ones.
    OneSided(usize),
    Collectives,
    Transfers,
}

impl Flight {
    pub(super) fn new(stream: usize, ops: Vec<HostOp>, refused: Option<Error>) -> Self {
        Self { stream, ops, phase: Phase::OneSided(0), left: 0, void: false, refused }
    }

    /// Lets go of memory, after the lock; the list can be used again.
    fn give_back(mut self, out: &mut Out) -> Vec<HostOp> {
        for op in self.ops.drain(..) {
            match op {
                HostOp::Collective { entry, .. } => out.drop_entry(entry),
                HostOp::SendTo { from: held, .. }
                | HostOp::RecvFrom { to: held, .. }
                | HostOp::Put { from: held, .. } => out.drop_held(held),
                HostOp::Signal { .. } | HostOp::Wait { .. } => {}
            }
        }
        self.ops
    }
}

impl State {
    /// A stream has reached a group, and it is the group's turn.
    pub(super) fn take_off(&mut self, place: Place, mut flight: Flight, out: &mut Out) {
        let stream = flight.stream;
        let Some(member) = self.member(place) else {
            // The communicator is forgotten only when none of its groups is left.
            flight.give_back(out);
            return self.task_over(stream, out);
        };
        flight.void = member.fault.is_some();
        member.flight = Some(flight);
        if let Some(fault) = member.fault.clone() {
            let health = member.health.clone();
            self.void(stream, health, fault);
        }
        self.order_takes_off(place);
        self.todo.push(Step::Member(place));
    }

    /// Moves a rank's group along as far as it goes.
    pub(super) fn fly(&mut self, place: Place, out: &mut Out) {
        loop {
            let Some(flight) = self.member(place).and_then(|m| m.flight.as_mut()) else { return };
            if flight.left > 0 {
                return;
            }
            if flight.void {
                return self.land(place, out);
            }
            match flight.phase {
                Phase::OneSided(at) => {
                    if at < flight.ops.len() {
                        if !self.one_sided(place, at, out) {
                            return;
                        }
                    } else {
                        flight.phase = Phase::Collectives;
                        self.post_all(place, out, |op| matches!(op, HostOp::Collective { .. }));
                    }
                }
                Phase::Collectives => {
                    flight.phase = Phase::Transfers;
                    self.post_all(place, out, |op| {
                        matches!(op, HostOp::SendTo { .. } | HostOp::RecvFrom { .. })
                    });
                }
                Phase::Transfers => return self.land(place, out),
            }
        }
    }

    /// Posts every operation of a phase. All are counted first: one may be over at once.
    fn post_all(&mut self, place: Place, out: &mut Out, of_phase: fn(&HostOp) -> bool) {
        let Some(flight) = self.member(place).and_then(|m| m.flight.as_mut()) else { return };
        flight.left = flight.ops.iter().filter(|op| of_phase(op)).count();
        for at in 0..flight.ops.len() {
            let Some(flight) = self.member(place).and_then(|m| m.flight.as_mut()) else { return };
            if flight.void {
                // Posting the one before broke the communicator: the rest is not waited for.
                let rest = flight.ops[at..].iter().filter(|op| of_phase(op)).count();
                flight.left = flight.left.saturating_sub(rest);
                return;
            }
            match &flight.ops[at] {
                op if !of_phase(op) => {}
                HostOp::Collective { .. } => self.post_collective(place, at, out),
                HostOp::SendTo { .. } | HostOp::RecvFrom { .. } => {
                    self.post_transfer(place, at, out);
                }
                // One by one, before these.
                HostOp::Put { .. } | HostOp::Signal { .. } | HostOp::Wait { .. } => {}
            }
        }
    }

    /// Starts the one-sided operation `at`; true if the group can go on at once.
    fn one_sided(&mut self, place: Place, at: usize, out: &mut Out) -> bool {
        self.order_put(place, at);
        let Some(comm) = self.comm(place) else { return false };
        let Some(flight) = comm.members[place.rank].flight.as_mut() else { return false };
        if let Some(reason) = &flight.refused
            && let HostOp::Put { peer, slot, .. } | HostOp::Signal { peer, slot, .. } =
                &flight.ops[at]
        {
            let (peer, slot, reason) = (*peer, *slot, reason.clone());
            flight.phase = Phase::OneSided(at + 1);
            self.raise(place, peer, slot, Err(reason));
            return true;
        }
        match &mut flight.ops[at] {
            HostOp::Collective { .. } | HostOp::SendTo { .. } | HostOp::RecvFrom { .. } => {}
            HostOp::Put { call, peer, from, window, offset, slot } => {
                let (peer, slot, site) = (*peer, *slot, call.site);
                let to = comm.windows.get(window).and_then(|window| window.held(peer, *offset));
                if let (Some(from), Some(to)) = (from.take(), to) {
                    flight.left = 1;
                    flight.phase = Phase::OneSided(at + 1);
                    out.jobs.push(Job::new(
                        Done::Put { from: place, to: peer, slot, site },
                        Moves::copy(from, to),
                    ));
                    return false;
                }
            }
            HostOp::Signal { call, peer, slot } => {
                let (peer, slot, site) = (*peer, *slot, call.site);
                flight.phase = Phase::OneSided(at + 1);
                self.raise(place, peer, slot, Ok(site));
                return true;
            }
            HostOp::Wait { peer, slot, count, .. } => {
                let (peer, slot, count) = (*peer, *slot, *count);
                let Some(consumed) = comm.signals.consume(place.rank, peer, slot, count) else {
                    self.check_wait(place, out);
                    return false;
                };
                let refused = comm.signals.take_refusal(place.rank, peer, slot);
                let call = comm.members[place.rank].flight.as_ref().and_then(|f| f.ops[at].call());
                if let (Some(reason), Some(call)) = (refused, call) {
                    let error = super::round::refused(comm.name, peer, call, reason);
                    comm.members[place.rank].pend(error);
                }
                if let Some(flight) = comm.members[place.rank].flight.as_mut() {
                    flight.phase = Phase::OneSided(at + 1);
                }
                self.order_consumed(place, (peer, slot), consumed);
                return true;
            }
        }
        flight.phase = Phase::OneSided(at + 1);
        true
    }

    /// One of the operations that a rank's phase waits for is over.
    pub(super) fn op_over(&mut self, place: Place) {
        if let Some(flight) = self.member(place).and_then(|m| m.flight.as_mut()) {
            flight.left = flight.left.saturating_sub(1);
            if flight.left == 0 {
                self.todo.push(Step::Member(place));
            }
        }
    }

    /// The group is over: its stream goes on, and so does the communicator's next group.
    fn land(&mut self, place: Place, out: &mut Out) {
        let Some(flight) = self.member(place).and_then(|m| m.flight.take()) else { return };
        let stream = flight.stream;
        self.spare.push(flight.give_back(out));
        self.take_turn(place);
        self.task_over(stream, out);
        self.order_lands(place, stream);
        self.check_departed(place, out);
        self.sweep(place, out);
    }
}

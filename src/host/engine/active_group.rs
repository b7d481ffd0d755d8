//! The group that a rank is executing, from its first operation to its last.
//!
//! A group follows NCCL's order: first the one-sided operations, one by one in program order; then
//! all collectives; then all transfers. Each phase begins when the previous one is over.

use super::comm::MemberId;
use super::job::{Done, Job};
use super::state::{Out, State, Step, Void};
use crate::backend::form::{self, Put};
use crate::backend::{Signal, Target, Wait};
use crate::error::{Call, Error};
use crate::host::Scale;
use crate::host::moves::{Entry, Held, Moves};

/// An operation of a group.
pub(super) struct HostOp {
    /// The number of the collective, or of the pair's transfer, in issue order.
    pub(super) index: u64,
    pub(super) op: Booked,
    /// Where a rank receives whose operation has other memory instead, which its peers can read.
    pub(super) private: Option<Box<Held>>,
}

/// An operation that holds its memory until its data moves.
pub(super) type Booked = form::Op<Option<Held>, Scale, Target, u8>;

impl HostOp {
    pub(super) fn call(&self) -> Call {
        self.op.call()
    }
}

/// The part of a collective that moves data.
pub(super) fn entry(queued: &mut form::Collective<Option<Held>, Scale, u8>) -> Entry {
    let form::Collective { name, call, reduction, send, recv, config } = queued;
    let (send, recv) = (send.take().flatten(), recv.take().flatten());
    let (reduction, config) = (reduction.take(), *config);
    Entry { name: *name, call: *call, reduction, send, recv, config }
}

pub(super) struct ActiveGroup {
    /// The stream that executes this group.
    pub(super) stream: usize,
    pub(super) ops: Vec<HostOp>,
    pub(super) phase: Phase,
    /// Operations of this phase that are not over.
    pub(super) left: usize,
    /// The communicator broke: nothing more starts.
    pub(super) void: bool,
    /// Why this rank refuses its part. Its waits still consume their signals.
    pub(super) refused: Option<Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// At this one-sided operation.
    OneSided(usize),
    Collectives,
    Transfers,
}

impl ActiveGroup {
    pub(super) fn new(stream: usize, ops: Vec<HostOp>, refused: Option<Error>) -> Self {
        Self { stream, ops, phase: Phase::OneSided(0), left: 0, void: false, refused }
    }

    /// The operation `at`, if it is a wait.
    pub(super) fn wait_at(&self, at: usize) -> Option<&Wait> {
        match &self.ops.get(at)?.op {
            Booked::Wait(wait) => Some(wait),
            _ => None,
        }
    }

    /// Releases memory once the lock is free, and returns the list for reuse.
    fn give_back(mut self, out: &mut Out) -> Vec<HostOp> {
        for op in self.ops.drain(..) {
            let (read, written) = op.op.sides();
            if read.into_iter().chain(written).any(Option::is_some) {
                out.void.push(Void::Op(op.op));
            }
        }
        self.ops
    }
}

impl State {
    /// Called when a stream has reached a group and it is the group's turn.
    pub(super) fn start_group(&mut self, place: MemberId, mut active: ActiveGroup, out: &mut Out) {
        let stream = active.stream;
        let Some(comm) = self.comm(place) else {
            // A communicator is removed only when it has no group left.
            active.give_back(out);
            return self.task_over(stream, out);
        };
        comm.active_groups += 1;
        let member = &mut comm.members[place.rank];
        let void = member.fault.is_some();
        active.void = void;
        member.active = Some(active);
        if let Some(fault) = member.fault.clone() {
            let health = member.health.clone();
            self.void(stream, health, fault);
        }
        self.order_group_start(place);
        if !void {
            self.say_group(place);
        }
        let active = self.member(place).and_then(|member| member.active.as_ref());
        if active.is_some_and(|active| active.refused.is_some()) {
            self.order_lost(place);
        }
        self.todo.push(Step::Member(place));
    }

    /// Advances a rank's group as far as possible.
    pub(super) fn advance_group(&mut self, place: MemberId, out: &mut Out) {
        loop {
            let Some(active) = self.member(place).and_then(|m| m.active.as_mut()) else { return };
            if active.left > 0 {
                return;
            }
            if active.void {
                self.order_lost(place);
                return self.finish_group(place, out);
            }
            match active.phase {
                Phase::OneSided(at) => {
                    if at < active.ops.len() {
                        if !self.one_sided(place, at, out) {
                            return;
                        }
                    } else {
                        active.phase = Phase::Collectives;
                        self.post_all(place, out, |op| matches!(op, Booked::Collective(_)));
                    }
                }
                Phase::Collectives => {
                    active.phase = Phase::Transfers;
                    self.post_all(place, out, |op| matches!(op, Booked::Transfer(_)));
                }
                Phase::Transfers => return self.finish_group(place, out),
            }
        }
    }

    /// Posts every operation of a phase. All are counted first, as one may be over at once.
    fn post_all(&mut self, place: MemberId, out: &mut Out, of_phase: fn(&Booked) -> bool) {
        let Some(active) = self.member(place).and_then(|m| m.active.as_mut()) else { return };
        active.left = active.ops.iter().filter(|op| of_phase(&op.op)).count();
        for at in 0..active.ops.len() {
            let Some(active) = self.member(place).and_then(|m| m.active.as_mut()) else { return };
            if active.void {
                // Posting the previous operation broke the communicator, so the rest is not waited
                // for.
                let rest = active.ops[at..].iter().filter(|op| of_phase(&op.op)).count();
                active.left = active.left.saturating_sub(rest);
                return;
            }
            match &active.ops[at].op {
                op if !of_phase(op) => {}
                Booked::Collective(_) | Booked::Transfer(_) => self.post_call(place, at, out),
                // Executed one by one, before these.
                Booked::Put(_) | Booked::Signal(_) | Booked::Wait(_) => {}
            }
        }
    }

    /// Starts the one-sided operation `at`; returns true if the group can proceed at once.
    fn one_sided(&mut self, place: MemberId, at: usize, out: &mut Out) -> bool {
        if let Some(goes_on) = self.put_elsewhere(place, at, out) {
            return goes_on;
        }
        self.order_put(place, at);
        let Some(comm) = self.comm(place) else { return false };
        let Some(active) = comm.members[place.rank].active.as_mut() else { return false };
        if let Some(reason) = &active.refused
            && let Booked::Put(Put { peer, slot, .. }) | Booked::Signal(Signal { peer, slot, .. }) =
                &active.ops[at].op
        {
            let (peer, slot, reason) = (peer.index(), *slot, reason.clone());
            active.phase = Phase::OneSided(at + 1);
            self.raise(place, peer, slot, Err(reason));
            return true;
        }
        match &mut active.ops[at].op {
            Booked::Collective(_) | Booked::Transfer(_) => {}
            Booked::Put(Put { call, peer, span, to, slot }) => {
                let (peer, slot, site) = (peer.index(), *slot, call.site);
                let (target, window) = (*to, comm.windows.get(&to.window));
                let bytes = span.as_ref().map_or(0, Held::bytes);
                let to = window.and_then(|window| window.held(peer, to.offset, bytes));
                if let (Some(from), Some(to)) = (span.take(), to) {
                    active.left = 1;
                    active.phase = Phase::OneSided(at + 1);
                    let done = Done::Put { from: place, to: peer, slot, site };
                    match to.far() {
                        Some(_) => self.put_far(place, peer, from, target, done, out),
                        None => out.jobs.push(Job::new(done, Moves::Copy { from, to })),
                    }
                    return false;
                }
            }
            Booked::Signal(Signal { call, peer, slot }) => {
                let (peer, slot, site) = (peer.index(), *slot, call.site);
                active.phase = Phase::OneSided(at + 1);
                self.raise(place, peer, slot, Ok(site));
                return true;
            }
            Booked::Wait(Wait { call, peer, slot, count }) => {
                let (call, peer, slot, count) = (*call, peer.index(), *slot, u64::from(*count));
                let Some(consumed) = comm.signals.consume(place.rank, peer, slot, count) else {
                    self.check_wait(place, out);
                    return false;
                };
                let refused = comm.signals.take_refusal(place.rank, peer, slot);
                let is_refused = refused.is_some();
                if let Some(reason) = refused {
                    let error = super::meeting::refused(comm.name, peer, call, reason);
                    comm.members[place.rank].pend(error);
                }
                if let Some(active) = comm.members[place.rank].active.as_mut() {
                    active.phase = Phase::OneSided(at + 1);
                }
                self.order_consumed(place, (peer, slot), consumed);
                if is_refused {
                    self.order_lost(place);
                }
                return true;
            }
        }
        active.phase = Phase::OneSided(at + 1);
        true
    }

    /// An operation of a rank's current phase is over.
    pub(super) fn op_over(&mut self, place: MemberId) {
        if let Some(active) = self.member(place).and_then(|m| m.active.as_mut()) {
            active.left = active.left.saturating_sub(1);
            if active.left == 0 {
                self.todo.push(Step::Member(place));
            }
        }
    }

    /// The group is over: advances its stream and the communicator's next group.
    fn finish_group(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let Some(active) = comm.members[place.rank].active.take() else { return };
        comm.active_groups -= 1;
        let stream = active.stream;
        self.spare.push(active.give_back(out));
        self.take_turn(place);
        self.task_over(stream, out);
        self.order_group_end(place, stream);
        self.check_departed(place, out);
        self.sweep(place, out);
    }
}

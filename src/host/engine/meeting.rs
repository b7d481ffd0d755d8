//! Meetings: collectives and transfers, from the arrival of the first rank to their end.
//!
//! [`typed_nccl_match`] decides which calls meet and whether they fit. This module applies the
//! result to the ranks' groups and memory.

use serde::{Deserialize, Serialize};
use typed_nccl_match::{Channel, Met};

use super::active_group::{Booked, HostOp, entry};
use super::comm::{CommState, MemberId};
use super::job::{Done, Job};
use super::state::{Out, State};
use crate::Rank;
use crate::backend::{Half, Refusal};
use crate::error::{Call, Error, Mismatch, Refused};
use crate::host::moves::{Collective, Moves};

/// The collectives of a communicator, or the transfers from one rank to another: sender first, then
/// receiver.
pub(super) type Calls = Channel<Here, Error>;
pub(super) type Meeting = typed_nccl_match::Meeting<Here, Error>;

/// A call that a rank's group has reached.
pub(super) struct Here {
    /// The operation in the group. `None` if it moves nothing and completed at once: NCCL drops
    /// collectives without elements.
    at: Option<usize>,
    pub(super) call: Call,
    /// A number that identifies its configuration.
    config: u8,
}

/// The collectives of a communicator, or the transfers of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Which {
    Collectives,
    Transfers { from: usize, to: usize },
}

impl Which {
    /// The transfers that a rank's transfer with a peer belongs to, and the rank's side of them.
    pub(super) fn of(rank: usize, peer: Rank, half: Half) -> (Self, usize) {
        let peer = peer.index();
        match half {
            Half::SendTo => (Self::Transfers { from: rank, to: peer }, 0),
            Half::RecvFrom => (Self::Transfers { from: peer, to: rank }, 1),
        }
    }

    /// The calls that a refused call of a rank is one of, and the rank's side of them; `None` for
    /// one-sided operations.
    pub(super) fn of_refusal(rank: usize, refusal: &Refusal) -> Option<(Self, usize)> {
        match *refusal {
            Refusal::Collective => Some((Self::Collectives, rank)),
            Refusal::SendTo(peer) => Some(Self::of(rank, peer, Half::SendTo)),
            Refusal::RecvFrom(peer) => Some(Self::of(rank, peer, Half::RecvFrom)),
            Refusal::Signal(..) | Refusal::Wait(..) => None,
        }
    }

    /// Whether its ranks are ranks of a communicator of this size.
    pub(super) fn is_within(self, size: usize) -> bool {
        match self {
            Self::Collectives => true,
            Self::Transfers { from, to } => from < size && to < size,
        }
    }

    /// The rank of a member of the meetings.
    pub(super) fn rank(self, member: usize) -> usize {
        match self {
            Self::Collectives => member,
            Self::Transfers { from, to } => [from, to][member],
        }
    }
}

/// A meeting of a communicator, which any member names.
#[derive(Clone, Copy)]
pub(super) struct MeetingId {
    pub(super) place: MemberId,
    pub(super) which: Which,
    pub(super) index: u64,
}

/// Transfers from one rank to another.
pub(super) struct Pairs {
    pub(super) calls: Calls,
    /// How many sends and receives the ranks have issued or refused.
    pub(super) issued: [u64; 2],
}

impl Default for Pairs {
    fn default() -> Self {
        Self { calls: Channel::new(2), issued: [0; 2] }
    }
}

impl Pairs {
    /// The first waiting transfer whose other side has not been issued. Transfers issued on both
    /// sides are skipped as a block, as there may be arbitrarily many.
    pub(super) fn unanswered(&self) -> Option<(u64, usize, Call)> {
        let [sent, received] = self.issued;
        let mut waiting =
            self.calls.from(sent.min(received)).filter(|(_, meeting)| meeting.is_waiting());
        waiting.find_map(|(index, meeting)| {
            let (end, here) = meeting.calls().next()?;
            (self.issued[1 - end] <= index).then_some((index, end, here.call))
        })
    }
}

/// Whether a rank's group waits in a meeting.
pub(super) fn holds(meeting: &Meeting, member: usize) -> bool {
    let is_here = |here: &Here| here.at.is_some();
    meeting.is_waiting() && meeting.call(member).is_some_and(is_here)
}

/// The call of the first member that has made one.
pub(super) fn any_call(meeting: &Meeting) -> Option<Call> {
    meeting.calls().next().map(|(_, here)| here.call)
}

impl CommState {
    fn pairs(&mut self, from: usize, to: usize) -> &mut Pairs {
        let size = self.members.len();
        self.pairs.take(from * size + to)
    }

    /// `None` if neither rank has made a transfer to the other.
    pub(super) fn seen_pairs(&self, from: usize, to: usize) -> Option<&Pairs> {
        self.pairs.get(from * self.members.len() + to)
    }

    fn calls(&mut self, which: Which) -> &mut Calls {
        match which {
            Which::Collectives => &mut self.rounds,
            Which::Transfers { from, to } => &mut self.pairs(from, to).calls,
        }
    }

    /// The calls, for reading; `None` if there are none.
    pub(super) fn seen_calls(&self, which: Which) -> Option<&Calls> {
        match which {
            Which::Collectives => Some(&self.rounds),
            Which::Transfers { from, to } => Some(&self.seen_pairs(from, to)?.calls),
        }
    }

    /// Numbers a member's next call.
    pub(super) fn number(&mut self, which: Which, member: usize) -> u64 {
        let count = match which {
            Which::Collectives => &mut self.members[member].collectives,
            Which::Transfers { from, to } => &mut self.pairs(from, to).issued[member],
        };
        *count += 1;
        *count - 1
    }

    /// Notes that a member has issued or refused so many calls.
    pub(super) fn issue_up_to(&mut self, which: Which, member: usize, calls: u64) {
        if calls == 0 {
            return;
        }
        let count = match which {
            Which::Collectives => &mut self.members[member].collectives,
            Which::Transfers { from, to } => &mut self.pairs(from, to).issued[member],
        };
        *count = calls.max(*count);
    }

    /// How many calls a member has issued or refused.
    pub(super) fn issued(&self, which: Which, member: usize) -> u64 {
        match which {
            Which::Collectives => self.members[member].collectives,
            Which::Transfers { from, to } => {
                self.seen_pairs(from, to).map_or(0, |pairs| pairs.issued[member])
            }
        }
    }

    /// The operation in the group with which a member waits.
    pub(super) fn at(&self, which: Which, index: u64, member: usize) -> Option<usize> {
        self.seen_calls(which)?.get(index)?.call(member)?.at
    }
}

impl State {
    /// Called when a rank's group has reached the collective or transfer at `at`.
    pub(super) fn post_call(&mut self, place: MemberId, at: usize, out: &mut Out) {
        self.order_operates(place, at);
        let Some(comm) = self.comm(place) else { return };
        let Some(active) = comm.members[place.rank].active.as_ref() else { return };
        let HostOp { index, op, .. } = &active.ops[at];
        let (index, call) = (*index, op.call());
        let ((which, member), config) = match op {
            Booked::Collective(one) => ((Which::Collectives, place.rank), one.config.unwrap_or(0)),
            Booked::Transfer(one) => (Which::of(place.rank, one.peer, one.half), 0),
            Booked::Put(_) | Booked::Signal(_) | Booked::Wait(_) => return,
        };
        let refused = active.refused.clone();
        let goes_on = refused.is_some() || (which == Which::Collectives && call.count == 0);
        let here = Here { at: (!goes_on).then_some(at), call, config };
        comm.calls(which).come(index, member, refused.map_or(Ok(here), Err));
        if goes_on {
            self.op_over(place);
        }
        self.meet(MeetingId { place, which, index }, out);
    }

    /// Records that a rank refused a call: its next one, or the one with this number. Returns the
    /// number.
    pub(super) fn refuse(
        &mut self,
        place: MemberId,
        refusal: &Refusal,
        index: Option<u64>,
        reason: &Error,
        out: &mut Out,
    ) -> Option<u64> {
        let Some((which, member)) = Which::of_refusal(place.rank, refusal) else {
            if let Refusal::Signal(to, slot) = *refusal {
                self.raise(place, to.index(), slot, Err(reason.clone()));
            }
            return Some(0);
        };
        let comm = self.comm(place)?;
        let index = index.unwrap_or_else(|| comm.issued(which, member));
        comm.issue_up_to(which, member, index.saturating_add(1));
        if !comm.broken {
            comm.calls(which).come(index, member, Err(reason.clone()));
            self.order_lost(place);
            self.meet(MeetingId { place, which, index }, out);
        }
        Some(index)
    }

    /// Decides a meeting once every rank has arrived. If it fails, every rank that made a call gets
    /// the error at its next wait.
    fn meet(&mut self, id: MeetingId, out: &mut Out) {
        let MeetingId { place, which, index } = id;
        let Some(comm) = self.comm(place) else { return };
        let name = comm.name;
        let Some(meeting) = comm.calls(which).get(index) else { return };
        let differ = |one: &Here, other: &Here| match one.call.signature() == other.call.signature()
        {
            true => (one.config != other.config).then_some("the `CallConfig` of "),
            false => Some(""),
        };
        let (refusal, part) = match meeting.met(differ) {
            Met::Pending => {
                return match which {
                    Which::Collectives => self.check_round(place, index, out),
                    Which::Transfers { from, to } => self.check_pair(place, from, to, out),
                };
            }
            Met::Alike => return self.begin(id, out),
            Met::Refused { by, why } => (Some((which.rank(by), why.clone())), ""),
            Met::Differs(part) => (None, part),
        };
        let calls = meeting.calls().map(|(member, here)| (Rank::at(which.rank(member)), here.call));
        let mut calls: Vec<_> = calls.collect();
        let what = match which {
            Which::Collectives => format!("{part}collective #{index}"),
            Which::Transfers { from, to } => {
                format!("transfer #{index} from rank {from} to rank {to}")
            }
        };
        let mismatch = Mismatch { name, what, calls: calls.clone(), ended: false };
        // A rank that sends to itself gets the error once.
        calls.dedup_by_key(|(rank, _)| *rank);
        let mut ranks = Vec::with_capacity(calls.len());
        for (rank, call) in calls {
            comm.members[rank.index()].pend(match &refusal {
                Some((by, reason)) => refused(name, *by, call, reason.clone()),
                None => Error::Mismatch(Box::new(mismatch.clone())),
            });
            ranks.push(rank);
        }
        for rank in ranks {
            self.order_lost(place.of(rank.index()));
        }
        self.meeting_over(id);
    }

    /// Starts moving the data, if there is any.
    fn begin(&mut self, id: MeetingId, out: &mut Out) {
        let MeetingId { place, which, index } = id;
        let Some(comm) = self.comm(place) else { return };
        if let Some(meeting) = comm.calls(which).get_mut(index) {
            meeting.begin();
        }
        let is_split = comm.remote.is_some();
        let mut private = Vec::new();
        let moves = match which {
            Which::Collectives => {
                let mut entries = Vec::with_capacity(comm.size());
                for rank in 0..comm.size() {
                    if let Some(at) = comm.at(which, index, rank)
                        && let Some(active) = comm.members[rank].active.as_mut()
                        && let HostOp { op: Booked::Collective(queued), private: own, .. } =
                            &mut active.ops[at]
                    {
                        entries.push(entry(queued));
                        if is_split {
                            private.push(own.take());
                        }
                    }
                }
                let Some(first) = entries.first() else { return comm.calls(which).end(index) };
                self.order_collective(place, index, first);
                Moves::Collective(Collective::new(entries))
            }
            Which::Transfers { from, to } => {
                let held = [0, 1].map(|end| {
                    let at = comm.at(which, index, end)?;
                    match &mut comm.members[which.rank(end)].active.as_mut()?.ops[at].op {
                        Booked::Transfer(one) if one.call.count > 0 => one.span.take(),
                        _ => None,
                    }
                });
                match held {
                    [Some(source), Some(target)] => {
                        self.order_message(place, from, to);
                        Moves::Copy { from: source, to: target }
                    }
                    // Where the memory of a copy is not known, another process moves the data.
                    [source, target] if is_split && source.is_some() | target.is_some() => {
                        self.order_message(place, from, to);
                        Moves::Elsewhere { _held: source.or(target) }
                    }
                    _ => return self.meeting_over(id),
                }
            }
        };
        if is_split {
            return self.move_split(id, moves, private, out);
        }
        out.jobs.push(Job::new(Done::Met(id), moves));
    }

    /// Ends a meeting that every rank has completed.
    pub(super) fn meeting_over(&mut self, id: MeetingId) {
        let MeetingId { place, which, index } = id;
        let Some(comm) = self.comm(place) else { return };
        let size = comm.calls(which).get(index).map_or(0, Meeting::size);
        for member in 0..size {
            if self.comm(place).and_then(|comm| comm.at(which, index, member)).is_some() {
                self.op_over(place.of(which.rank(member)));
            }
        }
        if let Some(comm) = self.comm(place) {
            comm.calls(which).end(index);
        }
    }

    /// Ends operations that wait for another rank, and removes them from the ranks' groups.
    pub(super) fn void_waiting(&mut self, place: MemberId) {
        let Some(comm) = self.comm(place) else { return };
        let CommState { members, rounds, pairs, .. } = comm;
        let size = members.len();
        let mut over = |calls: &mut Calls, which: Which| {
            for (member, _) in calls.void().into_iter().filter(|(_, here)| here.at.is_some()) {
                if let Some(active) = &mut members[which.rank(member)].active {
                    active.left = active.left.saturating_sub(1);
                }
            }
        };
        over(rounds, Which::Collectives);
        for (place, pairs) in pairs.used() {
            over(&mut pairs.calls, Which::Transfers { from: place / size, to: place % size });
        }
        comm.rounds.forget();
    }
}

pub(super) fn refused(name: &'static str, by: usize, call: Call, reason: Error) -> Error {
    Error::Refused(Box::new(Refused { name, call, by: Rank::at(by), reason }))
}

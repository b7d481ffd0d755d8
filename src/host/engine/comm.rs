//! Communicators: who is in them, whose turn it is, and who left.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::round::Round;
use super::state::{Out, State};
use super::{ENGINE, Entry};
use crate::Rank;
use crate::backend::{Departure, Join};
use crate::communicator::Health;
use crate::error::{Call, Error, PeerFailed};

/// One rank's place in one communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::host) struct Place {
    pub(super) comm: usize,
    pub(super) id: u64,
    pub(super) rank: usize,
}

/// One rank's communicator, as the backend hands it out.
#[derive(Debug)]
pub struct Member {
    place: Place,
}

impl Member {
    pub(in crate::host) fn place(&self) -> Place {
        self.place
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        ENGINE.lock().leave(self.place);
    }
}

/// What the ranks of a communicator share.
pub(super) struct CommState {
    id: u64,
    pub(super) name: &'static str,
    pub(super) members: Vec<MemberState>,
    /// Operations that not every rank is done with, by sequence number from `base` on.
    pub(super) rounds: VecDeque<Round>,
    pub(super) base: u64,
    /// A rank is gone, and with it the communicator.
    pub(super) broken: bool,
    /// How many members have let go.
    left: usize,
}

pub(super) struct MemberState {
    pub(super) health: Option<Arc<Health>>,
    /// The operation that this rank may start next: operations of one communicator run one after
    /// the other, whatever their streams.
    turn: u64,
    /// How many operations it has issued.
    pub(super) issued: u64,
    /// Its last call, for reports.
    pub(super) last: Option<Call>,
    /// Operations that it refused, to be skipped when their turn comes.
    refused: BTreeSet<u64>,
    /// Streams that wait for their turn.
    blocked: Vec<usize>,
    /// Why it will issue nothing more.
    pub(super) gone: Option<String>,
    /// What ended its part of the communicator.
    pub(super) fault: Option<Error>,
}

impl CommState {
    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

impl MemberState {
    fn new() -> Self {
        Self {
            health: None,
            turn: 0,
            issued: 0,
            last: None,
            refused: BTreeSet::new(),
            blocked: Vec::new(),
            gone: None,
            fault: None,
        }
    }

    /// Leaves an error for this rank's next host wait.
    pub(super) fn pend(&self, error: Error) {
        if let Some(health) = &self.health {
            health.pend(error);
        }
    }
}

impl State {
    pub(super) fn join(&mut self, join: Join) -> Member {
        let Self { comms, by_id, .. } = self;
        let comm = *by_id.entry(join.id).or_insert_with(|| {
            comms.insert(CommState {
                id: join.id,
                name: join.name,
                members: (0..join.size).map(|_| MemberState::new()).collect(),
                rounds: VecDeque::new(),
                base: 0,
                broken: false,
                left: 0,
            })
        });
        let rank = join.rank as usize;
        comms[comm].members[rank].health = Some(join.health);
        Member { place: Place { comm, id: join.id, rank } }
    }

    /// The communicator of a place, unless it is gone (and its slot perhaps another's).
    pub(super) fn comm(&mut self, place: Place) -> Option<&mut CommState> {
        self.comms.get_mut(place.comm).filter(|comm| comm.id == place.id)
    }

    fn leave(&mut self, place: Place) {
        if let Some(comm) = self.comm(place) {
            comm.left += 1;
            self.sweep(place.comm);
        }
    }

    /// Forgets a communicator that every rank has left and that moves nothing.
    pub(super) fn sweep(&mut self, key: usize) {
        let Some(comm) = self.comms.get(key) else {
            return;
        };
        if comm.left == comm.members.len() && !comm.rounds.iter().any(Round::is_moving) {
            self.by_id.remove(&comm.id);
            self.comms.remove(key);
        }
    }

    /// Books that a rank issued operation `seq`.
    pub(super) fn issued(&mut self, place: Place, seq: u64, call: &Call) {
        if let Some(comm) = self.comm(place) {
            let member = &mut comm.members[place.rank];
            member.issued = seq + 1;
            member.last = Some(*call);
        }
    }

    /// Whether a rank's operation `seq` may start; if not, `stream` is advanced when it may.
    pub(super) fn is_turn(&mut self, place: Place, seq: u64, stream: usize) -> bool {
        let Some(comm) = self.comm(place) else {
            return true;
        };
        let broken = comm.broken;
        let member = &mut comm.members[place.rank];
        if broken || member.fault.is_some() || member.turn == seq {
            return true;
        }
        if !member.blocked.contains(&stream) {
            member.blocked.push(stream);
        }
        false
    }

    /// A rank is done with operation `seq`.
    pub(super) fn take_turn(&mut self, place: Place, seq: u64, todo: &mut Vec<usize>) {
        let Some(comm) = self.comm(place) else { return };
        let member = &mut comm.members[place.rank];
        member.turn = member.turn.max(seq + 1);
        while member.refused.remove(&member.turn) {
            member.turn += 1;
        }
        todo.append(&mut member.blocked);
    }

    /// Books a refusal for when its turn comes.
    pub(super) fn book_refusal(&mut self, place: Place, seq: u64, todo: &mut Vec<usize>) {
        let Some(comm) = self.comm(place) else { return };
        let member = &mut comm.members[place.rank];
        member.issued = seq + 1;
        member.refused.insert(seq);
        while member.refused.remove(&member.turn) {
            member.turn += 1;
        }
        todo.append(&mut member.blocked);
    }

    pub(super) fn is_idle(&mut self, place: Place) -> bool {
        self.comm(place).is_none_or(|comm| {
            let member = &comm.members[place.rank];
            comm.broken || member.turn >= member.issued
        })
    }

    /// A rank will issue nothing more; at once, and the communicator is over for all.
    pub(super) fn depart(&mut self, place: Place, why: &str, how: Departure, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let member = &mut comm.members[place.rank];
        member.gone.get_or_insert_with(|| why.to_owned());
        let idle = member.turn >= member.issued && comm.rounds.iter().all(|r| !r.is_waiting());
        if how == Departure::AtOnce && !(comm.broken || idle && comm.left + 1 == comm.members.len())
        {
            self.break_up(place.comm, vec![place.rank], why, "the next operation", out);
            return;
        }
        let waiting: Vec<u64> = (comm.base..)
            .zip(&comm.rounds)
            .filter(|(_, r)| r.is_waiting())
            .map(|(s, _)| s)
            .collect();
        for seq in waiting {
            self.check_lost(place.comm, seq, out);
        }
    }

    /// Ends the communicator if operation `seq` waits for a rank that will never issue it.
    pub(super) fn check_lost(&mut self, key: usize, seq: u64, out: &mut Out) {
        let Some(comm) = self.comms.get(key) else {
            return;
        };
        let Some(round) = seq.checked_sub(comm.base).and_then(|i| comm.rounds.get(i as usize))
        else {
            return;
        };
        let lost: Vec<usize> = (0..comm.members.len())
            .filter(|&r| {
                let member = &comm.members[r];
                member.gone.is_some() && member.issued <= seq && !round.has(r)
            })
            .collect();
        let Some(why) = lost.first().and_then(|&r| comm.members[r].gone.clone()) else {
            return;
        };
        let during = match round.any_call() {
            Some(call) => format!("operation #{seq} ({call})"),
            None => format!("operation #{seq}"),
        };
        self.break_up(key, lost, &why, &during, out);
    }

    /// The communicator is over: every operation that has not started is void on every rank.
    fn break_up(&mut self, key: usize, lost: Vec<usize>, why: &str, during: &str, out: &mut Out) {
        let Some(comm) = self.comms.get_mut(key) else {
            return;
        };
        if comm.broken {
            return;
        }
        comm.broken = true;
        let error = Error::PeerFailed(Box::new(PeerFailed {
            name: comm.name,
            lost: lost.iter().map(|&r| Rank::at(r)).collect(),
            why: why.to_owned(),
            during: during.to_owned(),
        }));
        let mut todo = Vec::new();
        for (rank, member) in comm.members.iter_mut().enumerate() {
            member.fault.get_or_insert_with(|| error.clone());
            todo.append(&mut member.blocked);
            if let Some(health) = &member.health
                && !lost.contains(&rank)
                && member.gone.is_none()
                && health.poison(error.clone())
            {
                out.poisoned.push(health.clone());
            }
        }
        let mut void: Vec<(usize, usize, Box<Entry>)> = Vec::new();
        for round in &mut comm.rounds {
            void.append(&mut round.void());
        }
        comm.rounds.retain(Round::is_moving);
        if comm.rounds.is_empty() {
            comm.base = 0;
        }
        for (rank, stream, entry) in void {
            if let Some(member) = self.comms.get(key).map(|comm| &comm.members[rank]) {
                member.pend(error.clone());
            }
            out.void.push(entry);
            self.task_done(stream, &mut todo, out);
        }
        for stream in todo {
            self.advance(stream, out);
        }
    }
}

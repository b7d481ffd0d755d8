//! Communicators: their members, and the order of their groups.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Instant;

use super::ENGINE;
use super::active_group::ActiveGroup;
use super::barrier::DeviceComm;
use super::meeting::{Calls, Pairs, Which};
use super::remote::{Ear, Remote};
use super::signal::Signals;
use super::sparse::Sparse;
use super::state::{Out, State, Step, Void};
use super::window::Window;
use crate::Rank;
use crate::backend::{Counts, Join, Pace, Paced, WindowId};
use crate::communicator::Health;
use crate::error::{Call, Error};
use crate::host::hazards::CommOrder;

/// One rank's membership in one communicator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::host) struct MemberId {
    pub(super) comm: usize,
    pub(super) id: u64,
    pub(super) rank: usize,
}

impl MemberId {
    /// Another rank of the same communicator.
    pub(super) fn of(self, rank: usize) -> Self {
        Self { rank, ..self }
    }
}

/// One rank's communicator, as the backend returns it.
#[derive(Debug)]
pub struct Member {
    place: MemberId,
    /// The thread that joined.
    home: ThreadId,
    /// Hears of the ranks of other processes.
    ear: Option<Arc<Ear>>,
}

impl Member {
    pub(in crate::host) fn place(&self) -> MemberId {
        self.place
    }

    /// Keeps what hears of the ranks of other processes.
    pub(super) fn keep(&mut self, ear: Arc<Ear>) {
        self.ear = Some(ear);
    }
}

impl Pace for MemberId {
    fn others(&self) -> Vec<Paced> {
        ENGINE.lock().compare(*self)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        ENGINE.leave(self.place, self.home);
        if self.ear.is_some() {
            ENGINE.say_all();
        }
    }
}

/// What the ranks of a communicator share.
pub(super) struct CommState {
    pub(super) id: u64,
    pub(super) name: &'static str,
    pub(super) members: Vec<MemberState>,
    /// Collectives that some rank has not completed.
    pub(super) rounds: Calls,
    /// Transfers, by sender and receiver.
    pub(super) pairs: Sparse<Pairs>,
    /// Signals, by receiver, sender and slot.
    pub(super) signals: Signals,
    pub(super) windows: HashMap<WindowId, Window>,
    pub(super) device_comms: HashMap<WindowId, DeviceComm>,
    /// Its clocks, if the order of uses is checked.
    pub(super) order: Option<Box<CommOrder>>,
    /// The ranks of other processes, if there are any.
    pub(super) remote: Option<Box<Remote>>,
    /// How many ranks have left.
    pub(super) gone: usize,
    /// How many ranks are in a group.
    pub(super) active_groups: usize,
    /// A rank left, which ended the communicator.
    pub(super) broken: bool,
    /// How many members have joined, and how many of them have dropped it.
    joined: usize,
    left: usize,
}

#[derive(Default)]
pub(super) struct MemberState {
    pub(super) health: Option<Arc<Health>>,
    /// The thread that joined. It owns the communicator unless that was moved.
    pub(super) home: Option<ThreadId>,
    /// The group that this rank may start next. Groups of one communicator run one after the other,
    /// on any streams.
    pub(super) turn: u64,
    /// How many groups it has issued.
    pub(super) issued: u64,
    /// How many more a rank of another process has issued.
    pub(super) to_come: u64,
    /// Held by its work that reads peers' windows, until that is over.
    pub(super) reads: Arc<()>,
    /// How many collectives it has issued or refused.
    pub(super) collectives: u64,
    /// Its last call, for reports.
    pub(super) last: Option<Call>,
    /// Its current group.
    pub(super) active: Option<ActiveGroup>,
    /// Streams that wait for their turn, by group.
    pub(super) blocked: HashMap<u64, usize>,
    /// Why it will issue nothing more.
    pub(super) gone: Option<Gone>,
    /// The error that ended its part of the communicator.
    pub(super) fault: Option<Error>,
}

/// A rank that left.
pub(super) struct Gone {
    pub(super) why: String,
    /// It had completed everything, as far as it knew.
    pub(super) finished: bool,
    /// How many had left before it.
    pub(super) order: usize,
}

impl MemberState {
    /// Stores an error for this rank's next host wait.
    pub(super) fn pend(&self, error: Error) {
        if let Some(health) = &self.health {
            health.pend(error);
        }
    }

    /// Whether it left without having finished.
    pub(super) fn is_lost(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| !gone.finished)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.turn >= self.issued + self.to_come && Arc::strong_count(&self.reads) == 1
    }
}

impl CommState {
    fn new(join: &Join) -> Self {
        let size = join.size as usize;
        Self {
            id: join.id,
            name: join.name,
            members: (0..size).map(|_| MemberState::default()).collect(),
            rounds: Calls::new(size),
            pairs: Sparse::new(size * size),
            signals: Signals::new(size, join.config.slots()),
            windows: HashMap::new(),
            device_comms: HashMap::new(),
            order: CommOrder::open(),
            remote: join.wire.as_ref().map(|_| Box::new(Remote::new(size))),
            gone: 0,
            active_groups: 0,
            broken: false,
            joined: 0,
            left: 0,
        }
    }

    pub(super) fn size(&self) -> usize {
        self.members.len()
    }
}

impl State {
    pub(super) fn join(&mut self, join: Join) -> Member {
        let Self { comms, by_id, .. } = self;
        let comm = *by_id.entry(join.id).or_insert_with(|| comms.insert(CommState::new(&join)));
        let rank = join.rank as usize;
        comms[comm].joined += 1;
        if let Some(remote) = &mut comms[comm].remote {
            remote.is_here(rank, join.wire.clone());
        }
        let member = &mut comms[comm].members[rank];
        if let Some(fault) = &member.fault {
            // It joined too late; the other ranks know the cause already.
            let _ = join.health.poison(fault.clone());
        }
        let home = std::thread::current().id();
        member.health = Some(join.health);
        member.home = Some(home);
        self.rank_threads.enter(home, join.size as usize);
        Member { place: MemberId { comm, id: join.id, rank }, home, ear: None }
    }

    /// The communicator of a membership, unless it has been removed (its slot may be reused).
    pub(super) fn comm(&mut self, place: MemberId) -> Option<&mut CommState> {
        self.comms.get_mut(place.comm).filter(|comm| comm.id == place.id)
    }

    pub(super) fn member(&mut self, place: MemberId) -> Option<&mut MemberState> {
        self.comm(place)?.members.get_mut(place.rank)
    }

    pub(super) fn leave(&mut self, place: MemberId, home: ThreadId, out: &mut Out) {
        self.rank_threads.leave(home);
        if let Some(comm) = self.comm(place) {
            comm.left += 1;
            self.sweep(place, out);
        }
    }

    /// Removes a communicator that every rank has left and that has no work. A broken one may still
    /// have groups in queues, whose streams have yet to find them void. Ranks that died before they
    /// joined are not waited for. A rank that joins later gets a new communicator, and the control
    /// plane tells it that the others are gone.
    pub(super) fn sweep(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        // Of ranks in other processes there are only copies.
        let is_split = comm.remote.is_some();
        let all = if comm.broken || is_split { comm.joined } else { comm.size() };
        let is_done = |m: &MemberState| m.active.is_none() && (m.is_idle() || m.fault.is_none());
        let is_done =
            |(rank, m): (usize, &MemberState)| is_split && comm.is_copy(rank) || is_done(m);
        let over = comm.left == all && comm.members.iter().enumerate().all(is_done);
        if !over {
            return;
        }
        self.by_id.remove(&place.id);
        let comm = self.comms.try_remove(place.comm);
        self.rank_threads.widest =
            self.comms.iter().map(|(_, comm)| comm.size()).max().unwrap_or(0);
        let blocked = comm.iter().flat_map(|comm| &comm.members).flat_map(|m| m.blocked.values());
        self.todo.extend(blocked.map(|&stream| Step::Stream(stream)));
        out.void.extend(comm.map(Box::new).map(Void::Comm));
    }

    /// Whether a rank's group `unit` may start. If not, `stream` is advanced once it may.
    pub(super) fn is_turn(&mut self, place: MemberId, unit: u64, stream: usize) -> bool {
        let Some(member) = self.member(place) else { return true };
        // In a broken communicator, groups wait only for the one that is still moving data.
        if member.turn == unit || (member.fault.is_some() && member.active.is_none()) {
            return true;
        }
        member.blocked.insert(unit, stream);
        false
    }

    /// Records that a rank has completed a group.
    pub(super) fn take_turn(&mut self, place: MemberId) {
        let Self { comms, todo, .. } = self;
        let Some(comm) = comms.get_mut(place.comm).filter(|comm| comm.id == place.id) else {
            return;
        };
        let member = &mut comm.members[place.rank];
        member.turn += 1;
        if member.fault.is_some() {
            todo.extend(member.blocked.drain().map(|(_, stream)| Step::Stream(stream)));
        } else if let Some(stream) = member.blocked.remove(&member.turn) {
            todo.push(Step::Stream(stream));
        }
    }

    /// The progress of each other rank that has not left.
    fn compare(&mut self, place: MemberId) -> Vec<Paced> {
        let Some(comm) = self.comm(place) else { return Vec::new() };
        let (heard, exchanges) = (Some(Instant::now()), 0);
        let called = |of: usize, with: usize| {
            let sent = comm.issued(Which::Transfers { from: of, to: with }, 0);
            let received = comm.issued(Which::Transfers { from: with, to: of }, 1);
            (comm.members[of].collectives, sent, received)
        };
        let compare = |(rank, other): (usize, &MemberState)| {
            if rank == place.rank || other.gone.is_some() {
                return None;
            }
            let (collectives, there, back) = called(place.rank, rank);
            let own = Counts { collectives, there, back, exchanges };
            let (collectives, back, there) = called(rank, place.rank);
            let theirs = Counts { collectives, there, back, exchanges };
            Some(Paced { rank: Rank::at(rank), own, theirs, heard })
        };
        comm.members.iter().enumerate().filter_map(compare).collect()
    }

    pub(super) fn is_idle(&mut self, place: MemberId) -> bool {
        let is_idle = self.member(place).is_none_or(|member| member.is_idle());
        let has_device_comms =
            self.seen_comm(place).is_some_and(|comm| !comm.device_comms.is_empty());
        let is_idle = is_idle && !(has_device_comms && self.has_kernels(place));
        if is_idle {
            self.order_idle(place);
        }
        is_idle
    }
}

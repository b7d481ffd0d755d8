//! Operations whose data several processes move, step by step.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::super::active_group::{ActiveGroup, Booked, HostOp, Phase};
use super::super::comm::MemberId;
use super::super::job::{Done, Job};
use super::super::meeting::{MeetingId, Which, any_call};
use super::super::state::{Out, State, Void};
use super::packet::{Event, is_eager};
use crate::host::block::Block;
use crate::host::far;
use crate::host::moves::{Batch, Held, Moves};

/// How long MPI may take to end after a communicator broke: other processes may have left it.
const END: Duration = Duration::from_secs(5);

/// The steps of a rank that leaves an operation: its memory may change, and it reads no more.
const LEFT: usize = usize::MAX;

/// An operation whose data moves.
#[derive(Default)]
pub(super) struct Moving {
    /// What moves, once every rank has reached it.
    moves: Option<Arc<Moves>>,
    /// The steps that each rank has completed, by rank.
    done: Vec<usize>,
    /// The step that this process moves now, or has moved last.
    step: usize,
    /// How many of the step's jobs are not over.
    jobs: usize,
    /// The jobs that wait for bytes of other machines: for how many messages, and their chunks.
    batches: Vec<(usize, Range<usize>)>,
    /// Its data came with the calls, so no rank waits for another.
    is_eager: bool,
}

impl ActiveGroup {
    /// Gives what other ranks read of this one memory that they can read: the shares of a reduction
    /// that every rank receives.
    pub(in crate::host::engine) fn publish(&mut self, size: usize) {
        for queued in &mut self.ops {
            let Booked::Collective(one) = &mut queued.op else { continue };
            let spec = one.name.spec();
            let is_for_all = !spec.recv.is_whole && !spec.recv.only_root && size > 1;
            let shares = spec.reduces && is_for_all;
            if !shares || is_eager(&one.call, size) {
                continue;
            }
            let Some(Some(recv)) = &mut one.recv else { continue };
            if recv.shared_at().is_some() {
                continue;
            }
            match Block::zeroed(0, recv.bytes()) {
                Ok(block) => {
                    let scratch = Held::all(block, recv.bytes());
                    queued.private = Some(Box::new(std::mem::replace(recv, scratch)));
                }
                Err(error) => {
                    self.refused.get_or_insert(error);
                }
            }
        }
    }
}

impl ActiveGroup {
    /// The calls that a rank's group has not come to.
    fn to_post(&self, rank: usize) -> impl Iterator<Item = (Which, u64)> {
        let is_to_come = move |op: &Booked| match (self.phase, op) {
            (Phase::OneSided(_), _) => true,
            (Phase::Collectives, Booked::Transfer(_)) => true,
            (Phase::Collectives | Phase::Transfers, _) => false,
        };
        let call = move |queued: &HostOp| match &queued.op {
            Booked::Collective(_) => Some((Which::Collectives, queued.index)),
            Booked::Transfer(one) => Some((Which::of(rank, one.peer, one.half).0, queued.index)),
            Booked::Put(_) | Booked::Signal(_) | Booked::Wait(_) => None,
        };
        self.ops.iter().filter(move |queued| is_to_come(&queued.op)).filter_map(call)
    }
}

impl State {
    /// Starts the part of this process in an operation that every rank has reached.
    pub(in crate::host::engine) fn move_split(
        &mut self,
        id: MeetingId,
        mut moves: Moves,
        private: Vec<Option<Box<Held>>>,
        out: &mut Out,
    ) {
        let MeetingId { place, which, index } = id;
        let Some(comm) = self.comm(place) else { return };
        let size = comm.size();
        let meeting = comm.seen_calls(which).and_then(|calls| calls.get(index));
        let Some(call) = meeting.and_then(any_call) else { return };
        let Some(remote) = &mut comm.remote else { return };
        let is_eager = is_eager(&call, size);
        moves.split(remote.own(), !is_eager, private);
        // Who receives a transfer moves it.
        let moves_here = match which {
            Which::Collectives => true,
            Which::Transfers { to, .. } => remote.own()[to],
        };
        let moves = Arc::new(moves);
        let has_chunks = moves.chunks(0) > 0;
        let moving = remote.moving.entry((which, index)).or_default();
        moving.moves = Some(moves);
        moving.is_eager = is_eager;
        moving.done.resize(size, 0);
        if moves_here && has_chunks {
            return self.start_step(id, out);
        }
        self.step_over(id, out);
    }

    /// Starts the next step of an operation, and fetches what it reads of other machines.
    fn start_step(&mut self, id: MeetingId, out: &mut Out) {
        let MeetingId { place, which, index } = id;
        let Some(remote) = self.remote(place) else { return };
        let Some(moving) = remote.moving.get_mut(&(which, index)) else { return };
        let (step, Some(moves)) = (moving.step, moving.moves.clone()) else { return };
        let done = Done::Met(id);
        moving.jobs = 1;
        if !remote.is_spread || moving.is_eager {
            let chunks = 0..moves.chunks(step);
            return out.jobs.push(Job::step(done, moves, step, chunks));
        }
        let batches = moves.batches(step);
        moving.jobs = batches.len();
        let counted = |batch: &Batch| (batch.reads.len(), batch.chunks.clone());
        moving.batches = batches.iter().map(counted).collect();
        let mut reads = BTreeMap::new();
        for (batch, Batch { chunks, reads: its }) in batches.into_iter().enumerate() {
            if its.is_empty() {
                out.jobs.push(Job::step(done, moves.clone(), step, chunks));
            }
            for read in its {
                reads.entry(read.from.rank).or_insert_with(Vec::new).push((batch, read));
            }
        }
        for (rank, reads) in reads {
            remote.fetch(id, rank, reads, &moves);
        }
    }

    /// A message with bytes of another machine has come, or why it has not.
    pub(super) fn fetched(
        &mut self,
        id: MeetingId,
        batch: usize,
        rank: usize,
        how: Result<(), String>,
        out: &mut Out,
    ) {
        let MeetingId { place, which, index } = id;
        if let Err(why) = how {
            self.unreached(place.of(rank), &why, out);
        }
        let Some(comm) = self.comm(place) else { return };
        let is_broken = comm.broken;
        let Some(remote) = &mut comm.remote else { return };
        let Some(moving) = remote.moving.get_mut(&(which, index)) else { return };
        let (step, Some(moves)) = (moving.step, moving.moves.clone()) else { return };
        let Some((left, chunks)) = moving.batches.get_mut(batch) else { return };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return;
        }
        match is_broken {
            true => self.copied(id, out),
            false => {
                out.jobs.push(Job::step(Done::Met(id), moves, step, chunks.clone()));
            }
        }
    }

    /// This process has copied its part of a step.
    pub(in crate::host::engine) fn copied(&mut self, id: MeetingId, out: &mut Out) {
        let MeetingId { place, which, index } = id;
        let moving = self.remote(place).and_then(|remote| remote.moving.get_mut(&(which, index)));
        let Some(moving) = moving else { return };
        if moving.jobs > 1 {
            moving.jobs -= 1;
            return;
        }
        // A rank that left in the meantime may have written over what was copied. What came with
        // the calls stays, and is over before anything else is heard: other ranks may be far ahead.
        if !moving.is_eager {
            // What follows from the data of other operations comes before what is heard now.
            self.settle(out);
            self.hear(out);
        }
        self.step_over(id, out);
    }

    /// This process has moved its part of a step.
    pub(in crate::host::engine) fn step_over(&mut self, id: MeetingId, out: &mut Out) {
        let MeetingId { place, which, index } = id;
        let Some(comm) = self.comm(place) else { return };
        let (size, is_broken) = (comm.size(), comm.broken);
        let Some(remote) = &mut comm.remote else { return };
        let own = remote.own();
        let Some(moving) = remote.moving.get_mut(&(which, index)) else { return };
        moving.jobs = 0;
        if moving.is_eager {
            let gone = remote.moving.remove(&(which, index));
            out.void.extend(gone.and_then(|moving| moving.moves).map(Void::Moves));
            return self.meeting_over(id);
        }
        // Nothing more happens in a communicator that broke.
        moving.step = if is_broken { LEFT } else { moving.step + 1 };
        let step = moving.step;
        // Whoever leaves says so, a sender too: others may be copying from its memory.
        let concerned = |rank| step == LEFT || movers(which, size).contains(&rank);
        let sayers = || members(which, size).filter(|rank| own[*rank] && concerned(*rank));
        sayers().for_each(|rank| moving.done[rank] = step);
        for rank in sayers() {
            comm.say(rank, &Event::Moved(which, index, step), &[]);
        }
        self.go_on_moving(id, out);
    }

    /// A rank of another process has completed steps of an operation.
    pub(in crate::host::engine) fn moved(&mut self, id: MeetingId, step: usize, out: &mut Out) {
        let MeetingId { place, which, index } = id;
        let Some(comm) = self.comm(place) else { return };
        let size = comm.size();
        let Some(remote) = &mut comm.remote else { return };
        let moving = remote.moving.entry((which, index)).or_default();
        moving.done.resize(size, 0);
        moving.done[place.rank] = moving.done[place.rank].max(step);
        self.go_on_moving(id, out);
    }

    /// Starts the next step if every rank has completed the last one, or ends the operation.
    pub(in crate::host::engine) fn go_on_moving(&mut self, id: MeetingId, out: &mut Out) {
        let MeetingId { place, which, index } = id;
        let Some(comm) = self.comm(place) else { return };
        let (size, is_broken) = (comm.size(), comm.broken);
        let Some(remote) = &mut comm.remote else { return };
        let Some(moving) = remote.moving.get(&(which, index)) else { return };
        let Some(moves) = moving.moves.clone().filter(|_| moving.jobs == 0) else { return };
        let steps = moves.steps();
        let is_lost = |rank| remote.is_silent(rank) && moving.done[rank] < steps;
        let steps_of = |rank| if is_lost(rank) { LEFT } else { moving.done[rank] };
        let is_left = members(which, size).any(|rank| moving.done[rank] == LEFT)
            || movers(which, size).any(is_lost);
        let done = movers(which, size).map(steps_of).min().unwrap_or(LEFT);
        if is_left && !is_broken {
            // What was read may not be what was sent. The reason is on its way, unless the rank
            // died after it had said that it leaves.
            if let Some(lost) = movers(which, size).find(|rank| is_lost(*rank)) {
                self.depart_again(place.of(lost), out);
            }
            return;
        }
        if done >= steps {
            remote.moving.remove(&(which, index));
            out.void.push(Void::Moves(moves));
            return self.meeting_over(id);
        }
        if done < moving.step || moving.step >= steps || is_broken {
            return;
        }
        let step = moving.step;
        if moves.chunks(step) == 0 {
            return self.step_over(id, out);
        }
        self.start_step(id, out);
    }

    /// Before a communicator breaks: tells the other processes that this one's ranks leave the
    /// operations that wait, which may move elsewhere already.
    pub(in crate::host::engine) fn say_void(&mut self, place: MemberId) {
        let Some(comm) = self.comm(place) else { return };
        if comm.remote.is_none() {
            return;
        }
        for rank in (0..comm.size()).filter(|rank| !comm.is_copy(*rank)) {
            let size = comm.size();
            let pairs = (0..size).flat_map(|peer| {
                let to = Which::Transfers { from: rank, to: peer };
                [to, Which::Transfers { from: peer, to: rank }]
            });
            for which in std::iter::once(Which::Collectives).chain(pairs) {
                let Some(calls) = comm.seen_calls(which) else { continue };
                let member = |member: &usize| which.rank(*member) == rank;
                let waiting = calls.from(0).filter(|(_, meeting)| {
                    let member = (0..meeting.size()).find(member);
                    meeting.is_waiting() && member.is_some_and(|one| meeting.call(one).is_some())
                });
                for (index, _) in waiting {
                    comm.say(rank, &Event::Moved(which, index, LEFT), &[]);
                }
            }
            // Its copies may be ahead of it: they hear of signals and data that it has not.
            let active = comm.members[rank].active.as_ref();
            for (which, index) in active.into_iter().flat_map(|active| active.to_post(rank)) {
                comm.say(rank, &Event::Moved(which, index, LEFT), &[]);
            }
        }
    }

    /// After a communicator broke, or a rank died: ends what waits for a next step.
    pub(in crate::host::engine) fn end_moving(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let is_broken = comm.broken;
        let Some(remote) = &comm.remote else { return };
        if remote.is_spread && is_broken {
            far::abandon(place.id, None);
            far::lose(END);
        }
        let idle = remote.moving.iter().filter(|(_, one)| one.moves.is_some() && one.jobs == 0);
        let idle: Vec<_> = idle.map(|(key, one)| (*key, one.step)).collect();
        for ((which, index), step) in idle {
            let id = MeetingId { place, which, index };
            match is_broken && step < LEFT {
                true => self.step_over(id, out),
                false => self.go_on_moving(id, out),
            }
        }
        self.end_puts(place, out);
    }
}

/// The ranks of an operation.
fn members(which: Which, size: usize) -> impl Iterator<Item = usize> {
    (0..size).filter(move |rank| match which {
        Which::Collectives => true,
        Which::Transfers { from, to } => [from, to].contains(rank),
    })
}

/// The ranks that move an operation's data.
fn movers(which: Which, size: usize) -> Range<usize> {
    match which {
        Which::Collectives => 0..size,
        Which::Transfers { to, .. } => to..to + 1,
    }
}

//! Runs a schedule as NCCL and CUDA would, in any order that they allow, and shares no code with what made it.
//!
//! Streams run their calls in order; a call starts when the events that it waits for are there and, as NCCL
//! has it, when the calls before it on its communicators have ended. All operations of a group start
//! together; a message or a collective ends when all its ends have started. What is read is compared between
//! start and end; what is being written is torn until the end.

use std::collections::{HashMap, VecDeque};

use typed_nccl_plan::ir::{CollectiveKind, CommunicatorId, Launch, Plan};
use typed_nccl_plan::lower::{Call, Operation, Part, Schedule, Work};

use crate::memory::{Memory, Value, computed, members, overlap, root};

/// Random numbers, the same ones every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % end
    }
}

/// A call of a run: rank, run, place in the rank's list.
type Id = (usize, usize, usize);
/// Communicator, from, to.
type Channel = (u32, u32, u32);

/// An operation that has started.
#[derive(Clone)]
enum Doing {
    Sends {
        channel: Channel,
        turn: usize,
        from: Part,
        values: Vec<u64>,
    },
    Receives {
        channel: Channel,
        turn: usize,
        to: Part,
    },
    Meets {
        among: u32,
        members: Vec<usize>,
        turn: usize,
        kind: CollectiveKind,
        recv: Option<Part>,
    },
    /// Counted signals: of each channel and signal, up to which.
    Awaits(Vec<(Channel, u32, usize)>),
    Nothing,
}

/// A call that has started.
struct Running {
    doing: Vec<Doing>,
    /// What must still be there at the end.
    reads: Vec<(Part, Vec<u64>)>,
    /// What a compute step computes with.
    inputs: Vec<u64>,
}

pub(crate) struct Machine<'a> {
    plan: &'a Plan,
    schedule: &'a Schedule,
    pub(crate) memory: Memory,
    /// Of each rank and stream, what is left to run.
    queues: Vec<Vec<VecDeque<Id>>>,
    running: HashMap<Id, Running>,
    ended: Vec<Vec<Vec<bool>>>,
    /// Calls of each channel or communicator so far; messages sent and received.
    sent: HashMap<Channel, Vec<Vec<u64>>>,
    received: HashMap<Channel, usize>,
    /// Of each rank and communicator, what its collectives gave so far.
    met: HashMap<(usize, u32), Vec<Vec<u64>>>,
    raised: HashMap<(Channel, u32), usize>,
    consumed: HashMap<(Channel, u32), usize>,
    /// Puts that have started and not arrived: with the signal that will say so, once there is one.
    puts: HashMap<Channel, Vec<(Part, usize, Vec<u64>, Option<(u32, usize)>)>>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(plan: &'a Plan, schedule: &'a Schedule, runs: usize) -> Self {
        let mut queues = Vec::new();
        for (rank, of) in schedule.ranks.iter().enumerate() {
            let mut streams = vec![VecDeque::new(); plan.streams.len()];
            for run in 0..runs {
                for (at, call) in of.calls.iter().enumerate() {
                    streams[call.stream.index()].push_back((rank, run, at));
                }
            }
            queues.push(streams);
        }
        let ended = schedule.ranks.iter().map(|of| vec![vec![false; of.calls.len()]; runs]);
        Self {
            plan,
            schedule,
            memory: Memory::default(),
            queues,
            running: HashMap::new(),
            ended: ended.collect(),
            sent: HashMap::new(),
            received: HashMap::new(),
            met: HashMap::new(),
            raised: HashMap::new(),
            consumed: HashMap::new(),
            puts: HashMap::new(),
        }
    }

    /// Runs to the end, one random step after another.
    pub(crate) fn run(&mut self, random: &mut Random) {
        loop {
            let fronts: Vec<Id> =
                self.queues.iter().flatten().filter_map(|queue| queue.front().copied()).collect();
            let able: Vec<Id> = fronts.iter().copied().filter(|id| self.can_move(*id)).collect();
            if able.is_empty() {
                assert!(fronts.is_empty(), "hangs: {:?}", self.stuck(&fronts));
                return;
            }
            let id = able[random.below(able.len())];
            if self.running.contains_key(&id) { self.end(id) } else { self.start(id) }
        }
    }

    fn call(&self, (rank, _, at): Id) -> &'a Call {
        &self.schedule.ranks[rank].calls[at]
    }

    fn stuck(&self, fronts: &[Id]) -> Vec<(Id, &'a Call, bool)> {
        fronts.iter().map(|id| (*id, self.call(*id), self.running.contains_key(id))).collect()
    }

    fn can_move(&self, id: Id) -> bool {
        match self.running.get(&id) {
            Some(running) => running.doing.iter().all(|one| self.is_over(one)),
            None => self.can_start(id),
        }
    }

    fn can_start(&self, id: Id) -> bool {
        let (rank, run, at) = id;
        let calls = &self.schedule.ranks[rank].calls;
        let recorder = |event| {
            let mut of = (0..calls.len()).filter(|&at| calls[at].records == Some(event));
            let only = of.next().expect("the event is recorded");
            assert!(of.next().is_none(), "an event has one recorder");
            only
        };
        let call = self.call(id);
        let waits = call.waits.iter().all(|&event| {
            let of = recorder(event);
            assert!(of < at, "a call waits for an event of a later one");
            self.ended[rank][run][of]
        });
        let carried = call.carried.iter().all(|&event| {
            let of = recorder(event);
            assert!(of >= at, "a call carries an event of an earlier one");
            run == 0 || self.ended[rank][run - 1][of]
        });
        // One graph launch follows another whole.
        let launched = self.plan.launch == Launch::Eager
            || run == 0
            || self.ended[rank][run - 1].iter().all(|ended| *ended);
        let among = communicators(call);
        let queued = (0..=run).all(|earlier| {
            let end = if earlier == run { at } else { calls.len() };
            (0..end).all(|of| {
                self.ended[rank][earlier][of]
                    || !communicators(&calls[of]).iter().any(|one| among.contains(one))
            })
        });
        waits && carried && launched && queued
    }

    fn is_over(&self, doing: &Doing) -> bool {
        match doing {
            Doing::Sends { channel, turn, .. } => self.received.get(channel) > Some(turn),
            Doing::Receives { channel, turn, .. } => {
                self.sent.get(channel).is_some_and(|sent| sent.len() > *turn)
            }
            Doing::Meets { among, members, turn, .. } => members
                .iter()
                .all(|&one| self.met.get(&(one, *among)).is_some_and(|met| met.len() > *turn)),
            Doing::Awaits(list) => list.iter().all(|(channel, signal, upto)| {
                self.raised.get(&(*channel, *signal)).is_some_and(|raised| raised >= upto)
            }),
            Doing::Nothing => true,
        }
    }

    fn start(&mut self, id: Id) {
        let call = self.call(id);
        let (rank, run, _) = id;
        let mut reads: Vec<(Part, Vec<u64>)> = Vec::new();
        let mut writes: Vec<Part> = Vec::new();
        for part in reading(call, rank as u32) {
            reads.push((part, self.memory.read(self.plan, rank as u32, &part, run)));
        }
        let doing = match &call.work {
            Work::Compute { writes: parts, .. } => {
                writes.extend(parts);
                vec![Doing::Nothing]
            }
            Work::Group(ops) => {
                let mut doing = Vec::new();
                for op in ops {
                    doing.push(self.begin(op, rank, run, &mut writes));
                }
                doing
            }
        };
        for (at, part) in writes.iter().enumerate() {
            let earlier = writes[..at].iter().any(|other| overlap(part, other));
            assert!(call_computes(call) || !earlier, "a group writes {part:?} twice");
            self.memory.write(self.plan, rank as u32, part, run, |_| Value::Torn);
        }
        // What is written in place is read at the start alone.
        let kept = |(part, _): &(Part, Vec<u64>)| !writes.iter().any(|one| overlap(part, one));
        let inputs = reads.iter().flat_map(|(_, values)| values.iter().copied()).collect();
        let reads = reads.into_iter().filter(kept).collect();
        self.running.insert(id, Running { doing, reads, inputs });
    }

    fn begin(&mut self, op: &Operation, rank: usize, run: usize, writes: &mut Vec<Part>) -> Doing {
        let own = rank as u32;
        match op {
            Operation::Send { from, peer, among } => {
                let channel = (among.0, own, *peer);
                let values = self.memory.read(self.plan, own, from, run);
                let sent = self.sent.entry(channel).or_default();
                sent.push(values.clone());
                Doing::Sends { channel, turn: sent.len() - 1, from: *from, values }
            }
            Operation::Receive { to, peer, among } => {
                let channel = (among.0, *peer, own);
                writes.push(*to);
                let received = self.received.entry(channel).or_default();
                *received += 1;
                Doing::Receives { channel, turn: *received - 1, to: *to }
            }
            Operation::Collective { kind, among, send, recv, in_place } => {
                let touching = send.as_ref().zip(recv.as_ref()).is_some_and(|(a, b)| overlap(a, b));
                assert!(*in_place || !touching, "in place, and not said so: {op:?}");
                let values = send.as_ref().map(|part| self.memory.read(self.plan, own, part, run));
                writes.extend(recv);
                let met = self.met.entry((rank, among.0)).or_default();
                met.push(values.unwrap_or_default());
                let turn = met.len() - 1;
                let members = members(self.plan, self.schedule, among.index(), rank);
                Doing::Meets { among: among.0, members, turn, kind: kind.clone(), recv: *recv }
            }
            Operation::Put { from, peer, to, signal, among } => {
                let channel = (among.0, own, *peer);
                let values = self.memory.read(self.plan, own, from, run);
                self.memory.write(self.plan, *peer, to, run, |_| Value::Torn);
                self.puts.entry(channel).or_default().push((*to, run, values, None));
                if let Some(signal) = signal {
                    self.raise(channel, signal.0);
                }
                Doing::Nothing
            }
            Operation::Signal { signal, peer, among } => {
                self.raise((among.0, own, *peer), signal.0);
                Doing::Nothing
            }
            Operation::Wait { signals, among } => {
                let mut list = Vec::new();
                for (signal, peer, times) in signals {
                    let channel = (among.0, *peer, own);
                    let consumed = self.consumed.entry((channel, signal.0)).or_default();
                    *consumed += *times as usize;
                    list.push((channel, signal.0, *consumed));
                }
                Doing::Awaits(list)
            }
        }
    }

    fn raise(&mut self, channel: Channel, signal: u32) {
        let raised = self.raised.entry((channel, signal)).or_default();
        *raised += 1;
        for (.., arrival) in self.puts.entry(channel).or_default() {
            arrival.get_or_insert((signal, *raised));
        }
    }

    fn end(&mut self, id: Id) {
        let (rank, run, at) = id;
        let own = rank as u32;
        let Some(Running { doing, reads, inputs }) = self.running.remove(&id) else { return };
        let call = self.call(id);
        for (part, values) in &reads {
            let now = self.memory.read(self.plan, own, part, run);
            assert_eq!(&now, values, "rank {rank}: {part:?} changed while it was read: {call:?}");
        }
        if let Work::Compute { writes, .. } = &call.work {
            for (which, part) in writes.iter().enumerate() {
                let value = |at| Value::Is(computed(&call.work, &inputs, which, at));
                self.memory.write(self.plan, own, part, run, value);
            }
        }
        for one in doing {
            match one {
                Doing::Sends { from, values, .. } => {
                    let now = self.memory.read(self.plan, own, &from, run);
                    assert_eq!(now, values, "rank {rank}: {from:?} changed while it was sent");
                }
                Doing::Receives { channel, turn, to } => {
                    let values = self.sent[&channel][turn].clone();
                    assert_eq!(values.len() as u64, to.end - to.start);
                    self.memory.write(self.plan, own, &to, run, |at| Value::Is(values[at]));
                }
                Doing::Meets { among, members, turn, kind, recv } => {
                    let Some(to) = recv else { continue };
                    let given: Vec<&Vec<u64>> =
                        members.iter().map(|&one| &self.met[&(one, among)][turn]).collect();
                    let index = members.iter().position(|&one| one == rank).expect("a member");
                    let values = outcome(&kind, &given, index, (to.end - to.start) as usize);
                    self.memory.write(self.plan, own, &to, run, |at| Value::Is(values[at]));
                }
                Doing::Awaits(list) => {
                    for (channel, signal, upto) in list {
                        let puts = std::mem::take(self.puts.entry(channel).or_default());
                        for put in puts {
                            let (to, run, values, arrival) = &put;
                            if arrival.is_some_and(|(by, turn)| by == signal && turn <= upto) {
                                let value = |at: usize| Value::Is(values[at]);
                                self.memory.write(self.plan, own, to, *run, value);
                            } else {
                                self.puts.entry(channel).or_default().push(put);
                            }
                        }
                    }
                }
                Doing::Nothing => {}
            }
        }
        self.ended[rank][run][at] = true;
        self.queues[rank][call.stream.index()].pop_front();
    }
}

fn call_computes(call: &Call) -> bool {
    matches!(call.work, Work::Compute { .. })
}

/// What a call reads of its own rank, and nothing else reads for it.
fn reading(call: &Call, rank: u32) -> Vec<Part> {
    match &call.work {
        Work::Compute { reads, .. } => reads.clone(),
        Work::Group(ops) => {
            let send = |op: &Operation| match op {
                Operation::Collective { send, .. } => *send,
                // What a rank puts where it is already need not be watched.
                Operation::Put { from, to, peer, .. } => {
                    (*peer != rank || !overlap(from, to)).then_some(*from)
                }
                _ => None,
            };
            ops.iter().filter_map(send).collect()
        }
    }
}

pub(crate) fn communicator(op: &Operation) -> CommunicatorId {
    match op {
        Operation::Collective { among, .. }
        | Operation::Send { among, .. }
        | Operation::Receive { among, .. }
        | Operation::Put { among, .. }
        | Operation::Signal { among, .. }
        | Operation::Wait { among, .. } => *among,
    }
}

fn communicators(call: &Call) -> Vec<CommunicatorId> {
    match &call.work {
        Work::Compute { .. } => Vec::new(),
        Work::Group(ops) => ops.iter().map(communicator).collect(),
    }
}

/// What a collective gives one member.
fn outcome(kind: &CollectiveKind, given: &[&Vec<u64>], index: usize, len: usize) -> Vec<u64> {
    let sum = |at: usize| given.iter().fold(0_u64, |sum, of| sum.wrapping_add(of[at]));
    let one_by_one = || given.iter().flat_map(|of| of.iter().copied()).collect();
    match kind {
        CollectiveKind::AllReduce(_) | CollectiveKind::Reduce(..) => (0..len).map(sum).collect(),
        CollectiveKind::Broadcast(from) => given[root(from)].clone(),
        CollectiveKind::AllGather | CollectiveKind::Gather(_) => one_by_one(),
        CollectiveKind::ReduceScatter(_) => (0..len).map(|at| sum(index * len + at)).collect(),
        CollectiveKind::AllToAll => {
            let part = len / given.len();
            given.iter().flat_map(|of| of[index * part..][..part].iter().copied()).collect()
        }
        CollectiveKind::Scatter(from) => given[root(from)][index * len..][..len].to_vec(),
    }
}

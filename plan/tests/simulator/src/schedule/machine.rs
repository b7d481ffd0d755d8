//! The calls that wait, run and have ended, and which of them may go on.

use std::collections::{HashMap, VecDeque};

use typed_nccl_plan::ir::{CollectiveKind, Launch, Plan};
use typed_nccl_plan::lower::{Call, Elements, Schedule};

use super::calls::communicators;
use super::memory::Memory;
use crate::random::Random;

/// A call of a run: rank, run, place in the rank's list.
pub(super) type Id = (usize, usize, usize);
/// Communicator, from, to.
pub(super) type Channel = (u32, u32, u32);

/// An operation that has started.
#[derive(Clone)]
pub(super) enum Doing {
    Sends {
        channel: Channel,
        turn: usize,
        from: Elements,
        values: Vec<u64>,
    },
    Receives {
        channel: Channel,
        turn: usize,
        to: Elements,
    },
    Meets {
        among: u32,
        members: Vec<usize>,
        turn: usize,
        kind: CollectiveKind<u32>,
        recv: Option<Elements>,
    },
    /// A kernel, the communicator's so many-th of this rank.
    Launches {
        among: u32,
        members: Vec<usize>,
        turn: usize,
    },
    /// Counted signals: of each channel and signal, up to which.
    Awaits(Vec<(Channel, u32, usize)>),
    Nothing,
}

/// A call that has started.
pub(super) struct Running {
    pub(super) doing: Vec<Doing>,
    /// What must still be there at the end.
    pub(super) reads: Vec<(Elements, Vec<u64>)>,
    /// What a compute step computes with.
    pub(super) inputs: Vec<u64>,
}

pub(super) struct Machine<'a> {
    pub(super) plan: &'a Plan,
    pub(super) schedule: &'a Schedule,
    pub(super) memory: Memory,
    /// Of each rank and stream, what is left to run.
    pub(super) queues: Vec<Vec<VecDeque<Id>>>,
    pub(super) running: HashMap<Id, Running>,
    pub(super) ended: Vec<Vec<Vec<bool>>>,
    /// Calls of each channel or communicator so far; messages sent and received.
    pub(super) sent: HashMap<Channel, Vec<Vec<u64>>>,
    pub(super) received: HashMap<Channel, usize>,
    /// Of each rank and communicator, what its collectives gave so far.
    pub(super) met: HashMap<(usize, u32), Vec<Vec<u64>>>,
    /// Of each rank and communicator, how many kernels it launched so far.
    pub(super) launched: HashMap<(usize, u32), usize>,
    pub(super) raised: HashMap<(Channel, u32), usize>,
    pub(super) consumed: HashMap<(Channel, u32), usize>,
    /// Puts that have started and not arrived: with the signal that will say so, once there is one.
    pub(super) puts: HashMap<Channel, Vec<(Elements, usize, Vec<u64>, Option<(u32, usize)>)>>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(plan: &'a Plan, schedule: &'a Schedule, runs: usize) -> Self {
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
            launched: HashMap::new(),
            raised: HashMap::new(),
            consumed: HashMap::new(),
            puts: HashMap::new(),
        }
    }

    /// Runs to the end, one random step after another.
    pub(super) fn run(&mut self, random: &mut Random) {
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

    pub(super) fn call(&self, (rank, _, at): Id) -> &'a Call {
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
            Doing::Launches { among, members, turn } => members
                .iter()
                .all(|&one| self.launched.get(&(one, *among)).is_some_and(|of| of >= turn)),
            Doing::Awaits(list) => list.iter().all(|(channel, signal, upto)| {
                self.raised.get(&(*channel, *signal)).is_some_and(|raised| raised >= upto)
            }),
            Doing::Nothing => true,
        }
    }
}

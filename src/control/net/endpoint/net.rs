//! The state that nodes and rendezvous share.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::super::channels::Call;
use super::super::conns::Conns;
use super::super::hub::NodeKey;
use super::super::ident::CommId;
use super::super::message::{Left, Table};
use super::super::proof::Secret;
use crate::lock::Mutex;

/// The most tombstones.
const MOST_ENDED: usize = 1 << 13;

/// See the module.
pub(crate) struct Net {
    pub(crate) conns: Conns,
    pub(crate) timers: Timers,
    /// Work for after the current event, when no node is borrowed.
    pub(crate) deferred: VecDeque<Deferred>,
    /// The nodes of this process, by communicator and rank.
    pub(crate) local_nodes: BTreeMap<(CommId, u32), NodeKey>,
    pub(crate) ended: Ended,
    pub(crate) tables: Tables,
}

/// The member tables in memory, shared by the ranks of one communicator.
pub(crate) type Tables = Arc<Mutex<HashMap<CommId, Weak<Table>>>>;

impl Net {
    pub(super) fn new(conns: Conns) -> Self {
        Self {
            conns,
            timers: Timers::default(),
            deferred: VecDeque::new(),
            local_nodes: BTreeMap::new(),
            ended: Ended::default(),
            tables: Tables::default(),
        }
    }

    /// The time of the current event.
    pub(crate) fn now(&self) -> Instant {
        self.conns.now
    }
}

pub(crate) enum Deferred {
    /// A communicator has a node here, so parked connections can be answered.
    Arrived(CommId),
    /// A node has received the table.
    Table(NodeKey),
    /// A process is dead, for every communicator.
    ProcessDied {
        process: u64,
        why: String,
    },
    /// A rank has left, so its place in splits stays empty.
    Departed {
        node: NodeKey,
        left: Left,
    },
    Call(Call),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Flush(NodeKey),
    Dial(NodeKey),
    Expect(NodeKey),
    Probe(NodeKey),
    Confirm(NodeKey),
    Tick,
    Accept(usize),
}

#[derive(Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(Instant, Timer)>>);

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    pub(super) fn due(&mut self, now: Instant) -> Option<Timer> {
        let due = self.0.peek().is_some_and(|Reverse((at, _))| *at <= now);
        due.then(|| self.0.pop()).flatten().map(|Reverse((_, timer))| timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }
}

/// The remains of a node or rendezvous: enough to prove to latecomers what became of it.
pub(crate) struct Tombstone {
    pub(crate) secret: Secret,
    /// The ranks that this one took for dead.
    pub(crate) lost: Vec<u32>,
}

/// The tombstones, bounded: the oldest goes first.
#[derive(Default)]
pub(crate) struct Ended {
    all: HashMap<(CommId, u32), Tombstone>,
    order: VecDeque<(CommId, u32)>,
}

impl Ended {
    pub(crate) fn add(&mut self, one: (CommId, u32), over: Tombstone) {
        if self.all.insert(one, over).is_none() {
            self.order.push_back(one);
        }
        if self.order.len() > MOST_ENDED
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    pub(super) fn get(&self, one: (CommId, u32)) -> Option<&Tombstone> {
        self.all.get(&one)
    }
}

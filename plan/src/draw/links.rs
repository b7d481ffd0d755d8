//! Relations in a schedule: the order of each rank's calls, and the matching of calls of several
//! ranks. The schedule is not trusted: unmatched halves are allowed.

use std::collections::{HashMap, VecDeque};

use crate::ir::{CommunicatorId, Plan};
use crate::lower::{Call, Operation, Schedule, Work};
use crate::program::Layout;

/// A schedule's calls, numbered rank by rank, and the relations between them.
pub(crate) struct Links<'a> {
    pub(crate) calls: Vec<Placed<'a>>,
    /// For each call, earlier calls of its rank that must have ended.
    pub(crate) before: Vec<Vec<u32>>,
    /// Events that one stream records and another waits for.
    pub(crate) events: Vec<(u32, u32)>,
    pub(crate) messages: Vec<Pair>,
    /// Signals, with or without data, and the waits that consume them.
    pub(crate) signals: Vec<Pair>,
    /// Puts without a signal, for which nothing waits.
    pub(crate) silent: Vec<(Port, u32)>,
    /// Collectives: a port for every member.
    pub(crate) meetings: Vec<Vec<Port>>,
    /// Kernels of messages, in which the members also meet.
    pub(crate) exchanges: Vec<Vec<Port>>,
    members: Members,
}

/// A call and its rank.
#[derive(Clone, Copy)]
pub(crate) struct Placed<'a> {
    pub(crate) rank: u32,
    /// Its index among the rank's calls.
    pub(crate) nth: u32,
    pub(crate) call: &'a Call,
}

/// An operation of a call; for a wait, one of its signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Port {
    pub(crate) call: u32,
    pub(crate) op: u32,
    pub(crate) entry: u32,
}

/// A transfer from one call to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pair {
    pub(crate) from: Port,
    pub(crate) to: Port,
}

impl<'a> Links<'a> {
    pub(crate) fn new(plan: &Plan, schedule: &'a Schedule) -> Self {
        let mut calls = Vec::new();
        for (rank, of) in (0..).zip(&schedule.ranks) {
            calls.extend((0..).zip(&of.calls).map(|(nth, call)| Placed { rank, nth, call }));
        }
        let mut links = Self {
            before: vec![Vec::new(); calls.len()],
            calls,
            events: Vec::new(),
            messages: Vec::new(),
            signals: Vec::new(),
            silent: Vec::new(),
            meetings: Vec::new(),
            exchanges: Vec::new(),
            members: Members::new(plan, schedule),
        };
        links.local();
        links.across();
        links
    }

    pub(crate) fn len(&self) -> u32 {
        self.calls.len() as u32
    }

    pub(crate) fn operations(&self, call: u32) -> &'a [Operation] {
        self.calls[call as usize].call.work.operations()
    }

    /// The number of a rank's call.
    pub(crate) fn number(&self, rank: u32, nth: usize) -> u32 {
        let begin = self.calls.partition_point(|placed| placed.rank < rank);
        (begin + nth) as u32
    }

    /// The messages that a call sends and that are received, in order.
    pub(crate) fn messages_from(&self, call: u32) -> &[Pair] {
        let begin = self.messages.partition_point(|pair| pair.from.call < call);
        let own = self.messages[begin..].partition_point(|pair| pair.from.call == call);
        &self.messages[begin..begin + own]
    }

    /// The ranks of a rank's communicator, in order.
    pub(crate) fn members(&self, of: CommunicatorId, rank: u32) -> Vec<u32> {
        self.members.of(of, rank)
    }

    /// The first member, which identifies the communicator's instance.
    pub(crate) fn first(&self, of: CommunicatorId, rank: u32) -> u32 {
        self.members.first(of, rank)
    }

    /// The order on each rank: streams, events, and one queue per communicator.
    fn local(&mut self) {
        let mut rank = u32::MAX;
        let (mut streams, mut events) = (HashMap::new(), HashMap::new());
        let mut queues: HashMap<CommunicatorId, u32> = HashMap::new();
        for at in 0..self.len() {
            let placed = self.calls[at as usize];
            if placed.rank != rank {
                rank = placed.rank;
                (streams, events) = (HashMap::new(), HashMap::new());
                queues.clear();
            }
            let mut before: Vec<u32> = Vec::new();
            before.extend(streams.insert(placed.call.stream, at));
            for event in &placed.call.waits {
                if let Some(&recorded) = events.get(event) {
                    before.push(recorded);
                    self.events.push((recorded, at));
                }
            }
            for operation in self.operations(at) {
                let last = queues.insert(operation.among(), at);
                before.extend(last.filter(|last| *last != at));
            }
            if let Some(event) = placed.call.records {
                events.insert(event, at);
            }
            before.sort_unstable();
            before.dedup();
            self.before[at as usize] = before;
        }
    }

    /// Matches messages in order for each pair, collectives by index, signals oldest first.
    fn across(&mut self) {
        let mut sends: HashMap<_, VecDeque<Port>> = HashMap::new();
        let mut receives: Vec<(_, Port)> = Vec::new();
        let mut raised: HashMap<_, VecDeque<Port>> = HashMap::new();
        let mut waits: Vec<(_, u32, Port)> = Vec::new();
        let (mut meetings, mut exchanges) = (Meetings::default(), Meetings::default());
        for call in 0..self.len() {
            let Placed { rank, call: of, .. } = self.calls[call as usize];
            if let Work::Kernel { operations, legs } = &of.work
                && let (Some(first), false) = (operations.first(), legs.is_empty())
            {
                let port = Port { call, op: 0, entry: 0 };
                exchanges.join(&self.members, first.among(), rank, port);
            }
            for (op, operation) in (0..).zip(self.operations(call)) {
                let port = Port { call, op, entry: 0 };
                match operation {
                    Operation::Collective { among, .. } => {
                        meetings.join(&self.members, *among, rank, port);
                    }
                    Operation::Send { peer, among, .. } => {
                        sends.entry((*among, rank, *peer)).or_default().push_back(port);
                    }
                    Operation::Receive { peer, among, .. } => {
                        receives.push(((*among, *peer, rank), port));
                    }
                    Operation::Put { peer, signal: None, .. } => self.silent.push((port, *peer)),
                    Operation::Put { peer, signal: Some(signal), .. }
                    | Operation::Signal { peer, signal, .. } => {
                        raised.entry((rank, *peer, *signal)).or_default().push_back(port);
                    }
                    Operation::Wait { signals, .. } => {
                        for (entry, (signal, peer, times)) in (0..).zip(signals) {
                            waits.push(((*peer, rank, *signal), *times, Port { entry, ..port }));
                        }
                    }
                }
            }
        }
        for (key, to) in receives {
            if let Some(from) = sends.get_mut(&key).and_then(VecDeque::pop_front) {
                self.messages.push(Pair { from, to });
            }
        }
        for (key, times, to) in waits {
            let Some(queue) = raised.get_mut(&key) else { continue };
            let many = queue.len().min(times as usize);
            self.signals.extend(queue.drain(..many).map(|from| Pair { from, to }));
        }
        self.meetings = meetings.all.into_values().collect();
        self.exchanges = exchanges.all.into_values().collect();
        self.messages.sort_unstable();
        self.signals.sort_unstable();
        self.meetings.sort_unstable();
        self.exchanges.sort_unstable();
    }
}

/// What members of communicators do together, matched by index.
#[derive(Default)]
struct Meetings {
    /// How many each rank has joined.
    joined: HashMap<(CommunicatorId, u32), usize>,
    all: HashMap<(CommunicatorId, u32, usize), Vec<Port>>,
}

impl Meetings {
    fn join(&mut self, members: &Members, among: CommunicatorId, rank: u32, port: Port) {
        let joined = self.joined.entry((among, rank)).or_default();
        let key = (among, members.first(among, rank), *joined);
        self.all.entry(key).or_default().push(port);
        *joined += 1;
    }
}

/// The members of each communicator; all ranks, if the schedule does not belong to the plan.
struct Members {
    layout: Option<Layout>,
    communicators: usize,
    ranks: u32,
}

impl Members {
    fn new(plan: &Plan, schedule: &Schedule) -> Self {
        let extents = &schedule.sizes.extents;
        let fits = extents.len() == plan.axes.len() && extents.iter().all(|extent| *extent > 0);
        let known = plan.communicators.iter().flat_map(|one| &one.axes);
        let known = known.into_iter().all(|axis| axis.index() < extents.len());
        let layout = if fits && known { Layout::new(plan, extents) } else { None };
        let layout = layout.filter(|layout| layout.size == schedule.ranks.len());
        let ranks = schedule.ranks.len() as u32;
        Self { layout, communicators: plan.communicators.len(), ranks }
    }

    fn first(&self, communicator: CommunicatorId, rank: u32) -> u32 {
        let index = communicator.index();
        match &self.layout {
            Some(layout) if index < self.communicators => layout.first(index, rank as usize) as u32,
            _ => 0,
        }
    }

    fn of(&self, communicator: CommunicatorId, rank: u32) -> Vec<u32> {
        let index = communicator.index();
        match &self.layout {
            Some(layout) if index < self.communicators => {
                layout.together(index, rank as usize).map(|member| member as u32).collect()
            }
            _ => (0..self.ranks).collect(),
        }
    }
}

//! Detects waits that never end, over everything enqueued and every host wait.
//!
//! A stream waits for what its current task needs, a host wait for its result. The search first
//! removes everything that may still happen by itself: moving data, running closures, ranks that
//! may make another call. Then it repeatedly removes what waits only for removed things. What
//! remains never ends, since the first of it to proceed would have to wait for another first.
//!
//! A rank's next call can come from any thread. It cannot come while a call of that communicator
//! waits, as there is only one at a time, nor while every thread of the process waits. A refused
//! call, which takes its turn at once, could also end a wait, but not if it is queued behind
//! waiting work.

use std::collections::HashMap;

use typed_nccl_match::{Graph, circle};

use super::active_group::{Booked, HostOp, Phase};
use super::comm::{MemberId, MemberState};
use super::meeting::{Which, holds};
use super::state::{Out, State};
use super::stream::{Current, Task};
use super::wait::{On, Wait};
use super::who::Looking;
use crate::backend::{Awaits, Exchange, Submission, WindowId};

/// Something that waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    /// A stream, at its current or next task.
    Stream(usize),
    /// A thread.
    Wait(usize),
    /// A call that no thread makes.
    Nobody,
    /// A shared set of needs, which itself does not wait.
    All(Gathering),
}

/// A set of needs shared by many waiting ranks, stored once. Otherwise thousands of ranks waiting
/// for thousands of others would have millions of needs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Gathering {
    /// A collective, by communicator and number.
    Round { comm: usize, index: u64 },
    /// An exchange, by the key of its meeting and its number.
    Exchange { meeting: usize, number: u64 },
    /// A barrier of a device communicator, and its round.
    Barrier { comm: usize, dev: WindowId, index: usize, turn: u64 },
}

/// Something that a node needs in order to proceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// The node that must proceed first; `None` if it can by itself.
    pub(super) on: Option<Node>,
    pub(super) why: Why,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// Operation `at` of a rank's group needs another rank.
    Peer { place: MemberId, at: usize, peer: usize },
    /// A rank's group comes after its earlier groups of the communicator.
    Turn { place: MemberId },
    /// A stream waits for another.
    Stream,
    /// A thread waits for its own streams.
    Own,
    /// A thread waits for another rank's part of an exchange.
    Exchange { place: MemberId, peer: usize },
    /// A connecting rank waits for a rank that does not connect.
    Seat { rank: usize, peer: usize },
    /// A request waits until another rank submits its key.
    Key { place: MemberId, peer: usize },
    /// A request waits for the one that its own rank is issuing.
    Request { place: MemberId },
    /// A closure at a barrier waits for another rank's closure.
    Barrier { place: MemberId, index: usize, peer: usize },
    /// A gathering lacks a rank's part.
    Part { peer: usize },
}

impl Why {
    /// The same reason, for a wait for this rank.
    pub(super) fn of(self, of: usize) -> Self {
        match self {
            Self::Peer { place, at, .. } => Self::Peer { place, at, peer: of },
            Self::Exchange { place, .. } => Self::Exchange { place, peer: of },
            Self::Seat { rank, .. } => Self::Seat { rank, peer: of },
            Self::Barrier { place, index, .. } => Self::Barrier { place, index, peer: of },
            other => other,
        }
    }
}

impl State {
    /// Ends the communicators of waits that never end; returns false if there are none. With
    /// `all_wait`, every thread of the process waits.
    pub(super) fn end_deadlock(&mut self, all_wait: bool, out: &mut Out) -> bool {
        let needs = Looking::new(self, all_wait).needs();
        let waiting = |of: &HashMap<Node, Vec<Need>>| {
            of.keys().filter(|node| !matches!(node, Node::All(_))).count()
        };
        let all = waiting(&needs);
        let stuck = stuck(needs);
        if stuck.is_empty() || (all_wait && waiting(&stuck) < all) {
            return false;
        }
        let path = path(&stuck);
        if path.is_empty() {
            return false;
        }
        self.end_path(&path, out)
    }

    pub(super) fn seen_comm(&self, place: MemberId) -> Option<&super::comm::CommState> {
        self.comms.get(place.comm).filter(|comm| comm.id == place.id)
    }

    pub(super) fn seen_member(&self, place: MemberId) -> Option<&MemberState> {
        self.seen_comm(place)?.members.get(place.rank)
    }
}

impl Looking<'_> {
    /// The needs of each stream and each waiting thread.
    pub(super) fn needs(self) -> HashMap<Node, Vec<Need>> {
        let State { streams, waits, .. } = self.state;
        let mut needs = HashMap::with_capacity(streams.len() + waits.len());
        for (key, stream) in streams {
            if stream.current.is_some() || !stream.queue.is_empty() {
                needs.insert(Node::Stream(key), self.stream_needs(key));
            }
        }
        for (key, wait) in waits {
            needs.insert(Node::Wait(key), self.wait_needs(wait));
        }
        needs.extend(self.gathered());
        needs
    }

    fn stream_needs(&self, key: usize) -> Vec<Need> {
        let Some(stream) = self.state.streams.get(key) else { return Vec::new() };
        match (&stream.current, stream.queue.front()) {
            (Some(Current::Group { place }), _) => self.flight_needs(*place),
            (Some(Current::Launch { at: Some(at), .. }), _) => self.barrier_needs(at),
            (None, Some(Task::Wait(point))) if !point.reached() => {
                vec![Need { on: Some(Node::Stream(point.stream().key)), why: Why::Stream }]
            }
            (None, Some(Task::Group { place, unit, .. })) => match self.state.seen_member(*place) {
                Some(member) if member.turn != *unit => {
                    vec![Need { on: self.work(*place), why: Why::Turn { place: *place } }]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn flight_needs(&self, place: MemberId) -> Vec<Need> {
        let Some(comm) = self.state.seen_comm(place) else { return Vec::new() };
        let Some(active) = &comm.members[place.rank].active else { return Vec::new() };
        if comm.broken || active.void {
            return Vec::new();
        }
        let need =
            |at, peer| Need { on: self.work(place.of(peer)), why: Why::Peer { place, at, peer } };
        let mut needs = Vec::new();
        match active.phase {
            // A put that moves data, or waits for a closure.
            Phase::OneSided(_) if active.left > 0 => {}
            Phase::OneSided(at) => {
                needs.extend(active.wait_at(at).map(|wait| need(at, wait.peer.index())));
            }
            Phase::Collectives => {
                for (at, op) in active.ops.iter().enumerate() {
                    let HostOp { index, op: Booked::Collective(_), .. } = op else { continue };
                    let round = comm.rounds.get(*index).filter(|round| holds(round, place.rank));
                    let Some(round) = round else { continue };
                    let part = |peer: usize| Need {
                        on: self.work(place.of(peer)),
                        why: Why::Part { peer },
                    };
                    let missing = (0..comm.size()).filter(|&rank| round.lacks(rank));
                    let gathering = Gathering::Round { comm: place.comm, index: *index };
                    let why = Why::Peer { place, at, peer: place.rank };
                    needs.push(self.gather(gathering, why, || missing.map(part).collect()));
                }
            }
            Phase::Transfers => {
                for (at, op) in active.ops.iter().enumerate() {
                    let HostOp { index, op: Booked::Transfer(one), .. } = op else { continue };
                    let (which, own) = Which::of(place.rank, one.peer, one.half);
                    let meeting = comm.seen_calls(which).and_then(|calls| calls.get(*index));
                    if meeting.is_some_and(|meeting| holds(meeting, own)) {
                        needs.push(need(at, one.peer.index()));
                    }
                }
            }
        }
        needs
    }

    fn wait_needs(&self, wait: &Wait) -> Vec<Need> {
        if wait.is_told() {
            return Vec::new();
        }
        match &wait.on {
            On::Point(point) if point.reached() => Vec::new(),
            On::Point(point) => {
                vec![Need { on: Some(Node::Stream(point.stream().key)), why: Why::Own }]
            }
            On::Idle(place) => match self.state.seen_member(*place) {
                Some(member) if !member.is_idle() => {
                    vec![Need { on: self.work(*place), why: Why::Own }]
                }
                _ => Vec::new(),
            },
            On::Exchange(exchange) => self.exchange_needs(&**exchange).into_iter().collect(),
            On::Submission(submission) => self.submission_needs(&**submission),
        }
    }

    fn exchange_needs(&self, exchange: &dyn Exchange) -> Option<Need> {
        if !exchange.is_open() {
            return None;
        }
        let (rank, (meeting, number)) = (exchange.rank(), exchange.key());
        let gathering = Gathering::Exchange { meeting, number };
        let Some(&comm) = self.state.by_id.get(&exchange.id()) else {
            // It is connecting. Any thread may have the other ranks' seats, of any process.
            let on = (self.all_wait && exchange.is_local()).then_some(Node::Nobody);
            let part = |peer| Need { on, why: Why::Part { peer } };
            let missing = || exchange.missing().into_iter().map(part).collect();
            return Some(self.gather(gathering, Why::Seat { rank, peer: rank }, missing));
        };
        let place = MemberId { comm, id: exchange.id(), rank };
        let part = |peer| {
            let of = place.of(peer);
            let member = self.state.seen_member(of);
            let posted = member.and_then(|member| member.health.as_ref()?.posted());
            let on = match () {
                // Between processes, each rank hears of each part for itself: it is on its way.
                () if posted.is_some_and(|posted| posted > number) => None,
                // A dropped communicator sends its part when its work is over.
                () if member.is_some_and(|member| member.gone.is_some()) => self.own_work(of),
                () => self.caller(of),
            };
            Need { on, why: Why::Part { peer } }
        };
        let missing = || exchange.missing().into_iter().map(part).collect();
        Some(self.gather(gathering, Why::Exchange { place, peer: rank }, missing))
    }

    fn submission_needs(&self, submission: &dyn Submission) -> Vec<Need> {
        let Some(&comm) = self.state.by_id.get(&submission.comm()) else { return Vec::new() };
        let place = MemberId { comm, id: submission.comm(), rank: submission.rank().index() };
        match submission.awaits() {
            Awaits::Nothing => Vec::new(),
            // Unless all threads wait, any of them may submit or be issuing. Between processes, a
            // submission may be on its way.
            Awaits::Ranks(ranks) => {
                let is_local = self.state.seen_comm(place).is_some_and(|c| c.remote.is_none());
                let knows = self.all_wait && is_local;
                let need = |peer: usize| {
                    let on = if knows { self.caller(place.of(peer)) } else { None };
                    Need { on, why: Why::Key { place, peer } }
                };
                ranks.iter().map(|rank| need(rank.index())).collect()
            }
            Awaits::Turn => {
                let member = self.state.seen_member(place);
                let health = member.and_then(|member| member.health.as_ref());
                let issues = health.and_then(|health| self.within(health.id()));
                let on = issues.or_else(|| self.all_wait.then_some(Node::Nobody));
                vec![Need { on, why: Why::Request { place } }]
            }
        }
    }
}

/// The nodes that never proceed, each with its unmet needs.
fn stuck(mut needs: HashMap<Node, Vec<Need>>) -> HashMap<Node, Vec<Need>> {
    let numbers: HashMap<Node, u32> = needs.keys().copied().zip(1..).collect();
    // A call that no thread makes waits for itself.
    const NOBODY: u32 = 0;
    let number = |need: &Need| match need.on? {
        Node::Nobody => Some(NOBODY),
        on => numbers.get(&on).copied(),
    };
    let graph = Graph::new(numbers.len() + 1, |edge| {
        edge(NOBODY, NOBODY);
        for (node, needs) in &needs {
            needs.iter().filter_map(number).for_each(|on| edge(on, numbers[node]));
        }
    });
    let left = graph.left();
    needs.retain(|node, needs| {
        needs.retain(|need| number(need).is_some_and(|on| left[on as usize]));
        left[numbers[node] as usize]
    });
    needs
}

/// The next step from a node: its first need, or a gathering's first part.
fn step(node: Node, stuck: &HashMap<Node, Vec<Need>>) -> Option<Need> {
    let need = *stuck.get(&node)?.first()?;
    match (need.on, need.why) {
        (Some(all @ Node::All(_)), why) => match *stuck.get(&all)?.first()? {
            Need { on, why: Why::Part { peer } } => Some(Need { on, why: why.of(peer) }),
            part => Some(part),
        },
        _ => Some(need),
    }
}

/// A cycle of needs, each with its node, or else the longest path to a call that no thread makes.
fn path(stuck: &HashMap<Node, Vec<Need>>) -> Vec<(Node, Need)> {
    // Lowest first, so that reports are the same on every run, as far as the program's threads
    // allow.
    let order = |node: &Node| match *node {
        Node::Stream(key) => (0, key),
        Node::Wait(key) => (1, key),
        Node::Nobody | Node::All(_) => (2, 0),
    };
    let is_way = |node: &Node| !matches!(node, Node::Nobody | Node::All(_));
    let mut nodes: Vec<Node> = stuck.keys().copied().filter(is_way).collect();
    nodes.sort_unstable_by_key(order);
    let next = |node| step(node, stuck).map(|need| (need, need.on.unwrap_or(Node::Nobody)));
    circle(nodes, next, |need| usize::from(!matches!(need.why, Why::Own | Why::Stream)))
}

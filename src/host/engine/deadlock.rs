//! Waits that never end: who waits for whom, over everything that is enqueued and every host wait.
//!
//! A stream waits for what its current task needs, a host wait for what it was called for. Whatever
//! may still happen by itself is taken out: data that moves, closures, ranks that may make another
//! call. Then, again and again, what waits only for what was taken out. What is left never ends: the
//! first of it to go on would have to wait for another one before.
//!
//! A rank's next call can come from any thread. It cannot come while a call of that communicator
//! waits, for there is one at a time, nor when every thread of the process waits. A refused call,
//! which takes its turn at once, could end a wait too; behind work that waits, it is no remedy.

use std::collections::HashMap;

use super::comm::{MemberState, Place};
use super::flight::{HostOp, Phase};
use super::pair::Side;
use super::state::{Out, State};
use super::stream::{Current, Task};
use super::wait::{On, Wait};
use crate::backend::{Exchange, Submission};
use crate::control::Awaits;

/// What waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    /// A stream, at its current or next task.
    Stream(usize),
    /// A thread.
    Wait(usize),
    /// A call that nobody makes.
    Nobody,
}

/// Something that a node cannot go on without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// What has to go on first; none if it may by itself.
    pub(super) on: Option<Node>,
    pub(super) why: Why,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Why {
    /// Operation `at` of a rank's group needs another rank.
    Peer { place: Place, at: usize, peer: usize },
    /// A rank's group is behind its earlier ones of the communicator.
    Turn { place: Place },
    /// A stream waits for another.
    Stream,
    /// A thread waits for its own streams.
    Own,
    /// A thread waits for another rank's part of an exchange.
    Exchange { place: Place, peer: usize },
    /// A rank that connects waits for another one that does not.
    Seat { rank: usize, peer: usize },
    /// A request waits until another rank submits its key.
    Key { place: Place, peer: usize },
    /// A request waits for the one that its own rank is issuing.
    Request { place: Place },
    /// A closure waits at a barrier for another rank's.
    Barrier { place: Place, index: usize, peer: usize },
}

impl State {
    /// Ends the communicators of waits that never end. With `all_wait`, every thread of the process
    /// waits. False if there are none.
    pub(super) fn end_deadlock(&mut self, all_wait: bool, out: &mut Out) -> bool {
        let needs = self.needs(all_wait);
        let stuck = stuck(&needs);
        if stuck.is_empty() || (all_wait && stuck.len() < needs.len()) {
            return false;
        }
        let path = path(&stuck);
        if path.is_empty() {
            return false;
        }
        self.end_path(&path, out)
    }

    /// What each stream and each thread that waits needs.
    fn needs(&self, all_wait: bool) -> HashMap<Node, Vec<Need>> {
        let streams =
            self.streams.iter().filter(|(_, s)| s.current.is_some() || !s.queue.is_empty());
        let streams = streams.map(|(key, _)| (Node::Stream(key), self.stream_needs(key, all_wait)));
        let waits = self.waits.iter();
        let waits = waits.map(|(key, wait)| (Node::Wait(key), self.wait_needs(wait, all_wait)));
        streams.chain(waits).collect()
    }

    fn stream_needs(&self, key: usize, all_wait: bool) -> Vec<Need> {
        let Some(stream) = self.streams.get(key) else { return Vec::new() };
        match (&stream.current, stream.queue.front()) {
            (Some(Current::Group { place }), _) => self.flight_needs(*place, all_wait),
            (Some(Current::Launch { at: Some(at), .. }), _) => self.barrier_needs(at, all_wait),
            (None, Some(Task::Wait(point))) if !point.reached() => {
                vec![Need { on: Some(Node::Stream(point.stream().key)), why: Why::Stream }]
            }
            (None, Some(Task::Group { place, unit, .. })) => match self.seen_member(*place) {
                Some(member) if member.turn != *unit => {
                    let why = Why::Turn { place: *place };
                    vec![Need { on: self.work(*place, all_wait), why }]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn flight_needs(&self, place: Place, all_wait: bool) -> Vec<Need> {
        let Some(comm) = self.seen_comm(place) else { return Vec::new() };
        let Some(flight) = &comm.members[place.rank].flight else { return Vec::new() };
        if comm.broken || flight.void {
            return Vec::new();
        }
        let need = |at, peer| {
            let on = self.work(place.of(peer), all_wait);
            Need { on, why: Why::Peer { place, at, peer } }
        };
        let mut needs = Vec::new();
        match flight.phase {
            // A put that moves, or waits for a closure.
            Phase::OneSided(_) if flight.left > 0 => {}
            Phase::OneSided(at) => {
                if let Some(HostOp::Wait { peer, .. }) = flight.ops.get(at) {
                    needs.push(need(at, *peer));
                }
            }
            Phase::Collectives => {
                for (at, op) in flight.ops.iter().enumerate() {
                    let HostOp::Collective { index, .. } = op else { continue };
                    let round = comm.seen_round(*index).filter(|round| round.holds(place.rank));
                    let Some(round) = round else { continue };
                    let missing = (0..comm.size()).filter(|&rank| !round.has(rank));
                    needs.extend(missing.map(|rank| need(at, rank)));
                }
            }
            Phase::Transfers => {
                for (at, op) in flight.ops.iter().enumerate() {
                    let (from, to, index, side, peer) = match op {
                        HostOp::SendTo { peer, index, .. } => {
                            (place.rank, *peer, *index, Side::Sender, *peer)
                        }
                        HostOp::RecvFrom { peer, index, .. } => {
                            (*peer, place.rank, *index, Side::Receiver, *peer)
                        }
                        _ => continue,
                    };
                    if comm.seen_pairs(from, to).is_some_and(|pairs| pairs.is_half(index, side)) {
                        needs.push(need(at, peer));
                    }
                }
            }
        }
        needs
    }

    fn wait_needs(&self, wait: &Wait, all_wait: bool) -> Vec<Need> {
        if wait.is_told() {
            return Vec::new();
        }
        match &wait.on {
            On::Point(point) if point.reached() => Vec::new(),
            On::Point(point) => {
                vec![Need { on: Some(Node::Stream(point.stream().key)), why: Why::Own }]
            }
            On::Idle(place) => match self.seen_member(*place) {
                Some(member) if !member.is_idle() => {
                    vec![Need { on: self.work(*place, all_wait), why: Why::Own }]
                }
                _ => Vec::new(),
            },
            On::Exchange(exchange) => self.exchange_needs(exchange, all_wait),
            On::Submission(submission) => self.submission_needs(submission, all_wait),
        }
    }

    fn exchange_needs(&self, exchange: &Exchange, all_wait: bool) -> Vec<Need> {
        let rank = exchange.rank();
        let Some(&comm) = self.by_id.get(&exchange.id()) else {
            // It connects. Any thread may have the other ranks' seats.
            let on = all_wait.then_some(Node::Nobody);
            let need = |peer| Need { on, why: Why::Seat { rank, peer } };
            return exchange.missing().into_iter().map(need).collect();
        };
        let place = Place { comm, id: exchange.id(), rank };
        let need = |peer| {
            let of = place.of(peer);
            // One that was dropped sends its part when its work is over.
            let dropped = self.seen_member(of).is_some_and(|m| m.gone.is_some());
            let on = match dropped {
                true => self.own_work(of),
                false => self.caller(of, all_wait),
            };
            Need { on, why: Why::Exchange { place, peer } }
        };
        exchange.missing().into_iter().map(need).collect()
    }

    fn submission_needs(&self, submission: &Submission, all_wait: bool) -> Vec<Need> {
        let Some(&comm) = self.by_id.get(&submission.comm) else { return Vec::new() };
        let place = Place { comm, id: submission.comm, rank: submission.rank.index() };
        match submission.awaits() {
            Awaits::Nothing => Vec::new(),
            // Any thread of theirs may submit, and any thread may be issuing, unless all wait.
            Awaits::Ranks(ranks) => {
                let need = |peer: usize| {
                    let on = if all_wait { self.caller(place.of(peer), true) } else { None };
                    Need { on, why: Why::Key { place, peer } }
                };
                ranks.iter().map(|rank| need(rank.index())).collect()
            }
            Awaits::Turn => {
                let health = self.seen_member(place).and_then(|member| member.health.as_ref());
                let is_in = |(_, wait): &(usize, &Wait)| {
                    health.is_some_and(|health| wait.within == Some(health.id()))
                };
                let issues = self.waits.iter().find(is_in).map(|(key, _)| Node::Wait(key));
                let on = issues.or_else(|| all_wait.then_some(Node::Nobody));
                vec![Need { on, why: Why::Request { place } }]
            }
        }
    }

    pub(super) fn seen_comm(&self, place: Place) -> Option<&super::comm::CommState> {
        self.comms.get(place.comm).filter(|comm| comm.id == place.id)
    }

    pub(super) fn seen_member(&self, place: Place) -> Option<&MemberState> {
        self.seen_comm(place)?.members.get(place.rank)
    }

    /// What a rank's next operations are behind: its work that is not over, else its next call.
    fn work(&self, place: Place, all_wait: bool) -> Option<Node> {
        match self.seen_member(place) {
            Some(member) if !member.is_idle() => self.own_work(place),
            Some(_) => self.caller(place, all_wait),
            None => None,
        }
    }

    /// The stream with a rank's first group that is not over.
    fn own_work(&self, place: Place) -> Option<Node> {
        let member = self.seen_member(place)?;
        if let Some(flight) = &member.flight {
            return Some(Node::Stream(flight.stream));
        }
        let is_it = |task: &Task| matches!(task, Task::Group { place: p, unit, .. } if *p == place && *unit == member.turn);
        let (key, _) = self.streams.iter().find(|(_, stream)| stream.queue.iter().any(is_it))?;
        Some(Node::Stream(key))
    }

    /// Who would make a rank's next call: none if somebody may.
    pub(super) fn caller(&self, place: Place, all_wait: bool) -> Option<Node> {
        let member = self.seen_member(place)?;
        let health = member.health.as_ref().filter(|health| health.is_well())?;
        if member.gone.is_some() {
            return None;
        }
        let is_in = |(_, wait): &(usize, &Wait)| wait.within == Some(health.id());
        if let Some((key, _)) = self.waits.iter().find(is_in) {
            return Some(Node::Wait(key));
        }
        if !all_wait {
            return None;
        }
        // Whoever has the communicator waits; this is who most likely does.
        let uses = |(_, wait): &(usize, &Wait)| wait.uses(health.id());
        let is_home = |(_, wait): &(usize, &Wait)| Some(wait.thread) == member.home;
        let wait = self.waits.iter().find(uses).or_else(|| self.waits.iter().find(is_home));
        Some(wait.map_or(Node::Nobody, |(key, _)| Node::Wait(key)))
    }
}

/// What never ends: each with its needs that never come.
fn stuck(needs: &HashMap<Node, Vec<Need>>) -> HashMap<Node, Vec<Need>> {
    let mut stuck = needs.clone();
    loop {
        let ends = |need: &Need, stuck: &HashMap<Node, Vec<Need>>| match need.on {
            Some(Node::Nobody) => false,
            Some(node) => !stuck.contains_key(&node),
            None => true,
        };
        let free: Vec<Node> = stuck
            .iter()
            .filter(|(_, needs)| needs.iter().all(|need| ends(need, &stuck)))
            .map(|(&node, _)| node)
            .collect();
        if free.is_empty() {
            break;
        }
        for node in free {
            stuck.remove(&node);
        }
    }
    let left: Vec<Node> = stuck.keys().copied().collect();
    for needs in stuck.values_mut() {
        needs.retain(|need| {
            need.on.is_some_and(|node| node == Node::Nobody || left.contains(&node))
        });
    }
    stuck
}

/// A circle of needs, each with who has it; or the longest way that ends with what nobody does.
fn path(stuck: &HashMap<Node, Vec<Need>>) -> Vec<(Node, Need)> {
    // The lowest first, so that a program is told the same every time, as far as its threads let it.
    let order = |node: &Node| match *node {
        Node::Stream(key) => (0, key),
        Node::Wait(key) => (1, key),
        Node::Nobody => (2, 0),
    };
    let mut nodes: Vec<Node> = stuck.keys().copied().collect();
    nodes.sort_unstable_by_key(order);
    let mut longest = Vec::new();
    for node in nodes {
        let path = path_from(node, stuck);
        if path.last().is_some_and(|(_, need)| need.on != Some(Node::Nobody)) {
            return path;
        }
        if calls(&path) > calls(&longest) {
            longest = path;
        }
    }
    longest
}

/// How many waits for another call there are on a way.
fn calls(path: &[(Node, Need)]) -> usize {
    path.iter().filter(|(_, need)| !matches!(need.why, Why::Own | Why::Stream)).count()
}

fn path_from(mut node: Node, stuck: &HashMap<Node, Vec<Need>>) -> Vec<(Node, Need)> {
    let mut path: Vec<(Node, Need)> = Vec::new();
    loop {
        if let Some(start) = path.iter().position(|(known, _)| *known == node) {
            return path.split_off(start);
        }
        let Some(&need) = stuck.get(&node).and_then(|needs| needs.first()) else { return path };
        path.push((node, need));
        node = need.on.unwrap_or(Node::Nobody);
    }
}

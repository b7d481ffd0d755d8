//! Waits that never end, across processes.
//!
//! A process says of its ranks which calls of others must come before their own next one. That
//! stays true whatever happens meanwhile, since it speaks of an order and not of a moment. So what
//! several processes have said can be put together, and a circle of it never ends.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::super::comm::MemberId;
use super::super::deadlock::{Need, Node, Why};
use super::super::state::{Out, State};
use super::super::story::{HELP, Ranks};
use super::super::stream::{Current, Task};
use super::super::wait::On;
use super::super::who::Looking;
use super::packet::Event;
use crate::Rank;
use crate::error::{Call, Deadlock, Error, Operation};

/// How many calls of others a rank names at most, and how many lines each has.
const NAMED: usize = 8;
const LINES: usize = 24;

/// How many ranks are named on the way to a call.
const RANKS: usize = 256;

/// A call of a rank, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Next {
    /// An operation, or a refusal of one.
    Call(u64),
    /// A host-side exchange.
    Exchange(u64),
}

/// What must happen before a rank's next call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Until {
    comm: u64,
    rank: u32,
    next: Next,
    /// What those on the way there are doing, with their lines in the program.
    lines: Vec<String>,
    /// Those on the way, by communicator; the rank itself is the last one.
    ranks: Vec<(u64, u32)>,
    /// They wait in sends and receives only.
    all_transfers: bool,
}

/// A deadlock that a process has found.
#[derive(Serialize, Deserialize)]
pub(super) struct Found {
    /// The ranks of the communicator that it is of.
    ends: Vec<u32>,
    /// The ranks that its report names.
    ranks: Vec<u32>,
    circle: bool,
    story: Vec<String>,
    /// By its number.
    help: usize,
}

/// What ranks have said of their next calls: each comes after all of these. By rank, and whether it
/// is an exchange.
pub(super) type Said = HashMap<(usize, bool), (Next, Vec<Until>)>;

impl Next {
    fn is_exchange(self) -> bool {
        matches!(self, Self::Exchange(_))
    }

    /// Whether a rank whose next call this is has still to make that one. An exchange takes its
    /// turn in each rank, so the next one comes before all later ones; what a peer knows of the
    /// number of calls may be out of date.
    fn is_before(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::Call(next), Self::Call(wanted)) => next == wanted,
            (Self::Exchange(next), Self::Exchange(wanted)) => next <= wanted,
            _ => false,
        }
    }
}

/// A rank's call in a communicator of this process, and what comes before it.
type Step<'s> = (MemberId, &'s Until);

impl State {
    /// Says of the ranks of this process which calls must come before theirs. With `all_wait`,
    /// every thread of the process waits. Returns whether that ended a communicator.
    pub(in crate::host::engine) fn say_blocked(&mut self, all_wait: bool, out: &mut Out) -> bool {
        // A closure may do anything, and of several waits one that ends may lead to any call.
        if self.comms.iter().all(|(_, comm)| comm.remote.is_none()) || self.has_closures() {
            return false;
        }
        let news = self.blocked(all_wait && self.waits.len() == 1);
        let mut is_new = false;
        for (place, next, until) in news {
            let Some(comm) = self.comm(place) else { continue };
            let Some(remote) = &mut comm.remote else { continue };
            let said = (next, until);
            if remote.blocked.get(&(place.rank, next.is_exchange())) != Some(&said) {
                remote.blocked.insert((place.rank, next.is_exchange()), said.clone());
                comm.say(place.rank, &Event::Blocked(said.0, said.1), &[]);
                is_new = true;
            }
        }
        is_new && self.end_circle(out)
    }

    /// Takes in what a rank of another process says.
    pub(super) fn hear_blocked(
        &mut self,
        place: MemberId,
        next: Next,
        mut until: Vec<Until>,
        out: &mut Out,
    ) {
        until.truncate(NAMED);
        until.iter_mut().for_each(|one| {
            one.lines.truncate(LINES);
            one.ranks.truncate(RANKS);
        });
        if let Some(remote) = self.comm(place).and_then(|comm| comm.remote.as_mut()) {
            remote.blocked.insert((place.rank, next.is_exchange()), (next, until));
            self.end_circle(out);
        }
    }

    /// Tells the other processes of a deadlock that this one has found, before they hear what its
    /// ranks do because of it.
    pub(in crate::host::engine) fn say_deadlock(
        &mut self,
        place: MemberId,
        ranks: &BTreeSet<usize>,
        error: &Error,
    ) {
        let Error::Deadlock(deadlock) = error else { return };
        let Some(comm) = self.comm(place).filter(|comm| !comm.broken) else { return };
        let Some(by) = comm.remote.as_ref().and_then(|remote| remote.first()) else { return };
        let number = |rank: &Rank| rank.index() as u32;
        let found = Found {
            ends: ranks.iter().map(|&rank| rank as u32).collect(),
            ranks: deadlock.ranks.iter().map(number).collect(),
            circle: deadlock.circle,
            story: deadlock.story.clone(),
            help: HELP.iter().position(|help| *help == deadlock.help).unwrap_or(0),
        };
        comm.say(by, &Event::Deadlock(found), &[]);
    }

    /// Takes in a deadlock that another process has found.
    pub(super) fn hear_deadlock(&mut self, place: MemberId, found: Found, out: &mut Out) {
        let Some(comm) = self.comm(place).filter(|comm| !comm.broken) else { return };
        let (name, size) = (comm.name, comm.size());
        let ends = found.ends.iter().map(|&rank| rank as usize).filter(|&rank| rank < size);
        let ends: BTreeSet<usize> = ends.collect();
        let mut story = found.story;
        story.truncate(LINES);
        let error = Error::Deadlock(Box::new(Deadlock {
            ranks: found.ranks.iter().map(|&rank| Rank(rank)).collect(),
            circle: found.circle,
            story,
            help: HELP.get(found.help).copied().unwrap_or(HELP[0]),
        }));
        self.end_by(place, name, &ends, &error, out);
    }

    fn has_closures(&self) -> bool {
        self.in_closures > 0
            || self.streams.iter().any(|(_, stream)| {
                let is_launch = |task: &Task| matches!(task, Task::Launch { .. });
                matches!(stream.current, Some(Current::Launch { .. }))
                    || stream.queue.iter().any(is_launch)
            })
    }

    /// The next calls of the ranks of this process that must come after calls of other processes.
    fn blocked(&self, all_wait: bool) -> Vec<(MemberId, Next, Vec<Until>)> {
        let looking = Looking::new(self, all_wait);
        let mut starts = Vec::new();
        for (comm, state) in &self.comms {
            let Some(remote) = state.remote.as_ref().filter(|_| !state.broken) else { continue };
            for (rank, member) in state.members.iter().enumerate() {
                let health = member.health.as_ref().filter(|health| health.is_well());
                let Some(health) = health.filter(|_| member.gone.is_none()) else { continue };
                let place = MemberId { comm, id: state.id, rank };
                let calls = Next::Call(remote.calls[rank]);
                starts.extend(looking.work(place).map(|node| (place, calls, node)));
                if let Some((node, posted)) = looking.caller(place).zip(health.posted()) {
                    starts.push((place, Next::Exchange(posted), node));
                }
            }
        }
        if starts.is_empty() {
            return Vec::new();
        }
        let needs = looking.needs();
        let until = |(place, next, node)| (place, next, self.until(node, &needs));
        starts.into_iter().map(until).filter(|(_, _, until)| !until.is_empty()).collect()
    }

    /// Which calls of other processes come before a node proceeds: all of them, or some.
    fn until(&self, start: Node, needs: &HashMap<Node, Vec<Need>>) -> Vec<Until> {
        let mut found = Vec::new();
        // The needs on the way to each node.
        let mut ways = vec![(start, Vec::<(Node, Need)>::new())];
        let mut seen = HashSet::from([start]);
        while let Some((node, way)) = ways.pop() {
            for need in each(node, needs) {
                let mut way = way.clone();
                way.push((node, need));
                match need.on {
                    Some(on) if seen.insert(on) => ways.push((on, way)),
                    Some(_) => {}
                    None => found.extend(self.until_peer(&way, need.why)),
                }
                if found.len() == NAMED {
                    return found;
                }
            }
        }
        found
    }

    /// The call of a rank of another process that is waited for.
    fn until_peer(&self, way: &[(Node, Need)], why: Why) -> Option<Until> {
        let (place, peer) = match why {
            Why::Peer { place, peer, .. } | Why::Exchange { place, peer } => (place, peer),
            _ => return None,
        };
        let comm = self.seen_comm(place).filter(|comm| !comm.broken && comm.is_copy(peer))?;
        let member = &comm.members[peer];
        if member.gone.is_some() {
            return None;
        }
        let next = match why {
            Why::Exchange { .. } => Next::Exchange(self.exchange_at(way.last()?.0)?),
            _ => Next::Call(
                member.is_idle().then(|| comm.remote.as_ref()?.calls.get(peer).copied())??,
            ),
        };
        let mut ranks = Vec::new();
        let mut all_transfers = true;
        for (_, need) in way {
            let (place, peer) = match need.why {
                Why::Peer { place, at, peer } => {
                    let call = self.call_at(place, at);
                    all_transfers &= call.is_some_and(|call| is_transfer(&call));
                    (place, peer)
                }
                Why::Exchange { place, peer } => {
                    all_transfers = false;
                    (place, peer)
                }
                _ => continue,
            };
            ranks.extend([(place.id, place.rank as u32), (place.id, peer as u32)]);
        }
        ranks.dedup();
        ranks.truncate(RANKS);
        let (comm, rank, lines) = (place.id, peer as u32, self.lines(way));
        Some(Until { comm, rank, next, lines, ranks, all_transfers })
    }

    /// The number of the exchange in which a thread waits.
    fn exchange_at(&self, node: Node) -> Option<u64> {
        let Node::Wait(key) = node else { return None };
        match &self.waits.get(key)?.on {
            On::Exchange(exchange) => Some(exchange.key().1),
            On::Point(_) | On::Idle(_) | On::Submission(_) => None,
        }
    }

    /// Ends the communicators of ranks that wait for one another in a circle.
    fn end_circle(&mut self, out: &mut Out) -> bool {
        let Some(mut steps) = self.circle() else { return false };
        let lowest = (0..steps.len()).min_by_key(|&at| steps[at].0.rank).unwrap_or(0);
        steps.rotate_left(lowest);
        let mut ranks = Ranks::new();
        let mut lines = Vec::new();
        let mut all_transfers = true;
        // Each step leads to the rank of the next one.
        for (place, until) in &steps {
            ranks.entry((place.id, place.comm)).or_default().insert(place.rank);
            for &(id, rank) in &until.ranks {
                let Some(&comm) = self.by_id.get(&id) else { continue };
                if (rank as usize) < self.comms[comm].size() {
                    ranks.entry((id, comm)).or_default().insert(rank as usize);
                }
            }
            lines.extend(until.lines.iter().cloned());
            all_transfers &= until.all_transfers;
        }
        lines.truncate(LINES);
        self.end_circle_of(ranks, lines, all_transfers, out);
        true
    }

    /// A circle of calls, each of which comes after the next one.
    fn circle(&self) -> Option<Vec<Step<'_>>> {
        let mut all: Vec<(MemberId, Next, &Vec<Until>)> = Vec::new();
        for (comm, state) in &self.comms {
            let Some(remote) = state.remote.as_ref().filter(|_| !state.broken) else { continue };
            let of = |rank| MemberId { comm, id: state.id, rank };
            all.extend(remote.blocked.iter().map(|(key, (next, until))| (of(key.0), *next, until)));
        }
        // The same on every rank.
        all.sort_by_key(|(place, next, _)| (place.id, place.rank, next.is_exchange()));
        let leads = |until: &Until| {
            all.iter().position(|(place, next, _)| {
                (place.id, place.rank) == (until.comm, until.rank as usize)
                    && next.is_before(until.next)
            })
        };
        // By a search that goes as deep as it can: a way back to a call on the way is a circle.
        let mut done = vec![false; all.len()];
        for start in 0..all.len() {
            let mut way: Vec<(usize, usize)> = vec![(start, 0)];
            while let Some(&mut (at, ref mut turn)) = way.last_mut() {
                let Some(until) = all[at].2.get(*turn).filter(|_| !done[at]) else {
                    done[at] = true;
                    way.pop();
                    continue;
                };
                *turn += 1;
                let Some(next) = leads(until) else { continue };
                if let Some(first) = way.iter().position(|(on, _)| *on == next) {
                    let step = |&(at, turn): &(usize, usize)| (all[at].0, &all[at].2[turn - 1]);
                    return Some(way[first..].iter().map(step).collect());
                }
                if !done[next] {
                    way.push((next, 0));
                }
            }
        }
        None
    }
}

/// A node's needs; of a gathering, those of its parts.
fn each(node: Node, needs: &HashMap<Node, Vec<Need>>) -> Vec<Need> {
    let own = needs.get(&node).map_or(&[][..], |needs| needs);
    let parts = |need: &Need| match need.on {
        Some(all @ Node::All(_)) => {
            let parts = needs.get(&all).map_or(&[][..], |parts| parts);
            let part = |part: &Need| match part.why {
                Why::Part { peer } => Need { on: part.on, why: need.why.of(peer) },
                _ => *part,
            };
            parts.iter().map(part).collect()
        }
        _ => vec![*need],
    };
    own.iter().flat_map(parts).collect()
}

fn is_transfer(call: &Call) -> bool {
    matches!(call.operation, Operation::SendTo | Operation::RecvFrom)
}

//! Waits that never end, across processes.
//!
//! A process says of its ranks which calls of others must come before their own next one. That
//! stays true whatever happens meanwhile, since it speaks of an order and not of a moment. So what
//! several processes have said can be put together (`circle.rs`).

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::super::comm::MemberId;
use super::super::deadlock::{Need, Node, Why};
use super::super::state::{Out, State};
use super::super::stream::{Current, Task};
use super::super::wait::On;
use super::super::who::Looking;
use super::packet::Event;
use crate::error::{Call, Operation};

/// How many calls of others a rank names at most, and how many lines each has.
const NAMED: usize = 8;
pub(super) const LINES: usize = 24;

/// How many ranks are named on the way to a call.
const RANKS: usize = 256;

/// A call of a rank, by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::host::engine) enum Next {
    /// An operation, or a refusal of one.
    Call(u64),
    /// A host-side exchange.
    Exchange(u64),
}

/// What must happen before a rank's next call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(in crate::host::engine) struct Until {
    pub(super) comm: u64,
    pub(super) rank: u32,
    pub(super) next: Next,
    /// What those on the way there are doing, with their lines in the program.
    pub(super) lines: Vec<String>,
    /// Those on the way, by communicator; the rank itself is the last one.
    pub(super) ranks: Vec<(u64, u32)>,
    /// They wait in sends and receives only.
    pub(super) all_transfers: bool,
}

/// What ranks have said of their next calls: each comes after all of these. By rank, and whether it
/// is an exchange.
pub(super) type Said = HashMap<(usize, bool), (Next, Vec<Until>)>;

impl Next {
    pub(super) fn is_exchange(self) -> bool {
        matches!(self, Self::Exchange(_))
    }

    /// Whether a rank whose next call this is has still to make that one. An exchange takes its
    /// turn in each rank, so the next one comes before all later ones; what a peer knows of the
    /// number of calls may be out of date.
    pub(super) fn is_before(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::Call(next), Self::Call(wanted)) => next == wanted,
            (Self::Exchange(next), Self::Exchange(wanted)) => next <= wanted,
            _ => false,
        }
    }
}

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
        if let Some(remote) = self.remote(place) {
            remote.blocked.insert((place.rank, next.is_exchange()), (next, until));
            self.end_circle(out);
        }
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

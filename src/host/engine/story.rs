//! The report of a deadlock to its ranks: which rank waits for which, at which line.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::active_group::{Booked, HostOp};
use super::comm::MemberId;
use super::deadlock::{Need, Node, Why};
use super::state::{Out, State};
use super::stream::{Current, Task};
use super::wait::{On, Wait};
use crate::Rank;
use crate::backend::Signal;
use crate::backend::form::Put;
use crate::error::{Call, Deadlock, Departed, Error, Operation};

/// Ranks by their communicator: its id, and where it is.
pub(super) type Ranks = BTreeMap<(u64, usize), BTreeSet<usize>>;

/// The steps from one wait to the next.
type Path = [(Node, Need)];

/// The most lines in a report.
const LINES: usize = 24;

const GROUP: &str = "put what the ranks send each other and receive into one group, at both ends: \
                     `comm.group(|g| ..)`";
const COMMUNICATORS: &str = "use the communicators in one order on all ranks";
const ORDER: &str =
    "change the order on one of the ranks, so that what another one waits for comes first";
const CONNECT: &str = "all ranks must connect, and before what they wait for can happen";
const KEYS: &str = "all ranks must submit the same keys; a request keeps its thread while it waits \
                    for its turn, so each rank needs a thread for each request in flight, or tasks \
                    and `submit_async`";
const INSIDE: &str = "a request must not wait for another one of its rank: make its calls with the \
                      communicator that the closure is given";
const BARRIERS: &str =
    "all ranks must launch the same closures, and come to the same barriers in one order";
const CALLS: &str = "all ranks must make the same calls in the same order";

/// What mends a deadlock, by the number that processes tell each other.
pub(super) const HELP: [&str; 8] =
    [CALLS, GROUP, COMMUNICATORS, ORDER, CONNECT, KEYS, INSIDE, BARRIERS];

/// The place where a rank's part of an operation is enqueued.
struct Enqueued {
    call: Call,
    stream: usize,
    /// In the rank's current group.
    in_flight: bool,
}

/// The streams whose queues hold ranks' groups, in order.
type Queued = HashMap<MemberId, Vec<usize>>;

impl State {
    /// Ends the communicators on the path, with its report; returns false if there are none.
    pub(super) fn end_path(&mut self, path: &Path, out: &mut Out) -> bool {
        let mut ranks = Ranks::new();
        // Connecting ranks have no membership yet.
        let mut seats: Option<BTreeSet<usize>> = None;
        let mut connecting = Vec::new();
        for &(node, need) in path {
            let (place, peer) = match need.why {
                Why::Peer { place, peer, .. }
                | Why::Exchange { place, peer }
                | Why::Barrier { place, peer, .. }
                | Why::Key { place, peer } => (place, peer),
                Why::Turn { place } | Why::Request { place } => (place, place.rank),
                Why::Seat { rank, peer } => {
                    seats.get_or_insert_default().extend([rank, peer]);
                    connecting.push(node);
                    continue;
                }
                Why::Stream | Why::Own | Why::Part { .. } => continue,
            };
            ranks.entry((place.id, place.comm)).or_default().extend([place.rank, peer]);
        }
        let Some(first) = ranks.values().next().or(seats.as_ref()) else { return false };
        let queued = self.queued();
        let error = Error::Deadlock(Box::new(Deadlock {
            ranks: first.iter().map(|&rank| Rank::at(rank)).collect(),
            circle: path.last().is_some_and(|(_, need)| need.on != Some(Node::Nobody)),
            story: self.story(path, &queued),
            help: self.mend(path, ranks.len() + connecting.len(), &queued),
        }));
        for node in connecting {
            let Node::Wait(wait) = node else { continue };
            for health in self.waits.get(wait).map(Wait::users).into_iter().flatten() {
                if health.poison(error.clone()) {
                    out.poisoned.push(health);
                }
            }
        }
        self.end_all(ranks, &error, out);
        true
    }

    /// Ends the communicators of ranks in a circle that goes through several processes.
    pub(super) fn end_circle_of(
        &mut self,
        ranks: Ranks,
        story: Vec<String>,
        all_transfers: bool,
        out: &mut Out,
    ) {
        let help = match () {
            () if ranks.len() > 1 => COMMUNICATORS,
            () if all_transfers => GROUP,
            () => CALLS,
        };
        let first = ranks.values().next().into_iter().flatten();
        let first = first.map(|&rank| Rank::at(rank)).collect();
        let error = Deadlock { ranks: first, circle: true, story, help };
        self.end_all(ranks, &Error::Deadlock(Box::new(error)), out);
    }

    fn end_all(&mut self, ranks: Ranks, error: &Error, out: &mut Out) {
        for ((id, comm), ranks) in ranks {
            let place = MemberId { comm, id, rank: 0 };
            let Some(name) = self.seen_comm(place).map(|comm| comm.name) else { continue };
            self.say_deadlock(place, &ranks, error);
            self.end_by(place, name, &ranks, error, out);
        }
    }

    /// Ends a communicator by a deadlock of these ranks, of which the others hear.
    pub(super) fn end_by(
        &mut self,
        place: MemberId,
        name: &'static str,
        ranks: &BTreeSet<usize>,
        error: &Error,
        out: &mut Out,
    ) {
        let lost = ranks.iter().map(|&rank| Rank::at(rank)).collect();
        let other =
            Departed::all(lost, error.to_string()).error(name, "the next operation".to_owned());
        let of = |rank| if ranks.contains(&rank) { error.clone() } else { other.clone() };
        self.end(place, &[], &of, out);
    }

    /// What those on the way to a call of another process are doing.
    pub(super) fn lines(&self, way: &Path) -> Vec<String> {
        let queued = self.queued();
        let mut lines = Vec::new();
        for (at, step) in way.iter().enumerate() {
            self.tell(*step, way.get(at + 1).copied(), &queued, &mut lines);
        }
        lines.truncate(LINES);
        lines
    }

    fn queued(&self) -> Queued {
        let mut queued = Queued::new();
        for (key, stream) in &self.streams {
            for task in &stream.queue {
                let Task::Group { place, .. } = task else { continue };
                let keys = queued.entry(*place).or_default();
                if keys.last() != Some(&key) {
                    keys.push(key);
                }
            }
        }
        queued
    }

    fn mend(&self, path: &Path, communicators: usize, queued: &Queued) -> &'static str {
        let call = |(_, need): &(Node, Need)| match need.why {
            Why::Peer { place, at, .. } => self.call_at(place, at),
            _ => None,
        };
        let calls: Vec<Call> = path.iter().filter_map(call).collect();
        let transfers =
            |call: &Call| matches!(call.operation, Operation::SendTo | Operation::RecvFrom);
        let enqueued = path.iter().all(|(_, need)| match need.why {
            // Of a rank of another process it is not known.
            Why::Peer { place, at, peer } => {
                self.part_of(place, at, peer, queued).is_some()
                    || self.seen_comm(place).is_some_and(|comm| comm.is_copy(peer))
            }
            Why::Exchange { .. } => false,
            _ => true,
        });
        let any = |is: fn(&Why) -> bool| path.iter().any(|(_, need)| is(&need.why));
        match () {
            () if any(|why| matches!(why, Why::Seat { .. })) => CONNECT,
            () if any(|why| matches!(why, Why::Request { .. })) => INSIDE,
            () if any(|why| matches!(why, Why::Key { .. })) => KEYS,
            () if any(|why| matches!(why, Why::Barrier { .. })) => BARRIERS,
            () if communicators > 1 => COMMUNICATORS,
            () if !enqueued => CALLS,
            () if calls.iter().all(transfers) => GROUP,
            () => ORDER,
        }
    }

    fn story(&self, path: &Path, queued: &Queued) -> Vec<String> {
        // Begins with the lowest rank.
        let rank = |at: &usize| match path[*at].1.why {
            Why::Peer { place, .. }
            | Why::Exchange { place, .. }
            | Why::Barrier { place, .. }
            | Why::Key { place, .. } => place.rank,
            _ => usize::MAX,
        };
        let is_circle = path.last().is_some_and(|(_, need)| need.on != Some(Node::Nobody));
        let start = match is_circle {
            true => (0..path.len()).min_by_key(rank).unwrap_or(0),
            false => 0,
        };
        let step = |at: usize| path[(start + at) % path.len()];
        let mut lines = Vec::new();
        for at in 0..path.len() {
            let next = (is_circle || start + at + 1 < path.len()).then(|| step(at + 1));
            self.tell(step(at), next, queued, &mut lines);
            if lines.len() >= LINES {
                break;
            }
        }
        lines.truncate(LINES);
        lines
    }

    fn tell(
        &self,
        (node, need): (Node, Need),
        next: Option<(Node, Need)>,
        queued: &Queued,
        lines: &mut Vec<String>,
    ) {
        match need.why {
            Why::Peer { place, at, peer } => {
                let part = self.part_of(place, at, peer, queued);
                self.tell_peer((place, at, peer), part, next, lines);
            }
            Why::Part { .. } => {}
            Why::Exchange { place: MemberId { rank, .. }, peer } | Why::Seat { rank, peer } => {
                let Some(Wait { operation, site, .. }) = self.waiting(node) else { return };
                lines.push(format!(
                    "{}: rank {rank} is in `{operation}` and waits for rank {peer}, which has not called it{}",
                    site,
                    nobody(need)
                ));
            }
            Why::Key { place: MemberId { rank, .. }, .. } | Why::Request { place: MemberId { rank, .. } } => {
                let Some(Wait { on: On::Submission(submission), site, .. }) = self.waiting(node)
                else {
                    return;
                };
                let until = match need.why {
                    Why::Key { peer, .. } => format!("waits until rank {peer} does too"),
                    _ => format!("waits for {}", submission.turn()),
                };
                lines.push(format!(
                    "{}: rank {rank} has submitted `{}` and {until}{}",
                    site,
                    submission.key(),
                    nobody(need)
                ));
            }
            Why::Own => {
                let Some(Wait { operation, site, .. }) = self.waiting(node) else { return };
                let who = match next {
                    Some((_, Need { why: Why::Peer { place, .. } | Why::Turn { place }, .. })) => {
                        format!("rank {}", place.rank)
                    }
                    _ => "a thread".to_owned(),
                };
                lines.push(format!(
                    "{}: {who} is in `{operation}` until its stream is done",
                    site
                ));
            }
            Why::Stream => lines.push(
                "one of its streams waits for another: `wait_for`, or memory that both use".to_owned(),
            ),
            Why::Barrier { place, index, peer } => {
                let Node::Stream(key) = node else { return };
                let current = self.streams.get(key).and_then(|stream| stream.current.as_ref());
                let Some(Current::Launch { site, .. }) = current else { return };
                lines.push(format!(
                    "{site}: rank {}'s closure waits at LSA barrier {index} for that of rank {peer}{}",
                    place.rank,
                    nobody(need)
                ));
            }
            Why::Turn { place } => lines.push(format!(
                "rank {}'s next call of the communicator waits for its earlier one, on another stream",
                place.rank
            )),
        }
    }

    fn tell_peer(
        &self,
        (place, at, peer): (MemberId, usize, usize),
        part: Option<Enqueued>,
        next: Option<(Node, Need)>,
        lines: &mut Vec<String>,
    ) {
        let Some(call) = self.call_at(place, at) else { return };
        let until = match call.operation {
            Operation::SendTo => "receives",
            Operation::RecvFrom => "sends",
            Operation::WaitSignal => "raises it",
            Operation::Collective(_) | Operation::PutSignal | Operation::Signal => "does too",
        };
        let is_copy = self.seen_comm(place).is_some_and(|comm| comm.is_copy(peer));
        let end = match &part {
            Some(part) => format!(" ({})", part.call.site),
            // Whether it is behind other work there is not known.
            None if is_copy => String::new(),
            None => ", which it has not called".to_owned(),
        };
        let all_wait = next.is_none() && !is_copy;
        lines.push(format!(
            "{}: rank {} {} and waits until rank {peer} {until}{end}{}",
            call.site,
            place.rank,
            does(&call),
            if all_wait { ", and every thread waits" } else { "" }
        ));
        let Some(part) = part else { return };
        let (after, why) = match next {
            Some((Node::Stream(key), Need { why: Why::Peer { place, at, .. }, .. })) => {
                let Some(after) = self.call_at(place, at) else { return };
                let why = match () {
                    () if part.in_flight => "both are in one group",
                    () if part.stream == key => "on one stream",
                    () => "operations of one communicator run in order, on whatever stream",
                };
                (format!("{}", after.site), why)
            }
            Some((_, Need { why: Why::Turn { .. }, .. })) => {
                ("its earlier calls".to_owned(), "operations of one communicator run in order")
            }
            _ => ("what its stream waits for".to_owned(), "streams run in order"),
        };
        lines.push(format!(
            "{}: rank {peer} {} only after {after} ({why})",
            part.call.site,
            does(&part.call)
        ));
    }

    fn waiting(&self, node: Node) -> Option<&Wait> {
        let Node::Wait(key) = node else { return None };
        self.waits.get(key)
    }

    pub(super) fn call_at(&self, place: MemberId, at: usize) -> Option<Call> {
        Some(self.seen_member(place)?.active.as_ref()?.ops.get(at)?.call())
    }

    /// Where a peer's part of an operation in a rank's current group is enqueued.
    fn part_of(
        &self,
        place: MemberId,
        at: usize,
        peer: usize,
        queued: &Queued,
    ) -> Option<Enqueued> {
        let rank = place.rank;
        let op = self.seen_member(place)?.active.as_ref()?.ops.get(at)?;
        let is_it = |other: &&HostOp| match (&op.op, &other.op) {
            (Booked::Collective(_), Booked::Collective(_)) => op.index == other.index,
            (Booked::Transfer(a), Booked::Transfer(b)) => {
                a.half != b.half && (op.index, rank) == (other.index, b.peer.index())
            }
            (Booked::Wait(a), Booked::Put(Put { peer, slot, .. }))
            | (Booked::Wait(a), Booked::Signal(Signal { peer, slot, .. })) => {
                (a.slot, rank) == (*slot, peer.index())
            }
            _ => false,
        };
        let theirs = place.of(peer);
        if let Some(active) = &self.seen_member(theirs)?.active
            && let Some(call) = active.ops.iter().find(is_it).map(HostOp::call)
        {
            return Some(Enqueued { call, stream: active.stream, in_flight: true });
        }
        queued.get(&theirs)?.iter().find_map(|&stream| {
            self.streams.get(stream)?.queue.iter().find_map(|task| match task {
                Task::Group { place, ops, .. } if *place == theirs => {
                    let call = ops.iter().find(is_it)?.call();
                    Some(Enqueued { call, stream, in_flight: false })
                }
                _ => None,
            })
        })
    }
}

fn nobody(need: Need) -> &'static str {
    match need.on {
        Some(Node::Nobody) => ", and every thread waits",
        _ => "",
    }
}

/// `sends 4 f32 to rank 1`
fn does(call: &Call) -> String {
    let Call { operation, dtype, count, peer, .. } = call;
    let peer = peer.map_or_else(String::new, |peer| format!("rank {peer}"));
    match operation {
        Operation::SendTo => format!("sends {count} {dtype} to {peer}"),
        Operation::RecvFrom => format!("receives {count} {dtype} from {peer}"),
        Operation::PutSignal => format!("puts {count} {dtype} to {peer}"),
        Operation::Signal => format!("signals {peer}"),
        Operation::WaitSignal => match count {
            1 => format!("waits for a signal from {peer}"),
            count => format!("waits for {count} signals from {peer}"),
        },
        Operation::Collective(name) => format!("calls {name} of {count} {dtype}"),
    }
}

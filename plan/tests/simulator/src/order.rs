//! What is surely ordered, by vector clocks that units carry: races (A9, A10) and communicators
//! (A7).

use std::collections::HashMap;

use typed_nccl_plan::ir::{Order, Role};
use typed_nccl_plan::verdict::Check;

use crate::link::{Linked, Object};
use crate::machine::{Event, Flow, Machine, Rules, flow};
use crate::outcome::Outcome;
use crate::unit::Act;

/// For each stream, how many of its events came before: two for each unit.
type Clock = Vec<u32>;

/// The clocks of all events that happened.
pub(crate) struct Clocks {
    start: Vec<Option<Clock>>,
    end: Vec<Option<Clock>>,
}

/// A use of memory.
struct Access {
    from: usize,
    to: usize,
    write: bool,
    /// The unit at whose start it begins.
    node: usize,
    /// The unit at whose end it ends, if it ends.
    until: Option<usize>,
    /// The rank's own units touch memory by turns of their own; a put writes from outside, and a
    /// get reads from there.
    put: bool,
}

impl Clocks {
    pub(crate) fn new(linked: &Linked<'_>) -> Self {
        let mut machine = Machine::new(linked, Rules::Orders);
        let many = linked.nodes.len();
        let mut clocks = Self { start: vec![None; many], end: vec![None; many] };
        // What travels: with each message, each signal, each arrival at a collective.
        let mut sent: HashMap<(usize, usize), usize> = HashMap::new();
        let mut raised: HashMap<(usize, usize), usize> = HashMap::new();
        let mut came: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        machine.run(|event| match event {
            Event::Start(id) => {
                let node = &linked.nodes[id];
                let mut clock = vec![0; linked.streams.len()];
                let earlier = node.behind.iter().map(|&(stream, many)| {
                    many.checked_sub(1).map(|last| linked.streams[stream][last])
                });
                let queued = node.queued.iter().map(|&(queue, many)| {
                    many.checked_sub(1).map(|last| linked.queues[queue][last])
                });
                for before in earlier.chain(queued).flatten() {
                    join(&mut clock, clocks.end[before].as_deref());
                }
                clock[node.stream] += 1;
                clocks.start[id] = Some(clock);
                for one in &node.sends {
                    sent.insert((one.queue, one.place), id);
                }
                for one in &node.raises {
                    raised.insert((one.queue, one.place), id);
                }
                for one in &node.joins {
                    came.entry((one.queue, one.place)).or_default().push(id);
                }
            }
            Event::End(id) => {
                let node = &linked.nodes[id];
                let mut clock = clocks.start[id].clone().unwrap_or_default();
                let mut causes: Vec<&usize> = Vec::new();
                for one in &node.receives {
                    causes.extend(sent.get(&(one.queue, one.place)));
                }
                for one in &node.consumes {
                    causes.extend((one.from..one.to).filter_map(|at| raised.get(&(one.queue, at))));
                }
                let mut joins = node.joins.iter();
                for op in &linked.unit(id).ops {
                    let Act::Collective { kind, root, .. } = &op.act else { continue };
                    let Some(join) = joins.next() else { continue };
                    let Some(members) = came.get(&(join.queue, join.place)) else { continue };
                    match flow(kind, *root, node.rank) {
                        Flow::FromAll => causes.extend(members),
                        Flow::FromRoot => causes.extend(
                            members.iter().filter(|&&one| Some(linked.nodes[one].rank) == *root),
                        ),
                        Flow::Nothing => {}
                    }
                }
                for &cause in causes {
                    join(&mut clock, clocks.start[cause].as_deref());
                }
                clock[node.stream] += 1;
                clocks.end[id] = Some(clock);
            }
        });
        clocks
    }

    /// Whether one unit surely ended before another starts; nothing is said of units that never
    /// ran.
    fn before(&self, linked: &Linked<'_>, first: usize, second: usize) -> Option<bool> {
        let start = self.start[second].as_ref()?;
        self.end[first].as_ref()?;
        let node = &linked.nodes[first];
        Some(start[node.stream] as usize >= 2 * node.place + 2)
    }
}

fn join(clock: &mut Clock, other: Option<&[u32]>) {
    for (mine, theirs) in clock.iter_mut().zip(other.unwrap_or(&[])) {
        *mine = (*mine).max(*theirs);
    }
}

/// Two units of one rank with different communicators have one order (A7).
pub(crate) fn communicators(linked: &Linked<'_>, clocks: &Clocks, outcome: &mut Outcome) {
    if linked.instance.plan.order == Order::Implicit {
        return;
    }
    let mut rank = 0;
    // The last unit of each communicator; those before it are behind it.
    let mut last: HashMap<usize, usize> = HashMap::new();
    for (id, node) in linked.nodes.iter().enumerate() {
        if node.rank != rank {
            rank = node.rank;
            last.clear();
        }
        let used = linked.unit(id).communicators();
        for &earlier in last.values() {
            let theirs = linked.unit(earlier).communicators();
            let differ = used.iter().any(|one| theirs.iter().any(|other| one != other));
            if differ && clocks.before(linked, earlier, id) == Some(false) {
                outcome.note(Check::CommunicatorOrder, || {
                    format!("{} and {} have no order", linked.name(earlier), linked.name(id))
                });
            }
        }
        for one in used {
            last.insert(one, id);
        }
    }
}

/// Accesses to the same elements are ordered, if one is a write (A9, A10).
pub(crate) fn races(linked: &Linked<'_>, clocks: &Clocks, outcome: &mut Outcome) {
    for (object, list) in accesses(linked) {
        for (at, one) in list.iter().enumerate() {
            for other in &list[at + 1..] {
                if !(one.write || other.write) || one.to <= other.from || other.to <= one.from {
                    continue;
                }
                // What one unit touches itself is the groups' matter.
                if one.node == other.node && !one.put && !other.put {
                    continue;
                }
                if ordered(linked, clocks, one, other) || ordered(linked, clocks, other, one) {
                    continue;
                }
                let same = linked.nodes[one.node].run == linked.nodes[other.node].run;
                let check = if same { Check::Hazards } else { Check::ReplayHazards };
                outcome.note(check, || {
                    format!(
                        "{object:?}: {}..{} by {} and {}..{} by {} have no order",
                        one.from,
                        one.to,
                        linked.name(one.node),
                        other.from,
                        other.to,
                        linked.name(other.node)
                    )
                });
            }
        }
    }
}

/// What the caller fills is written before its rank does anything in a run: a get of it comes after
/// that, and of anything that the caller has, it is over before the next time (A9, A10).
pub(crate) fn callers(linked: &Linked<'_>, clocks: &Clocks, outcome: &mut Outcome) {
    let streams = linked.instance.plan.streams.len();
    for (id, node) in linked.nodes.iter().enumerate() {
        for (owner, span) in linked.unit(id).ops.iter().flat_map(|op| op.gets()) {
            let buffer = &linked.instance.plan.buffers[span.buffer];
            let Some(start) = &clocks.start[id] else { continue };
            if span.is_empty() || buffer.role == Role::Local {
                continue;
            }
            let copy = linked.object(owner, node.run, &span).copy;
            let copies = usize::from(buffer.copies.max(1));
            let fills = |run: &usize| run % copies == copy;
            let firsts = |run: usize| {
                (owner * streams..(owner + 1) * streams).filter_map(move |stream| {
                    let mut list = linked.streams[stream].iter();
                    let place = list.position(|&one| linked.nodes[one].run >= run)?;
                    Some((stream, place))
                })
            };
            let name = || format!("{} reads what a caller fills", linked.name(id));
            // What is only written is the caller's again once the run is over.
            if buffer.role != Role::Out
                && let Some(run) = (0..=node.run).rev().find(fills)
                && !firsts(run).any(|(stream, place)| start[stream] as usize > 2 * place)
            {
                outcome.note(Check::Hazards, name);
            }
            let runs = linked.nodes.iter().map(|node| node.run + 1).max().unwrap_or(0);
            let next = (node.run + 1..runs).find(fills);
            let is_over = |(stream, place): (usize, usize)| {
                let Some(before) = place.checked_sub(1) else { return false };
                let last = clocks.end[linked.streams[stream][before]].as_ref();
                last.is_none_or(|clock| clock[node.stream] as usize >= 2 * node.place + 2)
            };
            if let Some(run) = next
                && !firsts(run).any(is_over)
            {
                outcome.note(Check::ReplayHazards, name);
            }
        }
    }
}

fn ordered(linked: &Linked<'_>, clocks: &Clocks, first: &Access, second: &Access) -> bool {
    // What never started races with nothing: that it hangs is found elsewhere.
    if clocks.start[first.node].is_none() || clocks.start[second.node].is_none() {
        return true;
    }
    let Some(until) = first.until else { return false };
    clocks.before(linked, until, second.node).unwrap_or(false)
}

fn accesses(linked: &Linked<'_>) -> HashMap<Object, Vec<Access>> {
    let mut all: HashMap<Object, Vec<Access>> = HashMap::new();
    for (id, node) in linked.nodes.iter().enumerate() {
        for op in &linked.unit(id).ops {
            let (reads, writes) = op.touches();
            let reads = reads.iter().map(|span| (span, false));
            for (span, write) in reads.chain(writes.iter().map(|span| (span, true))) {
                if span.is_empty() {
                    continue;
                }
                let object = linked.object(node.rank, node.run, span);
                let (from, to) = (span.from, span.to);
                let access = Access { from, to, write, node: id, until: Some(id), put: false };
                all.entry(object).or_default().push(access);
            }
        }
    }
    for (id, node) in linked.nodes.iter().enumerate() {
        let gets = linked.unit(id).ops.iter().flat_map(|op| op.gets());
        for (owner, span) in gets.filter(|(_, span)| !span.is_empty()) {
            let (from, to, until) = (span.from, span.to, Some(id));
            let access = Access { from, to, write: false, node: id, until, put: true };
            all.entry(linked.object(owner, node.run, &span)).or_default().push(access);
        }
    }
    let mut consumers: HashMap<(usize, usize), usize> = HashMap::new();
    for (id, node) in linked.nodes.iter().enumerate() {
        for one in &node.consumes {
            consumers.extend((one.from..one.to).map(|at| ((one.queue, at), id)));
        }
    }
    for put in &linked.puts {
        let node = &linked.nodes[put.node];
        let Act::Put { to, peer, .. } = &linked.unit(put.node).ops[put.op].act else { continue };
        if to.is_empty() {
            continue;
        }
        let until = put.told.and_then(|told| consumers.get(&(told.queue, told.place))).copied();
        let object = linked.object(*peer, node.run, to);
        let (from, to) = (to.from, to.to);
        let access = Access { from, to, write: true, node: put.node, until, put: true };
        all.entry(object).or_default().push(access);
    }
    all
}

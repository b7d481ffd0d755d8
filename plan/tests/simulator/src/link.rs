//! Several runs of a plan in a row, with what each unit waits for on its own rank, and its places
//! in the queues of messages, collectives and signals.

use std::collections::HashMap;
use std::ops::Range;

use typed_nccl_plan::ir::{CommunicatorId, Launch, Version};

use crate::instance::Instance;
use crate::unit::{Act, Op, Span, Unit};

/// One allocation of one copy of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Object {
    pub(crate) rank: usize,
    pub(crate) buffer: usize,
    pub(crate) at: usize,
    pub(crate) copy: usize,
}

/// One end of a queue of messages, of signals or of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// Which queue.
    pub(crate) queue: usize,
    /// Which place in it, from 0.
    pub(crate) place: usize,
}

/// Signals that a wait consumes: from the first to before the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Consumed {
    pub(crate) queue: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A unit in one of the runs.
pub(crate) struct Node {
    pub(crate) rank: usize,
    pub(crate) run: usize,
    pub(crate) unit: usize,
    /// Counts through the streams of all ranks.
    pub(crate) stream: usize,
    /// Its place on its stream, from 0.
    pub(crate) place: usize,
    /// Streams, and how many of their units must have ended before this starts.
    pub(crate) behind: Vec<(usize, usize)>,
    /// Rank and communicator as one number, and how many of its units must have ended.
    pub(crate) queued: Vec<(usize, usize)>,
    pub(crate) sends: Vec<Ticket>,
    pub(crate) receives: Vec<Ticket>,
    pub(crate) joins: Vec<Ticket>,
    pub(crate) raises: Vec<Ticket>,
    pub(crate) consumes: Vec<Consumed>,
}

/// What members of a communicator do together.
pub(crate) struct Gathering {
    pub(crate) members: usize,
}

/// A put, and what ends it.
pub(crate) struct Landing {
    pub(crate) node: usize,
    pub(crate) op: usize,
    /// The signal that tells of it.
    pub(crate) told: Option<Ticket>,
}

/// All runs.
pub(crate) struct Linked<'a> {
    pub(crate) instance: &'a Instance<'a>,
    pub(crate) units: &'a [Vec<Unit>],
    pub(crate) nodes: Vec<Node>,
    /// The nodes of each stream of each rank, in order.
    pub(crate) streams: Vec<Vec<usize>>,
    /// The nodes of each communicator of each rank, in order.
    pub(crate) queues: Vec<Vec<usize>>,
    pub(crate) channels: usize,
    pub(crate) gatherings: Vec<Gathering>,
    pub(crate) counters: usize,
    pub(crate) puts: Vec<Landing>,
}

/// How many runs show everything: what happens in a run depends on the one before, or on the two
/// before where copies swap.
pub(crate) fn runs(instance: &Instance<'_>) -> usize {
    let swaps = instance.plan.buffers.iter().any(|buffer| buffer.copies > 1);
    match (instance.plan.replayed, swaps) {
        (false, _) => 1,
        (true, false) => 2,
        (true, true) => 3,
    }
}

/// Whether signals are told apart by name alone; before 2.31, a pair of ranks has one counter.
pub(crate) fn named_signals(instance: &Instance<'_>) -> bool {
    instance.plan.target >= Version(2, 31, 0)
}

/// Whether a captured put waits until the signal before it was consumed.
pub(crate) fn credit(instance: &Instance<'_>) -> bool {
    instance.plan.launch == Launch::Captured && instance.plan.target < Version(2, 32, 0)
}

/// The last uses of an element, by stream of its rank.
#[derive(Clone, Default)]
struct Uses {
    write: Option<usize>,
    reads: Vec<usize>,
    /// Waits for signals since the last write, of a window.
    waits: Vec<usize>,
}

/// A numbering of things as they come.
struct Numbers<K> {
    ids: HashMap<K, usize>,
    counts: Vec<usize>,
}

impl<K: std::hash::Hash + Eq> Numbers<K> {
    fn new() -> Self {
        Self { ids: HashMap::new(), counts: Vec::new() }
    }

    fn id(&mut self, key: K) -> usize {
        let next = self.counts.len();
        let id = *self.ids.entry(key).or_insert(next);
        if id == next {
            self.counts.push(0);
        }
        id
    }

    fn take(&mut self, key: K, many: usize) -> Ticket {
        let queue = self.id(key);
        let place = self.counts[queue];
        self.counts[queue] += many;
        Ticket { queue, place }
    }
}

/// How far each end of a queue is: each counts for itself; the numbers of the queues are shared.
struct Counts {
    channels: Numbers<(usize, usize, usize)>,
    received: HashMap<usize, usize>,
    gatherings: Numbers<(usize, usize)>,
    joined: HashMap<(usize, usize), usize>,
    signals: Numbers<(usize, usize, usize, usize)>,
    consumed: HashMap<usize, usize>,
    /// Whether signals of different names are different signals.
    named: bool,
}

impl Counts {
    fn new(named: bool) -> Self {
        Self {
            channels: Numbers::new(),
            received: HashMap::new(),
            gatherings: Numbers::new(),
            joined: HashMap::new(),
            signals: Numbers::new(),
            consumed: HashMap::new(),
            named,
        }
    }

    fn name(&self, signal: usize) -> usize {
        if self.named { signal } else { 0 }
    }

    fn raise(&mut self, among: usize, rank: usize, peer: usize, signal: usize) -> Ticket {
        let name = self.name(signal);
        self.signals.take((among, rank, peer, name), 1)
    }

    /// The tickets of a node's operation, but for what it raises.
    fn take(&mut self, linked: &mut Linked<'_>, node: &mut Node, among: usize, op: &Op) {
        let rank = node.rank;
        match &op.act {
            Act::Send { peer, .. } => {
                node.sends.push(self.channels.take((among, rank, *peer), 1));
            }
            Act::Receive { peer, .. } => {
                let queue = self.channels.id((among, *peer, rank));
                let count = self.received.entry(queue).or_default();
                node.receives.push(Ticket { queue, place: *count });
                *count += 1;
            }
            Act::Collective { .. } => {
                let members = linked
                    .instance
                    .members(CommunicatorId(u32::try_from(among).unwrap_or(u32::MAX)), rank);
                let members = members.unwrap_or(&[]);
                let first = members.first().copied().unwrap_or(rank);
                let queue = self.gatherings.id((among, first));
                if queue == linked.gatherings.len() {
                    let members = members.len();
                    linked.gatherings.push(Gathering { members });
                }
                let count = self.joined.entry((queue, rank)).or_default();
                node.joins.push(Ticket { queue, place: *count });
                *count += 1;
            }
            Act::Wait(awaited) => {
                for &(signal, peer, times) in awaited {
                    let name = self.name(signal);
                    let queue = self.signals.id((among, peer, rank, name));
                    let from = *self.consumed.entry(queue).or_default();
                    let to = from + times as usize;
                    self.consumed.insert(queue, to);
                    node.consumes.push(Consumed { queue, from, to });
                }
            }
            Act::Put { .. } | Act::Signal { .. } | Act::Compute { .. } | Act::Assign { .. } => {}
        }
    }
}

impl<'a> Linked<'a> {
    pub(crate) fn new(instance: &'a Instance<'a>, units: &'a [Vec<Unit>], runs: usize) -> Self {
        let streams = instance.plan.streams.len();
        let communicators = instance.plan.communicators.len();
        let ranks = instance.ranks();
        let mut linked = Self {
            instance,
            units,
            nodes: Vec::new(),
            streams: vec![Vec::new(); ranks * streams],
            queues: vec![Vec::new(); ranks * communicators],
            channels: 0,
            gatherings: Vec::new(),
            counters: 0,
            puts: Vec::new(),
        };
        let mut counts = Counts::new(named_signals(instance));
        for (rank, list) in units.iter().enumerate() {
            let mut uses: HashMap<Object, Vec<Uses>> = HashMap::new();
            // Streams that have waited for signals.
            let mut waited: Vec<usize> = Vec::new();
            // Puts whose signal has not come yet, by communicator and target.
            let mut pending: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
            for run in 0..runs {
                for (number, unit) in list.iter().enumerate() {
                    let id = linked.nodes.len();
                    let stream = rank * streams + unit.stream;
                    let place = linked.streams[stream].len();
                    let mut behind = vec![(stream, place)];
                    for after in &unit.after {
                        let after = rank * streams + after;
                        behind.push((after, linked.streams[after].len()));
                    }
                    let touched = touched(instance, rank, run, unit);
                    for other in memory(&mut uses, instance, rank, unit, &touched) {
                        let other = rank * streams + other;
                        behind.push((other, linked.streams[other].len()));
                    }
                    // What reads other ranks' windows comes after the signals so far.
                    if unit.ops.iter().any(|op| op.gets().next().is_some()) {
                        for &other in &waited {
                            behind.push((other, linked.streams[other].len()));
                        }
                    }
                    if unit.waits() && !waited.contains(&stream) {
                        waited.push(stream);
                    }
                    behind.sort_unstable();
                    behind.dedup();
                    let mut node = Node {
                        rank,
                        run,
                        unit: number,
                        stream,
                        place,
                        behind,
                        queued: Vec::new(),
                        sends: Vec::new(),
                        receives: Vec::new(),
                        joins: Vec::new(),
                        raises: Vec::new(),
                        consumes: Vec::new(),
                    };
                    for communicator in unit.communicators() {
                        let queue = rank * communicators + communicator;
                        node.queued.push((queue, linked.queues[queue].len()));
                        linked.queues[queue].push(id);
                    }
                    for (place, op) in unit.ops.iter().enumerate() {
                        let Some(among) = op.among else { continue };
                        counts.take(&mut linked, &mut node, among, op);
                        if let Act::Put { peer, .. } = op.act {
                            pending.entry((among, peer)).or_default().push(linked.puts.len());
                            linked.puts.push(Landing { node: id, op: place, told: None });
                        }
                        if let Some((signal, peer)) = op.raises() {
                            let ticket = counts.raise(among, rank, peer, signal);
                            node.raises.push(ticket);
                            for put in pending.remove(&(among, peer)).unwrap_or_default() {
                                linked.puts[put].told = Some(ticket);
                            }
                        }
                    }
                    linked.streams[stream].push(id);
                    linked.nodes.push(node);
                }
            }
        }
        linked.channels = counts.channels.counts.len();
        linked.counters = counts.signals.counts.len();
        linked
    }

    pub(crate) fn unit(&self, node: usize) -> &'a Unit {
        let node = &self.nodes[node];
        &self.units[node.rank][node.unit]
    }

    pub(crate) fn name(&self, node: usize) -> String {
        let Node { rank, run, .. } = self.nodes[node];
        format!("rank {rank}, run {run}, step {:?}", self.unit(node).key)
    }

    pub(crate) fn object(&self, rank: usize, run: usize, span: &Span) -> Object {
        object(self.instance, rank, run, span)
    }
}

/// The copy that a span means in this run.
pub(crate) fn object(instance: &Instance<'_>, rank: usize, run: usize, span: &Span) -> Object {
    let copies = usize::from(instance.plan.buffers[span.buffer].copies.max(1));
    let copy = (run + usize::from(span.next)) % copies;
    Object { rank, buffer: span.buffer, at: span.at, copy }
}

/// The elements that a unit touches, and whether it writes them.
fn touched(
    instance: &Instance<'_>,
    rank: usize,
    run: usize,
    unit: &Unit,
) -> Vec<(Object, Range<usize>, bool)> {
    let mut all = Vec::new();
    for op in &unit.ops {
        let (reads, writes) = op.touches();
        let reads = reads.iter().map(|span| (span, false));
        for (span, write) in reads.chain(writes.iter().map(|span| (span, true))) {
            all.push((object(instance, rank, run, span), span.from..span.to, write));
        }
    }
    // What is written was read before.
    all.sort_by_key(|(.., write)| *write);
    all
}

/// The streams that a unit waits for because of memory; then notes its own uses.
fn memory(
    uses: &mut HashMap<Object, Vec<Uses>>,
    instance: &Instance<'_>,
    rank: usize,
    unit: &Unit,
    touched: &[(Object, Range<usize>, bool)],
) -> Vec<usize> {
    let stream = unit.stream;
    let mut others = Vec::new();
    for (object, range, write) in touched {
        let Some(uses) = uses.get(object) else { continue };
        for uses in range.clone().filter_map(|at| uses.get(at)) {
            others.extend(uses.write);
            others.extend(&uses.waits);
            if *write {
                others.extend(&uses.reads);
            }
        }
    }
    others.retain(|&other| other != stream);
    for (object, range, write) in touched {
        let uses = uses.entry(*object).or_default();
        uses.resize(uses.len().max(range.end), Uses::default());
        for at in range.clone() {
            let uses = &mut uses[at];
            if *write {
                *uses = Uses { write: Some(stream), ..Uses::default() };
            } else if !uses.reads.contains(&stream) {
                uses.reads.push(stream);
            }
        }
    }
    if unit.waits() {
        for (buffer, at, len) in instance.allocations(rank) {
            let declared = &instance.plan.buffers[buffer];
            if !declared.window {
                continue;
            }
            for copy in 0..usize::from(declared.copies.max(1)) {
                let object = Object { rank, buffer, at, copy };
                let uses = uses.entry(object).or_default();
                uses.resize(uses.len().max(len), Uses::default());
                for uses in uses {
                    if !uses.waits.contains(&stream) {
                        uses.waits.push(stream);
                    }
                }
            }
        }
    }
    others
}

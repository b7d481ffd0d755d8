//! Small steps: the streams of all ranks, unit by unit, under one of two meanings of "waits".
//!
//! A unit starts when it is the first of its stream and what it waits for on its rank has ended; at
//! its start it posts its messages, joins its collectives and raises its signals. It ends when its
//! partners did what it waits for.

use crate::link::{Linked, Node};
use crate::unit::Act;

/// What waits for what between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// All that may have to wait; with `credit`, a captured put waits for the signal before it.
    Blocks { credit: bool },
    /// Only what surely waits.
    Orders,
}

/// Something that happens: a unit starts, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Start(usize),
    End(usize),
}

/// Streams in the middle of what they do.
pub(crate) struct Machine<'a> {
    linked: &'a Linked<'a>,
    rules: Rules,
    /// Of each stream: how many of its units ended, and whether the next one has started.
    ended: Vec<usize>,
    running: Vec<bool>,
    /// Of each communicator of each rank: how many units ended.
    queue_ended: Vec<usize>,
    /// Of each channel: how many messages were sent, and received, so far.
    sent: Vec<usize>,
    received: Vec<usize>,
    /// Of each collective: who came, and whether the root did.
    came: Vec<Vec<(usize, bool)>>,
    raised: Vec<usize>,
    consumed: Vec<usize>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(linked: &'a Linked<'a>, rules: Rules) -> Self {
        Self {
            linked,
            rules,
            ended: vec![0; linked.streams.len()],
            running: vec![false; linked.streams.len()],
            queue_ended: vec![0; linked.queues.len()],
            sent: vec![0; linked.channels],
            received: vec![0; linked.channels],
            came: linked.gatherings.iter().map(|_| Vec::new()).collect(),
            raised: vec![0; linked.counters],
            consumed: vec![0; linked.counters],
        }
    }

    /// Of the streams, what each could do now.
    pub(crate) fn ready(&self, stream: usize) -> Option<Event> {
        let &node = self.linked.streams[stream].get(self.ended[stream])?;
        let at = &self.linked.nodes[node];
        if self.running[stream] {
            self.can_end(node, at).then_some(Event::End(node))
        } else {
            self.can_start(at).then_some(Event::Start(node))
        }
    }

    /// Streams that are not at their end.
    pub(crate) fn stuck(&self) -> Vec<usize> {
        let streams = self.linked.streams.iter().enumerate();
        streams.filter(|(at, list)| self.ended[*at] < list.len()).map(|(at, _)| at).collect()
    }

    /// What a stream that is not at its end stands before.
    pub(crate) fn standing(&self, stream: usize) -> (usize, bool) {
        (self.linked.streams[stream][self.ended[stream]], self.running[stream])
    }

    fn can_start(&self, node: &Node) -> bool {
        node.behind.iter().all(|&(stream, many)| self.ended[stream] >= many)
            && node.queued.iter().all(|&(queue, many)| self.queue_ended[queue] >= many)
    }

    fn can_end(&self, id: usize, node: &Node) -> bool {
        let blocks = self.rules != Rules::Orders;
        let credit = self.rules == Rules::Blocks { credit: true };
        (!blocks || node.sends.iter().all(|one| self.received[one.queue] > one.place))
            && node.receives.iter().all(|one| self.sent[one.queue] > one.place)
            && node.consumes.iter().all(|one| self.raised[one.queue] >= one.to)
            && (!credit || node.raises.iter().all(|one| self.consumed[one.queue] >= one.place))
            && self.gathered(id, node)
    }

    fn gathered(&self, id: usize, node: &Node) -> bool {
        let mut joins = node.joins.iter();
        self.linked.unit(id).ops.iter().all(|op| {
            let Act::Collective { kind, root, .. } = &op.act else { return true };
            let Some(join) = joins.next() else { return true };
            let came = self.came[join.queue].get(join.place).copied().unwrap_or_default();
            let everyone = came.0 == self.linked.gatherings[join.queue].members;
            match (self.rules, flow(kind, *root, node.rank)) {
                (Rules::Blocks { .. }, _) | (_, Flow::FromAll) => everyone,
                (_, Flow::FromRoot) => came.1,
                (_, Flow::Nothing) => true,
            }
        })
    }

    pub(crate) fn happen(&mut self, event: Event) {
        match event {
            Event::Start(id) => self.start(id),
            Event::End(id) => self.end(id),
        }
    }

    fn start(&mut self, id: usize) {
        let node = &self.linked.nodes[id];
        self.running[node.stream] = true;
        for one in &node.sends {
            self.sent[one.queue] += 1;
        }
        for one in &node.receives {
            self.received[one.queue] += 1;
        }
        for one in &node.raises {
            self.raised[one.queue] += 1;
        }
        let mut joins = node.joins.iter();
        for op in &self.linked.unit(id).ops {
            let Act::Collective { root, .. } = &op.act else { continue };
            let Some(join) = joins.next() else { continue };
            let came = &mut self.came[join.queue];
            came.resize(came.len().max(join.place + 1), (0, false));
            came[join.place].0 += 1;
            came[join.place].1 |= *root == Some(node.rank);
        }
    }

    fn end(&mut self, id: usize) {
        let node = &self.linked.nodes[id];
        self.running[node.stream] = false;
        self.ended[node.stream] += 1;
        for &(queue, _) in &node.queued {
            self.queue_ended[queue] += 1;
        }
        for one in &node.consumes {
            self.consumed[one.queue] = self.consumed[one.queue].max(one.to);
        }
    }

    /// Runs until nothing can move; tells each event.
    pub(crate) fn run(&mut self, mut tell: impl FnMut(Event)) {
        let mut moved = true;
        while moved {
            moved = false;
            for stream in 0..self.linked.streams.len() {
                while let Some(event) = self.ready(stream) {
                    self.happen(event);
                    tell(event);
                    moved = true;
                }
            }
        }
    }
}

/// From whom a collective's data comes to a rank.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    FromAll,
    FromRoot,
    Nothing,
}

pub(crate) fn flow(
    kind: &typed_nccl_plan::ir::CollectiveKind,
    root: Option<usize>,
    rank: usize,
) -> Flow {
    use typed_nccl_plan::ir::CollectiveKind as Kind;
    match kind {
        Kind::AllReduce(_) | Kind::AllGather | Kind::ReduceScatter(_) | Kind::AllToAll => {
            Flow::FromAll
        }
        Kind::Broadcast(_) | Kind::Scatter(_) => Flow::FromRoot,
        Kind::Reduce(..) | Kind::Gather(_) if root == Some(rank) => Flow::FromAll,
        Kind::Reduce(..) | Kind::Gather(_) => Flow::Nothing,
    }
}

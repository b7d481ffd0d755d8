//! A schedule in logical steps: bars in lanes, and arrows between them.

use std::collections::{BTreeMap, BTreeSet};

use super::clock::{Clock, Steps};
use super::links::{Links, Port};
use super::names::Names;
use crate::ir::{Plan, StreamId};
use crate::lower::{Operation, Schedule, Work};

/// A schedule, ready to be drawn.
pub(crate) struct Timeline<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) names: Names<'a>,
    pub(crate) links: Links<'a>,
    /// One for each call, rank by rank.
    pub(crate) bars: Vec<Bar>,
    /// Streams that some rank uses, in the order of the plan.
    pub(crate) streams: Vec<StreamId>,
    /// The number of logical steps.
    pub(crate) steps: usize,
    /// Whether it waits in a cycle.
    pub(crate) hangs: bool,
}

/// A call in its lane.
#[derive(Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) rank: u32,
    pub(crate) stream: StreamId,
    /// The step at which it could start.
    pub(crate) start: usize,
    /// The step at which everything that it meets has arrived; it waits until then.
    pub(crate) active: usize,
    pub(crate) kind: BarKind,
}

/// The kind of a bar, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BarKind {
    Compute,
    Collective,
    Message,
    OneSided,
    Wait,
}

/// The kind of an arrow between bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ArrowKind {
    Message,
    Signal,
    Event,
}

/// An arrow between lines of two bars; for an event, from the end of one to the start of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    pub(crate) kind: ArrowKind,
    pub(crate) from: (u32, usize),
    pub(crate) to: (u32, usize),
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(plan: &'a Plan, schedule: &'a Schedule) -> Self {
        let links = Links::new(plan, schedule);
        let clock = Clock::new(&links, &Steps);
        let bar = |(at, placed): (usize, &super::links::Placed<'_>)| {
            let (start, end) = (clock.start[at] as usize, clock.end[at] as usize);
            let active = end.saturating_sub(1).max(start);
            let kind = kind(&placed.call.work);
            Bar { rank: placed.rank, stream: placed.call.stream, start, active, kind }
        };
        let bars: Vec<Bar> = links.calls.iter().enumerate().map(bar).collect();
        let streams: BTreeSet<StreamId> = bars.iter().map(|bar| bar.stream).collect();
        let steps = bars.iter().map(|bar| bar.active + 1).max().unwrap_or(0);
        Self {
            schedule,
            names: Names::new(plan, schedule),
            links,
            bars,
            streams: streams.into_iter().collect(),
            steps,
            hangs: clock.hangs,
        }
    }

    pub(crate) fn ranks(&self) -> usize {
        self.schedule.ranks.len()
    }

    /// The plan's name, the sizes, and the number of steps.
    pub(crate) fn title(&self) -> String {
        let name = super::names::clean(&self.schedule.plan);
        let sizes = super::names::clean(&self.schedule.sizes.text);
        let steps = if self.steps == 1 { "1 step" } else { &format!("{} steps", self.steps) };
        let between = if sizes.is_empty() { "" } else { ", for " };
        format!("{name}{between}{sizes}: {steps}")
    }

    /// The line of a call's text for an operation or an awaited signal.
    pub(crate) fn line(&self, port: Port) -> usize {
        let before = self.links.operations(port.call).iter().take(port.op as usize);
        before.map(lines).sum::<usize>() + port.entry as usize
    }

    /// Messages, signals and events, each once.
    pub(crate) fn arrows(&self) -> Vec<Arrow> {
        let mut arrows = BTreeSet::new();
        let end = |port: Port| (port.call, self.line(port));
        for (kind, pairs) in
            [(ArrowKind::Message, &self.links.messages), (ArrowKind::Signal, &self.links.signals)]
        {
            for pair in pairs {
                arrows.insert(Arrow { kind, from: end(pair.from), to: end(pair.to) });
            }
        }
        for &(from, to) in &self.links.events {
            if self.bars[from as usize].stream != self.bars[to as usize].stream {
                arrows.insert(Arrow { kind: ArrowKind::Event, from: (from, 0), to: (to, 0) });
            }
        }
        arrows.into_iter().collect()
    }

    /// Collectives, with the line of each member; those that the same calls meet in are merged.
    pub(crate) fn meetings(&self) -> Vec<Vec<(u32, usize)>> {
        let mut meetings: BTreeMap<Vec<u32>, Vec<(u32, usize)>> = BTreeMap::new();
        for meeting in self.links.meetings.iter().filter(|meeting| meeting.len() > 1) {
            let calls = meeting.iter().map(|port| port.call).collect();
            let ports = || meeting.iter().map(|port| (port.call, self.line(*port))).collect();
            meetings.entry(calls).or_insert_with(ports);
        }
        meetings.into_values().collect()
    }
}

/// The number of lines of an operation.
fn lines(operation: &Operation) -> usize {
    match operation {
        Operation::Wait { signals, .. } => signals.len(),
        _ => 1,
    }
}

fn kind(work: &Work) -> BarKind {
    let (Work::Group(operations) | Work::Kernel { operations, .. }) = work else {
        return BarKind::Compute;
    };
    let kinds = operations.iter().map(|operation| match operation {
        Operation::Collective { .. } => BarKind::Collective,
        Operation::Send { .. } | Operation::Receive { .. } => BarKind::Message,
        Operation::Put { .. } | Operation::Signal { .. } => BarKind::OneSided,
        Operation::Wait { .. } => BarKind::Wait,
    });
    kinds.min().unwrap_or(BarKind::Wait)
}

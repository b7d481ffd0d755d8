//! Names of calls, operations and memory in pictures.

use std::fmt::Write;

use crate::ir::{BufferId, Plan, StreamId, show_reduced};
use crate::lower::{Call, Elements, Operation, Schedule, Work};
use crate::program::Objects;

/// The names of a plan, for one instance.
pub(crate) struct Names<'a> {
    plan: &'a Plan,
    objects: Option<Objects>,
}

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// `send out[3] -> 2`
    Full,
    /// `out[3] -> 2`
    Short,
    /// `->2`
    Least,
}

/// The most allocations whose lengths are looked up; for larger instances, all ranges are written.
const MOST_OBJECTS: u64 = 1 << 16;

impl<'a> Names<'a> {
    pub(crate) fn new(plan: &'a Plan, schedule: &Schedule) -> Self {
        let sizes = &schedule.sizes;
        let fits = sizes.extents.len() == plan.axes.len()
            && sizes.params.len() == plan.params.len()
            && plan.validate().is_empty();
        let objects = fits
            .then(|| Objects::new(plan, &sizes.extents, &sizes.params, MOST_OBJECTS).ok())
            .flatten();
        Self { plan, objects }
    }

    pub(crate) fn stream(&self, stream: StreamId) -> String {
        match self.plan.streams.get(stream.index()) {
            Some(stream) => clean(&stream.name),
            None => format!("stream {}", stream.0),
        }
    }

    /// One line for local work, or for each operation and each awaited signal.
    pub(crate) fn call(&self, call: &Call, detail: Detail) -> Vec<String> {
        match &call.work {
            Work::Compute { name, arguments, .. } => {
                let mut line = clean(name);
                for (nth, argument) in arguments.iter().enumerate() {
                    line += if nth == 0 { " " } else { ", " };
                    let _ = write!(line, "{argument}");
                }
                vec![line]
            }
            Work::Assign { to, by, of } => {
                let of: Vec<String> = of.iter().map(|one| self.source(one)).collect();
                let mut line = show_reduced(&self.part(to), *by, &of);
                if detail == Detail::Least {
                    let sign = line.find('=').unwrap_or(line.len());
                    line.truncate(sign + 1);
                }
                vec![line]
            }
            Work::Group(operations) | Work::Kernel { operations, .. } => {
                let lines = operations.iter().flat_map(|one| self.operation(one, detail));
                let mut lines: Vec<String> = lines.collect();
                if let Work::Kernel { legs, .. } = &call.work {
                    let mark = if detail == Detail::Least { "k:" } else { "kernel: " };
                    // With full detail, each message has an arrow of its own.
                    let each = detail == Detail::Full && !legs.is_empty();
                    let marked = if each { lines.len() } else { 1 };
                    lines.iter_mut().take(marked).for_each(|line| line.insert_str(0, mark));
                }
                lines
            }
        }
    }

    fn operation(&self, operation: &Operation, detail: Detail) -> Vec<String> {
        let part = |part: &Elements| self.part(part);
        // The verb with full detail, the memory with medium detail, the peer always.
        let line = |verb: &str, what: &str, whom: String| {
            let verb = if detail == Detail::Full { verb } else { "" };
            let what = if detail == Detail::Least { "" } else { what };
            let words = [verb, what, &whom];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            words.join(" ")
        };
        let (to, from_whom) = if detail == Detail::Least { ("->", "<-") } else { ("-> ", "<- ") };
        match operation {
            Operation::Collective { kind, among, send, recv, .. } => {
                let what = match (send, recv) {
                    (Some(send), Some(recv)) if send == recv => part(send),
                    (Some(send), Some(recv)) if detail == Detail::Full => {
                        format!("{} -> {}", part(send), part(recv))
                    }
                    (Some(one), _) | (None, Some(one)) => part(one),
                    (None, None) => String::new(),
                };
                let mut line = kind.name().to_string();
                if detail != Detail::Least && !what.is_empty() {
                    line = format!("{line} {what}");
                }
                let communicator = self.plan.communicators.get(among.index());
                if let Some(communicator) = communicator
                    .filter(|_| detail == Detail::Full && self.plan.communicators.len() > 1)
                {
                    line = format!("{line} on {}", clean(&communicator.name));
                }
                vec![line]
            }
            Operation::Send { from, peer, .. } => {
                vec![line("send", &part(from), format!("{to}{peer}"))]
            }
            Operation::Receive { to: into, peer, .. } => {
                vec![line("recv", &part(into), format!("{from_whom}{peer}"))]
            }
            Operation::Put { from, peer, to: into, signal, .. } => {
                let mut whom = format!("{to}{peer}");
                if detail == Detail::Full {
                    whom = format!("{whom} {}", part(into));
                }
                if let Some(signal) = signal {
                    whom = format!("{whom} !{}", self.signal(signal.index()));
                }
                vec![line("put", &part(from), whom)]
            }
            Operation::Signal { signal, peer, .. } => {
                vec![line("signal", "", format!("!{} {to}{peer}", self.signal(signal.index())))]
            }
            Operation::Wait { signals, .. } => {
                let wait = |(signal, peer, times): &(crate::ir::SignalId, u32, u32)| {
                    let mut whom = format!("!{} {from_whom}{peer}", self.signal(signal.index()));
                    if *times != 1 {
                        whom = format!("{whom} x{times}");
                    }
                    line("wait", "", whom)
                };
                signals.iter().map(wait).collect()
            }
        }
    }

    fn signal(&self, signal: usize) -> String {
        match self.plan.signals.get(signal) {
            Some(signal) => clean(&signal.name),
            None => format!("signal {signal}"),
        }
    }

    /// `u[4..8]`, and `u[4..8] of 2` for another rank's.
    fn source(&self, part: &Elements) -> String {
        match part.rank {
            Some(rank) => format!("{} of {rank}", self.part(part)),
            None => self.part(part),
        }
    }

    /// `u[4..8]`, `g[3]`, `u.next`: with its range unless it is the whole buffer.
    fn part(&self, part: &Elements) -> String {
        let Some(buffer) = self.plan.buffers.get(part.buffer as usize) else {
            return format!("buffer {}", part.buffer);
        };
        let mut name = clean(&buffer.name);
        if buffer.array.is_some() {
            let _ = write!(name, "[{}]", part.index);
        }
        if part.next {
            name += ".next";
        }
        if self.len(part) != Some(part.end) || part.start != 0 {
            let _ = write!(name, "[{}..{}]", part.start, part.end);
        }
        name
    }

    /// The length of its buffer, if it is the same on every rank.
    fn len(&self, part: &Elements) -> Option<u64> {
        let objects = self.objects.as_ref()?;
        let buffer = BufferId(part.buffer);
        if part.index >= objects.count(buffer) {
            return None;
        }
        let object = objects.all.get(objects.find(buffer, part.index, false) as usize)?;
        object.len.same()
    }
}

/// A name on one line: characters that would break the line, or control the terminal, become
/// blanks.
pub(crate) fn clean(name: &str) -> String {
    name.chars().map(|char| if char.is_control() || is_format(char) { ' ' } else { char }).collect()
}

/// Characters that reverse or hide the text after them.
fn is_format(char: char) -> bool {
    matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

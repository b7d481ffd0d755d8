//! A15: what is read was written before or came from the caller; outputs are written, inputs are
//! not.

use std::collections::HashMap;

use super::alike;
use super::instance::Instance;
use super::links::Signals;
use super::ranges::Ranges;
use super::report::Report;
use super::shares::Shares;
use super::unread::earlier;
use crate::ir::{AxisId, Role};
use crate::program::{NONE, Object, Op, OpKind, Program, Span, Stride, in_its_place};
use crate::verdict::Check;

/// Checks every rank, or the first one where it stands for all.
pub(crate) fn check(instance: &Instance<'_>, signals: &Signals, report: &mut Report<'_>) {
    let program = instance.program;
    let mut memory = Memory::new(instance, signals);
    let first = if alike::everywhere(program) { 1 } else { program.ranks() };
    for rank in 0..first {
        memory.known.clear();
        for unit in program.of_rank(rank) {
            memory.follow(unit as u32, report);
        }
    }
    // What runs in place has a place of its own on each rank.
    for unit in &program.units[program.begins[first] as usize..] {
        program.ops_of(unit).iter().for_each(|op| in_place(op, report));
    }
    for (at, written) in memory.written.into_iter().enumerate() {
        if !written && instance.plan.buffers[at].role == Role::Out {
            unwritten(instance, at, report);
        }
    }
}

/// What a rank has written so far.
struct Memory<'a> {
    program: &'a Program,
    /// What puts have brought when a wait ends.
    arrivals: HashMap<u32, Vec<Span>>,
    known: HashMap<u32, Ranges>,
    /// Buffers that were written on some rank.
    written: Vec<bool>,
}

impl<'a> Memory<'a> {
    fn new(instance: &Instance<'a>, signals: &Signals) -> Self {
        let program = instance.program;
        let mut arrivals: HashMap<u32, Vec<Span>> = HashMap::new();
        for arrival in &signals.arrivals {
            if let Some((wait, false)) = arrival.wait {
                arrivals.entry(wait).or_default().push(program.ops[arrival.put as usize].target);
            }
        }
        let written = vec![false; instance.plan.buffers.len()];
        Self { program, arrivals, known: HashMap::new(), written }
    }

    /// What a unit reads and writes.
    fn follow(&mut self, at: u32, report: &mut Report<'_>) {
        let program = self.program;
        let unit = &program.units[at as usize];
        let ops = program.ops_of(unit);
        for op in ops.iter().filter(|op| !op.read().is_empty()) {
            if let Some(element) = self.missing(op.source) {
                uninitialised(op, element, report);
            }
        }
        for op in ops {
            in_place(op, report);
            let span = op.target;
            if span.object == NONE {
                continue;
            }
            let object = &program.objects.all[span.object as usize];
            self.written[object.buffer.index()] |= !span.is_empty();
            if object.role == Role::In && !span.is_empty() {
                overwritten(op, || self.reader_before(at, op), report);
            }
            if op.kind != OpKind::Put {
                self.add(span);
            }
        }
        for span in self.arrivals.remove(&at).into_iter().flatten() {
            self.add(span);
        }
    }

    /// An operation before a unit that reads some of what `op` of the unit writes on its own rank.
    fn reader_before(&self, unit: u32, op: &Op) -> Option<&'a Op> {
        if op.kind == OpKind::Put {
            return None;
        }
        let span = op.target;
        let rank = self.program.units[unit as usize].rank as usize;
        let before = self.program.of_rank(rank).start..unit as usize;
        let mut ops = before.flat_map(|unit| self.program.ops_of(&self.program.units[unit]));
        ops.find(|op| {
            let Span { object, start, end } = op.read();
            object == span.object && start.max(span.start) < end.min(span.end)
        })
    }

    fn add(&mut self, span: Span) {
        self.known.entry(span.object).or_default().add(span.start, span.end);
    }

    /// The first element that nothing has written.
    fn missing(&self, span: Span) -> Option<u64> {
        let object = &self.program.objects.all[span.object as usize];
        // The caller fills the current copy of two: the other is what the run before used.
        let is_next = object.other_copy < span.object;
        if matches!(object.role, Role::In | Role::InOut) && !is_next {
            return None;
        }
        let known = self.known.get(&span.object);
        known.map_or(Some(span.start), |known| known.missing(span.start, span.end))
    }
}

/// A write to an input. With a reader before it, `inout` makes the plan pass; but what is moved
/// there is likely meant for the reader and comes too late for it, so `inout` is named for
/// reductions alone, which may depend on what was read.
fn overwritten<'a>(op: &Op, reader: impl FnOnce() -> Option<&'a Op>, report: &mut Report<'_>) {
    if report.knows(Check::Initialised, op) {
        return;
    }
    let title = format!("this writes {}, which is an input", report.name(op.target));
    let mut story = vec![report.says(op)];
    let help = match reader() {
        Some(reader) => {
            story.insert(0, report.says(reader));
            let reader = report.program.place(reader.statement).line;
            let mut help =
                vec![format!("if line {reader} is to read what arrives, move this before it")];
            if matches!(op.kind, OpKind::Collective(kind) if kind.reduction().is_some()) {
                let object = &report.program.objects.all[op.target.object as usize];
                let buffer = &report.plan().buffers[object.buffer.index()];
                help.push(format!(
                    "or declare `{}` as `inout`, if the caller is to read what arrives",
                    buffer.name
                ));
            }
            help.push("or write another buffer".to_owned());
            help
        }
        None => vec!["declare the buffer as `inout`, or write another one".to_owned()],
    };
    report.tell(Check::Initialised, report.program.place(op.statement), title, story, help);
}

/// An output that nothing writes, unless it is empty.
fn unwritten(instance: &Instance<'_>, at: usize, report: &mut Report<'_>) {
    let (program, buffer) = (instance.program, &instance.plan.buffers[at]);
    let is_own = |object: &Object| object.buffer.index() == at;
    if !program.objects.all.iter().any(|object| is_own(object) && !object.len.is_empty()) {
        return;
    }
    let title = format!("output `{}` is never written", buffer.name);
    let writes = |op: &&Op| {
        op.target.object != NONE && is_own(&program.objects.all[op.target.object as usize])
    };
    let empty = program.ops.iter().find(writes);
    let mend = "write it, remove it, or make it `inout`, if it may stay as it was";
    let mut help = vec![mend.to_owned()];
    let story = empty.map(|op| {
        help.splice(0..0, report.even(op.target.object));
        report.line(op, format!("{}, which is empty", report.does(op)))
    });
    report.tell(Check::Initialised, buffer.at, title, story.into_iter().collect(), &help);
}

/// How the title of a read of memory that nothing has written begins.
pub(crate) const READS: &str = "this reads element";

fn uninitialised(op: &Op, element: u64, report: &mut Report<'_>) {
    if report.knows(Check::Initialised, op) {
        return;
    }
    let name = report.object_name(op.source.object);
    let title = format!("{READS} {element} of {name}, which nothing has written in this run");
    let story = vec![report.says(op)];
    let program = report.program;
    let rank = program.rank(op);
    let object = &program.objects.all[op.source.object as usize];
    let same = |span: Span| {
        span.object != NONE && program.objects.all[span.object as usize].buffer == object.buffer
    };
    let is_written = program.ops.iter().any(|op| same(op.target));
    let role = if is_written { "inout" } else { "in" };
    let mut help = Vec::new();
    let has = |span: Span| same(span) && (span.start..span.end).contains(&element);
    if let Some((step, guard)) = lonely(rank, has, report) {
        help.push(format!(
            "rank {rank} has no rank `{step}` to receive from: guard this with `if {guard}`"
        ));
    }
    let is_late =
        |other: &&Op| other.kind == OpKind::Receive && other.unit > op.unit && has(other.target);
    let late = program.ops.iter().filter(|other| program.rank(other) == rank).find(is_late);
    let or = if help.is_empty() { "" } else { "or " };
    match late {
        // The message is there, and too late: memory of the caller would hide that.
        Some(late) => {
            let line = program.place(op.statement).line;
            help.push(format!("{or}{}", earlier(late, line, report)));
            help.push("or write it before, by a step or a message".to_owned());
        }
        None => {
            help.push(format!("{or}write it before, by a step or a message"));
            help.push(format!("or let the caller fill it: declare it as `{role}`"));
        }
    }
    report.tell(Check::Initialised, program.place(op.statement), title, story, &help);
}

/// For a rank at an end of an open chain, the neighbour that it lacks and from which the other
/// ranks receive this memory, and a guard for the ranks that have one.
fn lonely(rank: u32, same: impl Fn(Span) -> bool, report: &Report<'_>) -> Option<(String, String)> {
    let program = report.program;
    let receives = program.ops.iter().filter(|op| op.kind == OpKind::Receive && same(op.target));
    receives.into_iter().find_map(|op| {
        let shift = program.shift(op)?;
        let &[Stride { axis, by, wraps: false, written: None }] = shift.hops.as_slice() else {
            return None;
        };
        let extent = report.sizes().extents[axis as usize];
        let place = program.layout.coordinate(rank as usize, AxisId(axis));
        let own = report.coordinate(axis);
        let name = &report.plan().axes[axis as usize].name;
        let guard = match by {
            -1 => format!("{own} > 0"),
            ..0 => format!("{own} >= {}", -by),
            _ => format!("{own} < {name} - {by}"),
        };
        (!(0..extent).contains(&(place + by))).then(|| (report.peer(op.shift), guard))
    })
}

/// A collective whose regions overlap has its own part at its own place.
fn in_place(op: &Op, report: &mut Report<'_>) {
    let OpKind::Collective(kind) = op.kind else { return };
    let (program, source, target) = (report.program, op.source, op.target);
    if !source.overlaps(target) {
        return;
    }
    let index = program.layout.index(op.communicator.into(), program.rank(op) as usize) as u64;
    if in_its_place(kind, source, target, index) || report.knows(Check::Initialised, op) {
        return;
    }
    let wholes = kind.spec().wholes();
    let title = match wholes {
        (true, true) => format!("an {} does not run in place", kind.name()),
        _ => format!("this {} runs in place, but not at its own place", kind.name()),
    };
    let story = vec![report.line(op, format!("{}, of {}", report.does(op), report.name(source)))];
    let rule = "rank r's part begins at r times its length in the whole";
    let help = match (wholes, Shares::of(op, report)) {
        ((true, true), _) => "use two buffers: it reads one while it fills the other".to_owned(),
        (_, Some(shares)) => format!("{}: {rule}", shares.own_place()),
        ((true, false) | (false, true), None) => rule.to_owned(),
        ((false, false), None) => {
            "send and receive the same region, or two that do not overlap".to_owned()
        }
    };
    report.tell(Check::Initialised, program.place(op.statement), title, story, &[&help]);
}

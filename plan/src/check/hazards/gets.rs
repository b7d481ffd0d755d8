//! A get and a write of the same memory, as a story; and gets of what nothing has written.

use super::super::initialised::READS;
use super::super::ranges::Ranges;
use super::super::report::{EXCHANGE, Report};
use super::turns::Turns;
use super::{Clash, Comparison, Frontiers, Incoming, Uses};
use crate::ir::Role;
use crate::program::{Budget, Op, OpKind, Unit};
use crate::verdict::Check;

impl Clash<'_> {
    /// Reports a get that is not ordered with a write of its memory.
    pub(super) fn tell_get(&self, report: &mut Report<'_>) {
        let (op, theirs) = self.ops();
        let (get_run, other_run) = self.runs();
        let check = if get_run == other_run { Check::Hazards } else { Check::ReplayHazards };
        // A get that comes too early in a run does so in the next one, too.
        if report.knows(check, op) || get_run > other_run && report.knows(Check::Hazards, op) {
            return;
        }
        let turns = if get_run == other_run { self.turns(report) } else { None };
        let is_late = match &turns {
            Some(Turns { later: (true, _), .. }) => false,
            Some(Turns { later: (_, true), .. }) => true,
            _ if get_run != other_run => other_run > get_run,
            _ => theirs.statement > op.statement,
        };
        let when = |later: bool| match &turns {
            Some(turns) if later => turns.when(self.rank, report),
            _ if later && get_run != other_run => "in the next run ".to_owned(),
            _ => String::new(),
        };
        let ours = turns.as_ref().map_or(get_run > other_run, |turns| turns.later.0);
        let other = turns.as_ref().map_or(other_run > get_run, |turns| turns.later.1);
        let (ours, other) = (when(ours), when(other));
        let story = vec![
            report.line(op, format!("{ours}{}", report.does_in(op, get_run))),
            report.line(
                theirs,
                format!("{other}{}, not ordered with it", report.does_in(theirs, other_run)),
            ),
        ];
        let (reader, owner) = (self.unit(self.put.access.unit).rank, self.rank);
        let writer = self.unit(self.other.unit).rank;
        let does = match (theirs.kind, is_late) {
            (OpKind::Put, false) => format!("the put of rank {writer} may not have arrived"),
            (OpKind::Put, true) => format!("rank {writer} may put there meanwhile"),
            (_, false) => format!("rank {owner} may not have written it yet"),
            (_, true) => format!("rank {owner} may write there meanwhile"),
        };
        let name = report.name(self.put.access.span);
        let title = format!("rank {reader} reads {name} of rank {owner}, and {does}");
        let help = match is_late {
            false => vec![self.ready(report)],
            true => self.done(get_run != other_run, turns.is_some(), report),
        };
        report.tell(check, self.program.place(op.statement), title, story, &help);
    }

    /// A signal of the owner, once the memory may be read.
    fn ready(&self, report: &Report<'_>) -> String {
        let (op, theirs) = self.ops();
        let line = |op: &Op| self.program.place(op.statement).line;
        let after = match theirs.kind {
            OpKind::Put => "after the wait for the put".to_owned(),
            _ => format!("after line {}", line(theirs)),
        };
        let place = format!("{after} and before line {}", line(op));
        let streams = (theirs.stream, op.stream);
        exchange((op, "ready", streams), false, &place, report)
    }

    /// A signal of the reader, once it has read; or a second copy.
    fn done(&self, is_replay: bool, in_loop: bool, report: &Report<'_>) -> Vec<String> {
        let (op, theirs) = self.ops();
        let line = |op: &Op| self.program.place(op.statement).line;
        let place = match (is_replay, in_loop) {
            (true, _) => format!("at the end of the run, after line {}", line(op)),
            (_, true) => format!("at the end of the loop's body, after line {}", line(op)),
            _ => format!("after line {} and before line {}", line(op), line(theirs)),
        };
        let done = exchange((op, "done", (op.stream, theirs.stream)), true, &place, report);
        let object = &self.program.objects.all[self.put.access.span.object as usize];
        let is_swapped = object.other_copy != self.put.access.span.object;
        if !is_replay || is_swapped || !self.hears_reader() {
            return vec![done];
        }
        let name = report.declaration(object.buffer);
        vec![format!("give it two copies that swap: declare {name}"), format!("or {done}")]
    }

    /// Whether the owner awaits a signal of the reader in each run, whatever the number of ranks:
    /// then two copies are enough.
    fn hears_reader(&self) -> bool {
        let program = self.program;
        let reader = self.unit(self.put.access.unit).rank;
        let to = program.way_back(self.ops().0);
        let units: &[Unit] = &program.units[program.of_rank(self.rank as usize)];
        units.iter().flat_map(|unit| program.ops_of(unit)).any(|op| {
            let both = program.shift(op).zip(to);
            both.is_none_or(|(from, to)| from.hops == to.hops)
                && (op.kind, op.peer) == (OpKind::Wait, reader)
        })
    }
}

/// Declares a signal between the reader and the owner, and says where it is raised and awaited, on
/// these streams: by the reader, or by the owner.
pub(super) fn exchange(
    (op, name, streams): (&Op, &str, (u16, u16)),
    by_reader: bool,
    place: &str,
    report: &Report<'_>,
) -> String {
    let signal = report.free_signal(name);
    let (raised, awaited) = (report.on(streams.0), report.on(streams.1));
    let Some(reader) = report.back(op) else {
        let (raises, waits) = match by_reader {
            true => ("the reader raises", "the rank whose memory it reads awaits"),
            false => ("the rank whose memory is read raises", "the reader awaits"),
        };
        return format!(
            "declare `signal {signal};`, which {raises}{raised} and {waits}{awaited}, {place}"
        );
    };
    let owner = report.peer(op.shift);
    let (to, from) = if by_reader { (owner, reader) } else { (reader, owner) };
    format!(
        "declare `signal {signal};`, and {place}, write `signal {signal} to {to}{raised}{EXCHANGE}{signal} \
         from {from}{awaited};`"
    )
}

/// Whether what gets read was written before. `false` if the search takes too long.
pub(super) fn initialised(
    compare: &Comparison<'_>,
    uses: &Uses,
    budget: &mut Budget,
    report: &mut Report<'_>,
) -> bool {
    let (program, units) = (compare.program, compare.orders.units);
    let mut known = Frontiers::new();
    for get in uses.gets.iter().filter(|get| get.access.unit < units) {
        let op = &program.ops[get.access.op as usize];
        let object = &program.objects.all[op.source.object as usize];
        let is_next = object.other_copy < op.source.object;
        let is_filled = matches!(object.role, Role::In | Role::InOut) && !is_next;
        if is_filled || report.knows(Check::Hazards, op) || report.knows(Check::Initialised, op) {
            continue;
        }
        if !budget.take(1 + (uses.own.len() + uses.puts.len()) as u64 / 8) {
            return false;
        }
        let frontier = compare.frontier(get.access.unit, compare.rank, &mut known, budget);
        let Some(frontier) = frontier else { return false };
        let own = uses.own.iter().filter(|own| own.writes).map(|own| (own, Some(own.unit)));
        let puts = uses.puts.iter().map(|Incoming { access, arrival }| (access, *arrival));
        let mut written = Ranges::default();
        for (access, end) in own.chain(puts) {
            // In this run, and before.
            if end.is_some_and(|end| end < units && compare.is_in(end, frontier)) {
                written.add(access.span.start, access.span.end);
            }
        }
        let Some(element) = written.missing(op.source.start, op.source.end) else { continue };
        let (name, owner) = (report.object_name(op.source.object), compare.rank);
        let title = format!(
            "{READS} {element} of {name} of rank {owner}, which nothing has written before in this run"
        );
        let role = if is_next { "" } else { ", or let the caller fill it: declare it as `inout`" };
        let help = format!("write it on rank {owner} before, with a signal from there{role}");
        let at = program.place(op.statement);
        report.tell(Check::Initialised, at, title, vec![report.says(op)], [help]);
    }
    true
}

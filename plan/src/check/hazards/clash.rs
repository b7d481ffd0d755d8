//! A put and another use of the same memory, as a story.

use super::super::report::Report;
use super::Clash;
use super::turns::Turns;
use crate::program::{NONE, Op, OpKind, Span, Unit};
use crate::verdict::Check;

/// How a use of the memory stands to what a put brings.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reads {
    /// It comes after the wait for the put, and is not ordered with it.
    AfterWait,
    /// It comes after the put, and before the wait, if there is one.
    TooEarly,
    /// It uses what was there before.
    Before,
}

impl Clash<'_> {
    pub(super) fn unit(&self, unit: u32) -> &Unit {
        &self.program.units[(unit % self.orders.units) as usize]
    }

    /// In which runs the put and the other use are.
    pub(super) fn runs(&self) -> (u32, u32) {
        let units = self.orders.units;
        (self.put.access.unit / units, self.other.unit / units)
    }

    pub(super) fn ops(&self) -> (&Op, &Op) {
        let ops = &self.program.ops;
        (&ops[self.put.access.op as usize], &ops[self.other.op as usize])
    }

    /// The line of a unit.
    pub(super) fn line(&self, unit: u32) -> u32 {
        self.program.at((unit % self.orders.units) as usize).line
    }

    pub(super) fn tell(&self, report: &mut Report<'_>) {
        let (op, theirs) = self.ops();
        let (at, other, runs) =
            (self.program.place(op.statement), self.program.place(theirs.statement), self.runs());
        let check = if runs.0 == runs.1 { Check::Hazards } else { Check::ReplayHazards };
        if report.knows(check, op) {
            return;
        }
        // A put from there reads, as a send does.
        let is_put = theirs.kind == OpKind::Put && self.other.writes;
        if is_put && report.tells_both(check, other, at) {
            return;
        }
        // Puts that the same reader must be protected from have one help.
        let more = self.one_more(report);
        if !is_put && report.same_use(check, (other, at), || more) {
            return;
        }
        // Without a signal it is no other mistake in the next run, but for what reads there first.
        let first = op.statement > theirs.statement && runs.1 > runs.0;
        let silent = op.signal == NONE && self.put.arrival.is_none();
        if silent && runs.0 != runs.1 && !first && report.knows(Check::Hazards, op) {
            return;
        }
        let rank = self.rank;
        let source = self.unit(self.put.access.unit).rank;
        let other_rank = self.unit(self.other.unit).rank;
        let turns = if runs.0 == runs.1 { self.turns(report) } else { None };
        let within = |run: u32, other: u32, later: fn(&Turns<'_>) -> bool| match &turns {
            Some(turns) if later(turns) => turns.when(rank, report),
            _ if run > other + 1 => "two runs later ".to_owned(),
            _ if run > other => "in the next run ".to_owned(),
            _ => String::new(),
        };
        let theirs_when = within(runs.1, runs.0, |turns| turns.later.1);
        let ours_when = within(runs.0, runs.1, |turns| turns.later.0);
        let mut story = vec![
            report.line(theirs, format!("{theirs_when}{}", report.does_in(theirs, runs.1))),
            report.line(
                op,
                format!("{ours_when}{}, not ordered with it", report.does_in(op, runs.0)),
            ),
        ];
        let does = match (is_put, self.other.writes) {
            (true, _) => format!("rank {other_rank} puts there too"),
            (false, true) => format!("rank {rank} writes there"),
            (false, false) if self.reads(report) == Reads::Before => {
                format!("rank {rank} may not have finished reading")
            }
            (false, false) => format!("rank {rank} may read before it has arrived"),
        };
        let title = format!(
            "rank {source} puts into {} of rank {rank}, and {does}",
            report.name(Span { object: self.put.access.span.object, ..self.put.access.span })
        );
        let help = if runs.0 == runs.1 {
            self.help_in_run(is_put, report)
        } else {
            self.help_across_runs(is_put, &mut story, report)
        };
        report.tell(check, at, title, story, &help);
    }

    /// Whether the memory is used for what the put brings, or for what was there before.
    pub(super) fn reads(&self, report: &Report<'_>) -> Reads {
        let runs = self.runs();
        match self.put.arrival {
            Some(wait) if self.other.unit > wait => Reads::AfterWait,
            None if self.ops().0.signal == NONE && (runs.1 > runs.0 || self.is_between(report)) => {
                Reads::TooEarly
            }
            Some(_) if self.is_between(report) || self.is_later(report) => Reads::TooEarly,
            _ => Reads::Before,
        }
    }

    /// Whether the other use is in a later turn of a loop than the put.
    fn is_later(&self, report: &Report<'_>) -> bool {
        let (puts, uses) = self.runs();
        puts == uses && self.turns(report).is_some_and(|turns| turns.later.1)
    }

    /// Whether the other use is written after the put, and before the wait for it: all in one run
    /// and, where a loop is around them, in one turn.
    fn is_between(&self, report: &Report<'_>) -> bool {
        let (op, theirs) = self.ops();
        let same_turn = self.turns(report).is_none_or(|turns| turns.later == (false, false));
        let (puts, uses) = self.runs();
        puts == uses && same_turn && op.statement < theirs.statement
    }
}

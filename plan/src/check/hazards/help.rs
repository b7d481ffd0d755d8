//! Help with a put that is in no order with another use of the same memory.

use super::super::report::{EXCHANGE, Report};
use super::Clash;
use super::clash::Reads;
use crate::program::{NONE, Op, OpKind, Span, Unit};
use crate::verdict::Line;

impl Clash<'_> {
    /// How the rank that puts is named by the rank that is put at, and the other way round.
    fn sides(&self, report: &Report<'_>) -> Option<(String, String)> {
        let op = self.ops().0;
        Some((report.back(op)?, report.peer(op.shift)))
    }

    /// The reader raises a signal, and who puts waits for it.
    fn exchange(&self, report: &Report<'_>) -> Option<String> {
        let (to, from) = self.sides(report)?;
        let done = report.free_signal("done");
        let (theirs, ours) = (
            report.on(self.unit(self.other.unit).stream),
            report.on(self.unit(self.put.access.unit).stream),
        );
        Some(format!("`signal {done} to {to}{theirs}{EXCHANGE}{done} from {from}{ours};`"))
    }

    /// The same, for another put that the same reader must be protected from.
    pub(super) fn one_more(&self, report: &Report<'_>) -> Option<String> {
        let line = self.program.place(self.ops().0.statement).line;
        Some(format!("and for the put in line {line} {}", self.exchange(report)?))
    }

    /// Declares a signal of the reader's, and says where it is raised and awaited.
    fn with_done(&self, place: &str, report: &Report<'_>) -> String {
        let done = report.free_signal("done");
        let exchange = self.exchange(report);
        let exchange = exchange.as_deref().map_or_else(
            || "raise it at the rank that puts, which waits for it".to_owned(),
            |exchange| format!("write {exchange}"),
        );
        format!("declare `signal {done};`, and {place}, {exchange}")
    }

    /// A signal with the put, and a wait for it.
    fn with_signal(&self, place: &str, report: &Report<'_>) -> String {
        let (signal, line) =
            (report.free_signal("arrived"), self.program.place(self.ops().0.statement).line);
        let wait = self.sides(report).map_or_else(
            || "wait for it".to_owned(),
            |(from, _)| {
                let on = report.on(self.unit(self.other.unit).stream);
                format!("write `wait {signal} from {from}{on};`")
            },
        );
        format!(
            "declare `signal {signal};`, raise it with the put, `signal {signal}` after `into ..` in line \
             {line}, and {wait} {place}"
        )
    }

    /// Help with a clash within one run.
    pub(super) fn help_in_run(&self, is_put: bool, report: &Report<'_>) -> Vec<String> {
        let (op, theirs) = self.ops();
        let line = self.program.place(theirs.statement).line;
        if is_put {
            return vec![
                "put into parts that do not overlap, or wait for a signal of the one put before the other"
                    .to_owned(),
            ];
        }
        let turns = self.turns(report);
        let later = turns.map_or((false, false), |turns| turns.later);
        let end = format!("at the end of the loop's body, after line {line}");
        match (self.reads(report), self.put.arrival) {
            (Reads::AfterWait, Some(wait)) => {
                let stream = |unit: u32| report.stream(self.unit(unit).stream);
                let (waits, uses) = (stream(wait), stream(self.other.unit));
                vec![if waits == uses {
                    format!("wait for a signal of the put before line {line}")
                } else {
                    format!(
                        "let line {line} wait until it has arrived: write `on {uses} after {waits}` there"
                    )
                }]
            }
            (_, None) if op.signal == NONE && op.statement < theirs.statement => {
                vec![self.with_signal(&format!("before line {line}"), report)]
            }
            (Reads::TooEarly, Some(wait)) if !later.1 => {
                vec![self.wait_first(wait, report), self.put_last(report)]
            }
            _ if later.0 => vec![self.with_done(&end, report)],
            _ if later.1 => {
                vec![format!(
                    "wait for the put's signal at the end of the loop's body, before line {line} comes again"
                )]
            }
            _ if op.statement > theirs.statement => {
                vec![self.with_done(&format!("between line {line} and the put"), report)]
            }
            _ => vec![format!("wait for a signal of the put before line {line}")],
        }
    }

    /// To read what the put brings: the wait stands before the reader.
    fn wait_first(&self, wait: u32, report: &Report<'_>) -> String {
        let (user, waiting) = (self.unit(self.other.unit), self.unit(wait));
        let (line, waits) = (self.line(self.other.unit), self.line(wait));
        let mut text = format!("move the `wait` of line {waits} before line {line}");
        if user.stream != waiting.stream && user.after & 1 << waiting.stream == 0 {
            let (on, after) = (report.stream(user.stream), report.stream(waiting.stream));
            text += &format!(", and write `on {on} after {after}` in line {line}");
        }
        text
    }

    /// To read what was there before: the put comes after the reader.
    fn put_last(&self, report: &Report<'_>) -> String {
        let line = self.line(self.other.unit);
        let puts = self.program.place(self.ops().0.statement).line;
        let done = report.free_signal("done");
        match self.exchange(report) {
            Some(exchange) => format!(
                "or to read what was there before: declare `signal {done};`, and move line {puts} after line \
                 {line}, with {exchange} between them"
            ),
            None => format!("or put after line {line}, to read what was there before"),
        }
    }

    /// Help with a clash with another run.
    pub(super) fn help_across_runs(
        &self,
        is_put: bool,
        story: &mut Vec<Line>,
        report: &Report<'_>,
    ) -> Vec<String> {
        let program = self.program;
        let (op, theirs) = self.ops();
        let (put, user) = (self.unit(self.put.access.unit), self.unit(self.other.unit));
        let object = &program.objects.all[self.put.access.span.object as usize];
        let stream = report.stream(user.stream);
        let is_swapped = object.other_copy != self.put.access.span.object;
        let waits_already =
            is_put || put.stream == user.stream || put.after & 1 << user.stream != 0;
        let line = program.place(theirs.statement).line;
        let end = format!("at the end of the run, after line {line}");
        let (puts, uses) = self.runs();
        if self.put.arrival.is_none() && op.signal == NONE && !is_put && uses > puts {
            return vec![self.with_signal("at the end of the run", report)];
        }
        let wait = self.awaited_by_who_puts();
        if !is_swapped {
            let done = self.with_done(&end, report);
            // Two copies do not help where a rank may be two runs ahead.
            if wait.is_none() {
                return vec![done];
            }
            let name = report.declaration(object.buffer);
            let swap = if waits_already {
                format!("give it two copies that swap: declare {name}")
            } else {
                format!(
                    "let the put wait for the reader: declare two copies that swap, {name}, and write \
                     `after {stream}` at each put"
                )
            };
            return vec![swap, format!("or {done}")];
        }
        let Some(wait) = wait else {
            let why = match (put.rank, self.rank) {
                (put, own) if put == own => "its own wait may be several runs late".to_owned(),
                (put, own) => format!("rank {put} may be several runs ahead of rank {own}"),
            };
            return vec![format!("{}: without it, {why}", self.with_done(&end, report))];
        };
        let signal = report.signal(wait.signal);
        let raise = (0..).zip(&program.units).find_map(|(at, unit)| {
            let raises = |op: &&Op| {
                op.signal == wait.signal
                    && op.peer == put.rank
                    && matches!(op.kind, OpKind::Put | OpKind::Signal)
            };
            let op = program.ops_of(unit).iter().find(raises)?;
            (unit.rank == self.rank).then_some((at, unit, op))
        });
        // By the run before, the reader's signal must say that it has read.
        let next = puts.saturating_sub(1) * self.orders.units;
        match raise {
            Some((at, raising, op))
                if !is_put
                    && puts > uses
                    && !self.orders.clocks.ended(self.other.unit, user.stream, at + next) =>
            {
                let does = if self.other.writes { "written" } else { "read" };
                let text = format!(
                    "raises the signal `{signal}`, which rank {} awaits, before line {line} has {does} {}",
                    put.rank,
                    report.object_name(self.other.span.object)
                );
                story.push(report.line(op, text));
                vec![self.raise_later(at, raising, report)]
            }
            _ => vec![format!(
                "put only after the wait for `{signal}` (line {}): on its stream, or `after` it",
                program.place(wait.statement).line
            )],
        }
    }

    /// What `at` raises, and who puts awaits, must say that the reader has read.
    fn raise_later(&self, at: u32, raising: &Unit, report: &Report<'_>) -> String {
        let program = self.program;
        let object = |span: Span| program.objects.all.get(span.object as usize);
        let buffer = object(self.put.access.span).map(|object| object.buffer);
        let is_buffer = |span: Span| object(span).map(|object| object.buffer) == buffer;
        let ops = |unit: u32| program.ops_of(&program.units[unit as usize]);
        let user = self.other.unit % self.orders.units;
        let (line, reader) = (self.line(user), self.unit(user).stream);
        let after = report.stream(reader);
        let (puts, uses) = self.runs();
        // In a run that is later than the reader's, or after it in the same.
        let is_after = puts > uses + 1 || at > user;
        let from = match puts > uses + 1 {
            false if at > user => user,
            _ => program.of_rank(self.rank as usize).start as u32,
        };
        // The puts of one rank are alike: the first waits, and so do those after it.
        let is_put =
            |unit: &u32| ops(*unit).iter().any(|op| op.kind == OpKind::Put && is_buffer(op.target));
        let first = (from..at).find(is_put).unwrap_or(at);
        let raises = self.line(first);
        if is_after {
            return format!("raise it after the reader: write `after {after}` in line {raises}");
        }
        // What the reader needs of this run's puts keeps it after them.
        let read = self.other.span.object;
        let reads = |op: &Op| {
            is_buffer(op.read()) && op.source.object != program.objects.in_run(read, uses as usize)
        };
        if ops(user).iter().any(reads) {
            return self.with_done(&format!("at the end of the run, after line {line}"), report);
        }
        let waits = raising.stream == reader || raising.after & 1 << reader != 0;
        let after = if waits {
            String::new()
        } else {
            format!(", and write `after {after}` in line {raises}")
        };
        format!("read before the puts: move line {line} before line {raises}{after}")
    }

    /// A wait of the rank that puts for a signal of the rank that is put at: of that neighbour,
    /// whatever the number of ranks.
    fn awaited_by_who_puts(&self) -> Option<&Op> {
        let op = self.ops().0;
        let put = self.unit(self.put.access.unit);
        let units = &self.program.units[self.program.of_rank(put.rank as usize)];
        units.iter().flat_map(|unit| self.program.ops_of(unit)).find(|of| {
            let ours = (of.kind, of.peer, of.communicator);
            let both = self.program.shift(of).zip(self.program.shift(op));
            both.is_none_or(|(theirs, ours)| theirs.hops == ours.hops)
                && ours == (OpKind::Wait, self.rank, op.communicator)
        })
    }
}

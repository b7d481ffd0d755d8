//! Streams whose work never overlaps.

use super::super::instance::Instance;
use super::super::local::{Clocks, Local, Reason, reasons};
use super::super::report::Report;
use crate::ir::{Launch, Plan};
use crate::program::Program;
use crate::verdict::{Line, Problem, ProblemKind};

/// Whether work on two streams may overlap at any of the sizes; else why not, where several are
/// used.
pub(super) struct Streams {
    is_open: bool,
    found: Option<Problem>,
}

/// How many waits are told.
const MOST: usize = 4;

impl Streams {
    pub(super) fn new(plan: &Plan) -> Self {
        Self { is_open: plan.streams.len() > 1, found: None }
    }

    pub(super) fn look(&mut self, instance: &Instance<'_>) {
        let program = instance.program;
        if !self.is_open || (0..program.ranks()).all(|rank| used(program, rank) < 2) {
            return;
        }
        let runs = match (instance.plan.replayed, instance.plan.launch) {
            (true, Launch::Eager) => 2,
            _ => 1,
        };
        if overlaps(program, runs) || overlaps(&Program { exact: true, ..program.clone() }, runs) {
            self.is_open = false;
            self.found = None;
        } else if self.found.is_none() {
            self.found = problem(instance);
        }
    }

    pub(super) fn finish(self) -> Option<Problem> {
        self.found
    }
}

/// How many streams a rank uses.
fn used(program: &Program, rank: usize) -> u32 {
    let units = &program.units[program.of_rank(rank)];
    units.iter().fold(0_u64, |set, unit| set | 1 << unit.stream).count_ones()
}

/// Whether a unit may start before the last unit of another stream has ended.
fn overlaps(program: &Program, runs: usize) -> bool {
    let local = Local::new(program, runs);
    let clocks = Clocks::new(program, &local, runs);
    (0..program.ranks()).any(|rank| {
        let mut last: Vec<Option<u32>> = vec![None; program.streams];
        (0..runs).flat_map(|run| program.of_rank(rank).map(move |unit| (run, unit))).any(
            |(run, unit)| {
                let (id, own) =
                    ((run * program.units.len() + unit) as u32, program.units[unit].stream);
                let others = (0..).zip(&last).filter(|(stream, _)| *stream != own);
                let mut earlier = others.filter_map(|(stream, last)| Some((stream, (*last)?)));
                let overlaps = earlier.any(|(stream, last)| !clocks.ended(last, stream, id));
                last[usize::from(own)] = Some(id);
                overlaps
            },
        )
    })
}

/// Why not. Nothing, if `after` says so wherever a stream waits: then it is meant.
fn problem(instance: &Instance<'_>) -> Option<Problem> {
    let (program, report) = (instance.program, Report::new(instance));
    let rank = (0..program.ranks()).find(|rank| used(program, *rank) > 1).unwrap_or(0);
    let mut story: Vec<Line> = Vec::new();
    let mut is_meant = true;
    reasons(program, rank, 1, |unit, earlier, why| {
        let of = |unit: u32| &program.units[unit as usize];
        if of(unit).stream == of(earlier).stream {
            return;
        }
        if let Reason::Stream(_) = why {
            return;
        }
        let why = report.why(why);
        let (line, does) = (program.at(earlier as usize).line, report.unit_does(unit));
        let (own, other) = (report.stream(of(unit).stream), report.stream(of(earlier).stream));
        let text = format!("{does} on `{own}` only after line {line} on `{other}`: {why}");
        is_meant &= of(unit).after & 1 << of(earlier).stream != 0;
        if story.len() < MOST && story.iter().all(|known| known.at != program.at(unit as usize)) {
            story.push(report.unit_line(unit, text));
        }
    });
    let names: Vec<String> =
        instance.plan.streams.iter().map(|stream| format!("`{}`", stream.name)).collect();
    let title = format!("the streams {} never run side by side", names.join(", "));
    let at = instance.plan.streams[1].at;
    let help = "use one stream, or let what is to overlap use different elements and different communicators";
    let problem = Problem::new(ProblemKind::Doubtful, title, at, help);
    let problem = Problem { story, sizes: Some(instance.sizes.clone()), ..problem };
    (!is_meant).then_some(problem)
}

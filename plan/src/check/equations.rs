//! What compute steps say that they compute, and what assignments compute; and A2 of it: one length
//! on both sides.

use super::instance::Instance;
use super::report::Report;
use crate::ir::{Equation, LocalWork, Plan, Step};
use crate::program::{Op, OpKind, Unit};
use crate::verdict::{Check, Line};

/// The local work of a plan, by the numbers of its statements.
pub(crate) struct Equations<'a>(Vec<Option<LocalWork<'a>>>);

impl<'a> Equations<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self(Step::local_works(&plan.steps))
    }

    /// Whether no step says what it computes.
    pub(crate) fn are_none(&self) -> bool {
        self.0.iter().flatten().all(|step| step.computes.is_empty() && step.by.is_none())
    }

    /// The work of a unit.
    pub(crate) fn step(&self, unit: &Unit) -> Option<&LocalWork<'a>> {
        self.0.get(unit.statement as usize)?.as_ref()
    }
}

/// The operations of a step's region: several where it is a whole array.
pub(crate) fn part_of(ops: &[Op], part: usize) -> impl Iterator<Item = (usize, &Op)> {
    ops.iter().enumerate().filter(move |(_, op)| usize::from(op.part) == part)
}

/// Whether all regions of an equation have one length is checked here, for every unit.
pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) {
    let equations = Equations::new(instance.plan);
    if equations.are_none() {
        return;
    }
    for unit in instance.program.units.iter().filter(|unit| unit.is_compute) {
        let Some(step) = equations.step(unit) else { continue };
        let ops = instance.program.ops_of(unit);
        if step.by.is_some() {
            assigned(unit, step, ops, report);
            continue;
        }
        for equation in step.computes.iter() {
            let to: u64 = part_of(ops, step.reads.len() + equation.to as usize)
                .map(|(_, op)| op.target.len())
                .sum();
            for &read in &equation.of {
                let of: u64 = part_of(ops, read as usize).map(|(_, op)| op.source.len()).sum();
                if of != to {
                    return tell(unit, step, equation, (read, of, to), report);
                }
            }
        }
    }
}

/// All sources of an assignment are as long as its target.
fn assigned(unit: &Unit, step: &LocalWork<'_>, ops: &[Op], report: &mut Report<'_>) {
    let Some((write, reads)) = ops.split_last() else { return };
    let to = write.target.len();
    let Some(read) = reads.iter().find(|op| op.source.len() != to) else { return };
    // Sources that are repeated have no name of their own.
    let written = step.of.get(usize::from(read.part)).filter(|_| step.of.len() == reads.len());
    let from = match written {
        Some(source) => format!("`{}`", report.plan().show(&source.region)),
        None => report.name(read.source),
    };
    let from = match read.kind {
        OpKind::Get => format!("{from} of rank {}", read.peer),
        _ => from,
    };
    let into = report.plan().show(&step.writes[0]);
    let elements = if to == 1 { "element" } else { "elements" };
    let title = format!("`{into}` has {to} {elements}, and {from} has {}", read.source.len());
    let help = "an assignment goes element by element: name as many elements on both sides";
    say(unit, &title, help, report);
}

fn tell(
    unit: &Unit,
    step: &LocalWork<'_>,
    equation: &Equation,
    (read, of, to): (u32, u64, u64),
    report: &mut Report<'_>,
) {
    let plan = report.plan();
    let into = plan.show(&step.writes[equation.to as usize]);
    let from = plan.show(&step.reads[read as usize]);
    let elements = if to == 1 { "element" } else { "elements" };
    let name = step.name.unwrap_or_default();
    let title =
        format!("`{into}` has {to} {elements} and `{from}`, of which `{name}` computes it, {of}");
    let help = "a step computes element by element: make both regions of one length";
    say(unit, &title, help, report);
}

fn say(unit: &Unit, title: &str, help: &str, report: &mut Report<'_>) {
    let at = report.program.place(unit.statement);
    let text = report.work_does(unit);
    let story = vec![Line::of(unit.rank as usize, at, text)];
    report.tell(Check::Agreement, at, title, story, [help]);
}

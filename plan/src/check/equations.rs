//! What compute steps say that they compute, and A2 of it: one length on both sides.

use super::instance::Instance;
use super::report::Report;
use crate::ir::{Compute, Equation, Plan, Step};
use crate::program::{Op, Unit};
use crate::verdict::{Check, Line};

/// The compute steps of a plan, by the numbers of their statements.
pub(crate) struct Equations<'a>(Vec<Option<&'a Compute>>);

impl<'a> Equations<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        Self(Step::computes(&plan.steps))
    }

    /// Whether no step says what it computes.
    pub(crate) fn are_none(&self) -> bool {
        self.0.iter().flatten().all(|step| step.computes.is_empty())
    }

    /// The step that a unit runs.
    pub(crate) fn step(&self, unit: &Unit) -> Option<&'a Compute> {
        self.0.get(unit.statement as usize).copied().flatten()
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
        for equation in &step.computes {
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

fn tell(
    unit: &Unit,
    step: &Compute,
    equation: &Equation,
    (read, of, to): (u32, u64, u64),
    report: &mut Report<'_>,
) {
    let plan = report.plan();
    let region = |region| plan.show(region);
    let (into, from) = (&step.writes[equation.to as usize], &step.reads[read as usize]);
    let title = format!(
        "`{}` has {to} element{} and `{}`, of which `{}` computes it, {of}",
        region(into),
        if to == 1 { "" } else { "s" },
        region(from),
        step.name
    );
    let at = report.program.place(unit.statement);
    let text = format!("runs `{}`", step.name);
    let story = vec![Line { rank: Some(unit.rank as usize), other: None, at, text }];
    let help = ["a step computes element by element: make both regions of one length"];
    report.tell(Check::Agreement, at, title, story, &help);
}

//! A9 within local work: what one step writes does not overlap, nor does what it reads overlap
//! that.

use super::instance::Instance;
use super::report::Report;
use crate::ir::{Step, StepKind};
use crate::program::{NONE, Op, OpKind, Span};
use crate::verdict::Check;

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) {
    for unit in instance.program.units.iter().filter(|unit| unit.is_compute) {
        let ops = instance.program.ops_of(unit);
        if ops.len() > 1
            && let Some((first, second)) = overlap(ops)
            && !report.knows(Check::Hazards, first)
        {
            tell(first, second, report);
        }
    }
}

/// Two uses of the same elements, the second of which writes.
fn overlap(ops: &[Op]) -> Option<(&Op, &Op)> {
    let writes = || ops.iter().filter(|op| op.kind == OpKind::Write);
    writes().find_map(|write| {
        let meets = |op: &&Op| {
            let span = used(op);
            op.part != write.part && span.overlaps(write.target) && !is_updated(ops, op, write)
        };
        ops.iter().find(meets).map(|other| (other, write))
    })
}

fn used(op: &Op) -> Span {
    if op.source.object == NONE { op.target } else { op.source }
}

/// Whether a step reads and writes one region.
fn is_updated(ops: &[Op], read: &Op, write: &Op) -> bool {
    let region = |of: &Op| {
        let part = of.part;
        ops.iter().filter(move |op| op.part == part).map(used)
    };
    read.kind == OpKind::Read && region(read).eq(region(write))
}

fn tell(first: &Op, second: &Op, report: &mut Report<'_>) {
    let step = Step::nth(&report.plan().steps, first.statement);
    let is_assigned = step.is_some_and(|step| matches!(step.kind, StepKind::Assign(_)));
    let (name, other) = (report.name(second.target), report.name(first.source));
    let title = match first.kind {
        OpKind::Read if is_assigned => {
            format!("this reads {other} and writes {name}, which overlap")
        }
        OpKind::Read => format!("one step reads {other} and writes {name}, which overlap"),
        _ => format!("one step writes {} and {name}, which overlap", report.name(first.target)),
    };
    let at = report.program.place(first.statement);
    let does = if is_assigned { report.unit_does(first.unit) } else { "runs this".to_owned() };
    let story = vec![report.unit_line(first.unit, does)];
    let help: &[&str] = match first.kind {
        OpKind::Read if is_assigned => &[
            "name the same elements on both sides",
            "or copy them to a buffer of their own first, and read that",
        ],
        OpKind::Read => &[
            "name one region for both, with `update`",
            "or read and write regions that do not overlap",
        ],
        _ => &["name the elements once"],
    };
    report.tell(Check::Hazards, at, title, story, help);
}

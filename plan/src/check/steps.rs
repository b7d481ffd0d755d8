//! A9 within a compute step: what one step writes does not overlap, nor does what it reads overlap
//! that.

use super::instance::Instance;
use super::report::Report;
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
    let title = match first.kind {
        OpKind::Read => format!(
            "one step reads {} and writes {}, which overlap",
            report.name(first.source),
            report.name(second.target)
        ),
        _ => format!(
            "one step writes {} and {}, which overlap",
            report.name(first.target),
            report.name(second.target)
        ),
    };
    let at = report.program.place(first.statement);
    let story = vec![report.unit_line(first.unit, "runs this")];
    let help: &[&str] = match first.kind {
        OpKind::Read => &[
            "name one region for both, with `update`",
            "or read and write regions that do not overlap",
        ],
        _ => &["name the elements once"],
    };
    report.tell(Check::Hazards, at, title, story, help);
}

//! A9 within local work: what one step writes does not overlap, nor does what it reads overlap
//! that.

use super::equations::Equations;
use super::instance::Instance;
use super::report::Report;
use crate::ir::{LocalWork, Step, StepKind};
use crate::program::{NONE, Op, OpKind, Span};
use crate::verdict::Check;

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) {
    let works = Equations::new(instance.plan);
    for unit in instance.program.units.iter().filter(|unit| unit.is_compute) {
        let ops = instance.program.ops_of(unit);
        if ops.len() > 1
            && let Some(work) = works.step(unit)
            && let Some((first, second)) = overlap(work, ops)
            && !report.knows(Check::Hazards, first)
        {
            tell(first, second, report);
        }
    }
}

/// Two uses of the same elements, the second of which writes.
fn overlap<'o>(work: &LocalWork<'_>, ops: &'o [Op]) -> Option<(&'o Op, &'o Op)> {
    let mut all: Vec<&Op> =
        ops.iter().filter(|op| op.kind != OpKind::Get && !used(op).is_empty()).collect();
    all.sort_by_key(|op| (used(op).object, used(op).start));
    // What begins earlier, and reaches to the present one: of writes one, or two overlap.
    let (mut write, mut reads): (Option<&Op>, Vec<&Op>) = (None, Vec::new());
    for op in all {
        let reaches = |before: &&Op| used(before).overlaps(used(op));
        write = write.filter(reaches);
        if op.kind == OpKind::Read {
            if let Some(write) = write.filter(|write| !is_updated(work, op, write)) {
                return Some((op, write));
            }
            reads.push(op);
            continue;
        }
        reads.retain(reaches);
        let read = reads.iter().find(|read| !is_updated(work, read, op));
        if let Some(first) = write.or_else(|| read.copied()) {
            return Some((first, op));
        }
        write = Some(op);
    }
    None
}

fn used(op: &Op) -> Span {
    if op.source.object == NONE { op.target } else { op.source }
}

/// Whether the work reads and writes one region. Of a step they are written alike: it gets what it
/// reads and what it writes each for itself.
fn is_updated(work: &LocalWork<'_>, read: &Op, write: &Op) -> bool {
    let (from, to) = (usize::from(read.part), usize::from(write.part));
    match work.name {
        Some(_) => {
            work.reads.get(from)
                == to.checked_sub(work.reads.len()).and_then(|to| work.writes.get(to))
        }
        None => used(read) == used(write),
    }
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

//! A13: regions that the plan says are filled by messages, puts and steps, each element once.

use super::instance::Instance;
use super::report::Report;
use crate::ir::{Coverage, StepKind};
use crate::program::{Op, OpKind, Span};
use crate::verdict::{Check, Line};

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) {
    let &Instance { plan, program, .. } = instance;
    for covered in &plan.covers {
        let span = |rank| {
            program.objects.span(&covered.region, rank, &instance.env(rank), None).map_err(|_| rank)
        };
        let wanted = match (0..program.ranks()).map(span).collect::<Result<Vec<Span>, usize>>() {
            Ok(wanted) => wanted,
            Err(rank) => {
                let title =
                    format!("the region that is declared as filled does not exist on rank {rank}");
                let help = ["change its range"];
                return report.tell(Check::Bounds, covered.at, title, Vec::new(), help);
            }
        };
        let mut incoming = incoming(instance, &wanted);
        for (rank, (parts, span)) in incoming.iter_mut().zip(&wanted).enumerate() {
            parts.sort_unstable();
            if let Some(fault) = fault(parts, *span) {
                tell(instance, covered, (rank, parts, fault), report);
                break;
            }
        }
    }
}

/// What messages and puts bring into the wanted elements of each rank, and what steps write there
/// that do not read it: from where to where.
fn incoming(instance: &Instance<'_>, wanted: &[Span]) -> Vec<Vec<(u64, u64)>> {
    let program = instance.program;
    let mut incoming: Vec<Vec<(u64, u64)>> = vec![Vec::new(); wanted.len()];
    for unit in &program.units {
        let ops = program.ops_of(unit);
        let reads = |own: &Op| {
            let Span { object, start, end } = own.target;
            let source = |op: &Op| {
                let Span { object: of, start: from, end: to } = op.read();
                of == object && from < end && start < to
            };
            ops.iter().any(source)
        };
        for op in ops {
            let rank = match op.kind {
                OpKind::Receive => unit.rank,
                OpKind::Put => op.peer,
                OpKind::Write if !reads(op) => unit.rank,
                _ => continue,
            } as usize;
            let Span { object, start, end } = wanted[rank];
            let (from, to) = (op.target.start.max(start), op.target.end.min(end));
            if op.target.object == object && from < to {
                incoming[rank].push((from, to));
            }
        }
    }
    incoming
}

const NOTHING: &str = "nothing fills";

/// The first element that is not filled once, and what fills it instead.
fn fault(parts: &[(u64, u64)], Span { start, end, .. }: Span) -> Option<(&'static str, u64)> {
    let mut at = start;
    for &(from, to) in parts {
        if from > at {
            return Some((NOTHING, at));
        } else if from < at {
            return Some(("more than one operation fills", from));
        }
        at = to;
    }
    (at != end).then_some((NOTHING, at))
}

fn tell(
    instance: &Instance<'_>,
    covered: &Coverage,
    (rank, parts, (what, element)): (usize, &[(u64, u64)], (&str, u64)),
    report: &mut Report<'_>,
) {
    let plan = instance.plan;
    let name = &plan.buffers[covered.region.buffer.index()].name;
    let title = format!("{what} element {element} of `{name}` on rank {rank}");
    let line = |(from, to): &(u64, u64)| Line::of(rank, covered.at, format!("gets [{from}, {to})"));
    let story = parts.iter().take(8).map(line).collect();
    let mut help = vec![
        "change the ranges of the messages, puts and steps, or the region that is declared"
            .to_owned(),
    ];
    let mut loops = plan.steps.iter().filter(|step| matches!(step.kind, StepKind::Loop(_)));
    if what == NOTHING
        && let (Some(only), None) = (loops.next(), loops.next())
    {
        help.push(format!("or let the loop run further (line {})", only.at.line));
    }
    report.tell(Check::Coverage, covered.at, title, story, &help);
}

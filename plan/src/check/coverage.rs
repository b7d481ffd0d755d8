//! A13: regions that the plan says are filled by messages and puts, each element once.

use super::instance::Instance;
use super::report::Report;
use crate::ir::{Location, StepKind};
use crate::program::{Env, OpKind};
use crate::verdict::{Check, Line};

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) {
    let &Instance { plan, program, sizes } = instance;
    for covered in &plan.covers {
        let region = &covered.region;
        let mut incoming: Vec<Vec<(u64, u64)>> = vec![Vec::new(); program.ranks()];
        let counters = vec![None; plan.counters.len()];
        let mut wanted = Vec::with_capacity(program.ranks());
        for rank in 0..program.ranks() {
            let env = Env {
                extents: &sizes.extents,
                size: program.ranks() as i64,
                params: &sizes.params,
                counters: &counters,
                rank: rank as i64,
            };
            let Some(span) = super::regions::span(program, &env, region) else {
                return outside(covered.at, rank, report);
            };
            wanted.push((span.object, span.start, span.end));
        }
        for unit in &program.units {
            for op in program.ops_of(unit) {
                let rank = match op.kind {
                    OpKind::Receive => unit.rank,
                    OpKind::Put => op.peer,
                    _ => continue,
                } as usize;
                let (object, start, end) = wanted[rank];
                let (from, to) = (op.target.start.max(start), op.target.end.min(end));
                if op.target.object == object && from < to {
                    incoming[rank].push((from, to));
                }
            }
        }
        for (rank, (parts, &(_, start, end))) in incoming.iter_mut().zip(&wanted).enumerate() {
            parts.sort_unstable();
            let mut at = start;
            let mut fault = None;
            for &(from, to) in parts.iter() {
                if from != at {
                    let (what, element) = if from > at {
                        ("nothing fills", at)
                    } else {
                        ("more than one message fills", from)
                    };
                    fault = Some((what, element));
                    break;
                }
                at = to;
            }
            if fault.is_none() && at != end {
                fault = Some(("nothing fills", at));
            }
            if let Some((what, element)) = fault {
                let name = &plan.buffers[region.buffer.index()].name;
                let title = format!("{what} element {element} of `{name}` on rank {rank}");
                let line = |(from, to): &(u64, u64)| Line {
                    rank: Some(rank),
                    other: None,
                    at: covered.at,
                    text: format!("gets [{from}, {to})"),
                };
                let story = parts.iter().take(8).map(line).collect();
                let mut help = vec![
                    "change the ranges of the messages and puts, or the region that is declared"
                        .to_owned(),
                ];
                let mut loops = plan.steps.iter().filter_map(|step| match step.kind {
                    StepKind::Loop(_) => Some(step.at.line),
                    _ => None,
                });
                if what == "nothing fills"
                    && let (Some(line), None) = (loops.next(), loops.next())
                {
                    help.push(format!("or let the loop run further (line {line})"));
                }
                let help: Vec<&str> = help.iter().map(String::as_str).collect();
                report.tell(Check::Coverage, covered.at, title, story, &help);
                break;
            }
        }
    }
}

fn outside(at: Location, rank: usize, report: &mut Report<'_>) {
    let title = format!("the region that is declared as filled does not exist on rank {rank}");
    report.tell(Check::Bounds, at, title, Vec::new(), &["change its range"]);
}

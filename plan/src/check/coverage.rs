//! A13: regions that the plan says are filled by messages and puts, each element once.

use std::collections::HashSet;

use super::instance::Instance;
use super::lengths::Where;
use super::report::Report;
use crate::ir::{Coverage, Location, Plan, StepKind};
use crate::program::{Env, OpKind, Program};
use crate::verdict::{Check, Line, Sizes};

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
                        ("more than one fills", from)
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

/// What is received and put into the buffer of a declared region on a rank: statements and regions of them, and
/// whether the sender computes them.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Parts {
    /// What lies in the region, in this order, and whether it is empty.
    pub(crate) touching: Vec<((Where, bool), bool)>,
    /// What lies elsewhere in the buffer, or in another one of its array.
    pub(crate) elsewhere: Vec<(Where, bool)>,
}

/// What fills a declared region on each rank. Each kind of rank once.
pub(crate) fn parts(
    plan: &Plan,
    program: &Program,
    sizes: &Sizes,
    covered: &Coverage,
) -> Option<HashSet<Parts>> {
    let counters = vec![None; plan.counters.len()];
    let mut touching: Vec<Vec<(u64, u64, (Where, bool))>> = vec![Vec::new(); program.ranks()];
    let mut elsewhere: Vec<Vec<(Where, bool)>> = vec![Vec::new(); program.ranks()];
    let mut wanted = Vec::with_capacity(program.ranks());
    for rank in 0..program.ranks() {
        let env = Env {
            extents: &sizes.extents,
            size: program.ranks() as i64,
            params: &sizes.params,
            counters: &counters,
            rank: rank as i64,
        };
        wanted.push(super::regions::span(program, &env, &covered.region)?);
    }
    let halves: HashSet<u32> =
        program.ops.iter().filter(|op| op.kind == OpKind::Send).map(|op| op.statement).collect();
    let objects = &program.objects.all;
    for unit in &program.units {
        for op in program.ops_of(unit) {
            let (rank, by_sender) = match op.kind {
                OpKind::Receive => (unit.rank, halves.contains(&op.statement)),
                OpKind::Put => (op.peer, true),
                _ => continue,
            };
            let (region, target, rank) = (wanted[rank as usize], op.target, rank as usize);
            let object = objects.get(target.object as usize);
            if object.is_none_or(|object| object.buffer != covered.region.buffer) {
                continue;
            }
            let part = ((op.statement, 1), by_sender);
            // What is empty at its start or end, or within it, may be a part of it.
            let touches = target.overlaps(region)
                || (target.is_empty() && region.start <= target.start && target.end <= region.end);
            if target.object == region.object && touches {
                touching[rank].push((target.start, target.end, part));
            } else {
                elsewhere[rank].push(part);
            }
        }
    }
    let kinds = touching.into_iter().zip(elsewhere).map(|(mut touching, mut elsewhere)| {
        touching.sort_unstable();
        elsewhere.sort_unstable();
        elsewhere.dedup();
        let touching = touching.into_iter().map(|(start, end, part)| (part, start == end));
        Parts { touching: touching.collect(), elsewhere }
    });
    Some(kinds.collect())
}

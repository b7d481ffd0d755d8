//! A15: what is read was written before or came from the caller; outputs are written, inputs are not.

use std::collections::HashMap;

use super::alike;
use super::instance::Instance;
use super::links::Signals;
use super::ranges::Ranges;
use super::report::Report;
use super::shares::Shares;
use crate::ir::{AxisId, Role};
use crate::program::{Kind, NONE, Op, OpKind, Span};
use crate::verdict::Check;

/// Checks every rank, or the first one where it stands for all.
pub(crate) fn check(instance: &Instance<'_>, signals: &Signals, report: &mut Report<'_>) {
    let program = instance.program;
    let symmetric = alike::everywhere(program);
    let objects = &program.objects.all;
    let mut arrivals: HashMap<u32, Vec<Span>> = HashMap::new();
    for arrival in &signals.arrivals {
        if let Some((wait, false)) = arrival.wait {
            arrivals.entry(wait).or_default().push(program.ops[arrival.put_op as usize].target);
        }
    }
    let mut written = vec![false; instance.plan.buffers.len()];
    let mut ranges: HashMap<u32, Ranges> = HashMap::new();
    for rank in 0..if symmetric { 1 } else { program.ranks() } {
        ranges.clear();
        for at in program.of_rank(rank) {
            let unit = &program.units[at];
            let ops = program.ops_of(unit);
            for op in ops.iter().filter(|op| !op.source.is_empty()) {
                let span = op.source;
                // The caller fills the current copy of two: the other is what the run before used.
                let object = &objects[span.object as usize];
                let is_next = object.other_copy < span.object;
                if matches!(object.role, Role::In | Role::InOut) && !is_next {
                    continue;
                }
                let known = ranges.get(&span.object);
                let missing = known.map_or(Some(span.start), |of| of.missing(span.start, span.end));
                if let Some(element) = missing {
                    uninitialised(unit.rank, op, element, report);
                }
            }
            for op in ops {
                in_place(instance, unit.rank, op, report);
                let span = op.target;
                if span.object == NONE {
                    continue;
                }
                let object = &objects[span.object as usize];
                written[object.buffer.index()] |= !span.is_empty();
                if object.role == Role::In
                    && !span.is_empty()
                    && !report.knows(Check::Initialised, op)
                {
                    let title = format!("this writes {}, which is an input", report.name(span));
                    let story = vec![report.line(unit.rank, op, report.does(op))];
                    let help = ["declare the buffer as `inout`, or write another one"];
                    report.tell(
                        Check::Initialised,
                        program.place(op.statement),
                        title,
                        story,
                        &help,
                    );
                }
                if op.kind != OpKind::Put {
                    ranges.entry(span.object).or_default().add(span.start, span.end);
                }
            }
            for span in arrivals.get(&(at as u32)).into_iter().flatten() {
                ranges.entry(span.object).or_default().add(span.start, span.end);
            }
        }
    }
    if symmetric {
        // What runs in place has a place of its own on each rank.
        for rank in 1..program.ranks() {
            for unit in &program.units[program.of_rank(rank)] {
                program
                    .ops_of(unit)
                    .iter()
                    .for_each(|op| in_place(instance, unit.rank, op, report));
            }
        }
    }
    let mut filled = vec![false; instance.plan.buffers.len()];
    for object in objects {
        filled[object.buffer.index()] |= object.len > 0;
    }
    for (at, (buffer, (written, filled))) in
        instance.plan.buffers.iter().zip(written.into_iter().zip(filled)).enumerate()
    {
        if buffer.role == Role::Out && !written && filled {
            let title = format!("output `{}` is never written", buffer.name);
            let empty = program.units.iter().find_map(|unit| {
                let writes = |op: &&Op| {
                    op.target.object != NONE
                        && program.objects.all[op.target.object as usize].buffer.index() == at
                };
                program.ops_of(unit).iter().find(writes).map(|op| (unit.rank, op))
            });
            let mut help = vec!["write it, or remove it".to_owned()];
            let story = empty.map(|(rank, op)| {
                help.splice(0..0, report.even(op.target.object));
                report.line(rank, op, format!("{}, which is empty", report.does(op)))
            });
            let story = story.into_iter().collect();
            report.tell(Check::Initialised, buffer.at, title, story, &help);
        }
    }
}

fn uninitialised(rank: u32, op: &Op, element: u64, report: &mut Report<'_>) {
    if report.knows(Check::Initialised, op) {
        return;
    }
    let name = report.object_name(op.source.object);
    let title =
        format!("this reads element {element} of {name}, which nothing has written in this run");
    let story = vec![report.line(rank, op, report.does(op))];
    let program = report.program;
    let object = &program.objects.all[op.source.object as usize];
    let same = |span: Span| {
        span.object != NONE && program.objects.all[span.object as usize].buffer == object.buffer
    };
    let is_written = program.ops.iter().any(|op| same(op.target));
    let role = if is_written { "inout" } else { "in" };
    let mut help = Vec::new();
    if let Some((step, guard)) = lonely(rank, same, report) {
        help.push(format!(
            "rank {rank} has no rank `{step}` to receive from: guard this with `if {guard}`"
        ));
    }
    let or = if help.is_empty() { "" } else { "or " };
    help.push(format!("{or}let the caller fill it: declare it as `{role}`"));
    help.push("or write it first".to_owned());
    report.tell(Check::Initialised, program.place(op.statement), title, story, &help);
}

/// The neighbour that a rank at an end of an open chain lacks, from which the others receive such memory, and
/// which ranks have it.
fn lonely(rank: u32, same: impl Fn(Span) -> bool, report: &Report<'_>) -> Option<(String, String)> {
    let program = report.program;
    let receives = program.ops.iter().filter(|op| op.kind == OpKind::Receive && same(op.target));
    receives.into_iter().find_map(|op| {
        let shift = program.shifts.get(op.shift as usize)?;
        let &[(axis, by, false)] = shift.hops.as_slice() else { return None };
        let extent = report.sizes().extents[axis as usize];
        let place = program.layout.coordinate(rank as usize, AxisId(axis));
        let own = report.coordinate(axis);
        let name = &report.plan().axes[axis as usize].name;
        let guard = match by {
            -1 => format!("{own} > 0"),
            ..0 => format!("{own} >= {}", -by),
            _ => format!("{own} < {name} - {by}"),
        };
        (!(0..extent).contains(&(place + by))).then(|| (report.peer(op.shift), guard))
    })
}

/// A collective whose regions overlap has its own part at its own place.
fn in_place(instance: &Instance<'_>, rank: u32, op: &Op, report: &mut Report<'_>) {
    let OpKind::Collective(kind) = op.kind else { return };
    let (source, target) = (op.source, op.target);
    if !source.overlaps(target) {
        return;
    }
    let index = instance.program.layout.index(usize::from(op.communicator), rank as usize) as u64;
    let right = match kind {
        Kind::AllReduce(_) | Kind::Broadcast(()) | Kind::Reduce(..) => source == target,
        Kind::AllGather | Kind::Gather(()) => source.start == target.start + index * source.len(),
        Kind::ReduceScatter(_) | Kind::Scatter(()) => {
            target.start == source.start + index * target.len()
        }
        Kind::AllToAll => false,
    };
    if right || report.knows(Check::Initialised, op) {
        return;
    }
    let title = match kind {
        Kind::AllToAll => "an all_to_all does not run in place".to_owned(),
        _ => format!("this {} runs in place, but not at its own place", kind.name()),
    };
    let story =
        vec![report.line(rank, op, format!("{}, of {}", report.does(op), report.name(source)))];
    let rule = "rank r's part begins at r times its length in the whole";
    let help = match (kind, Shares::of(op, report)) {
        (Kind::AllToAll, _) => "use two buffers: it reads one while it fills the other".to_owned(),
        (_, Some(shares)) => format!("{}: {rule}", shares.own_place()),
        (Kind::AllGather | Kind::Gather(()) | Kind::ReduceScatter(_) | Kind::Scatter(()), None) => {
            rule.to_owned()
        }
        (Kind::AllReduce(_) | Kind::Broadcast(()) | Kind::Reduce(..), None) => {
            "send and receive the same region, or two that do not overlap".to_owned()
        }
    };
    report.tell(Check::Initialised, report.program.place(op.statement), title, story, &[&help]);
}

//! A4 and A2 for collectives: all members, one order, one shape.

use super::instance::Instance;
use super::links::Meeting;
use super::parts::Parts;
use super::report::Report;
use crate::program::{Kind, NONE, Op, OpKind, Program, Span};
use crate::verdict::{Check, Line};

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) -> Vec<Meeting> {
    let program = instance.program;
    let mut meetings = Vec::new();
    for communicator in 0..program.communicators {
        let mut calls: Vec<Vec<(u32, u32)>> = vec![Vec::new(); program.ranks()];
        let mut any = false;
        for (at, unit) in (0..).zip(&program.units) {
            for (op_at, op) in (unit.first_op..).zip(program.ops_of(unit)) {
                if matches!(op.kind, OpKind::Collective(_))
                    && usize::from(op.communicator) == communicator
                {
                    calls[unit.rank as usize].push((at, op_at));
                    any = true;
                }
            }
        }
        if any {
            of_communicator(program, communicator, &calls, &mut meetings, report);
        }
    }
    meetings
}

fn of_communicator(
    program: &Program,
    communicator: usize,
    calls: &[Vec<(u32, u32)>],
    meetings: &mut Vec<Meeting>,
    report: &mut Report<'_>,
) {
    let size = program.layout.members(communicator);
    for first in 0..program.ranks() {
        if program.layout.first(communicator, first) != first {
            continue;
        }
        let ranks: Vec<usize> =
            (0..size).map(|index| program.layout.member(communicator, first, index)).collect();
        let most = ranks.iter().map(|&rank| calls[rank].len()).max().unwrap_or(0);
        for turn in 0..most {
            let called = |rank: usize| calls[rank].get(turn).copied();
            let Some(caller) = ranks.iter().copied().find(|&rank| called(rank).is_some()) else {
                break;
            };
            let Some(model) = called(caller) else { break };
            if let Some(&missing) = ranks.iter().find(|&&rank| called(rank).is_none()) {
                absent(program, caller, model, missing, report);
                break;
            }
            let members: Vec<(u32, u32)> = ranks.iter().filter_map(|&rank| called(rank)).collect();
            let ops = members.iter().map(|(_, op)| &program.ops[*op as usize]);
            if !agree(program, &ranks, ops, report) {
                break;
            }
            let op = &program.ops[model.1 as usize];
            let OpKind::Collective(kind) = op.kind else { break };
            let root = (op.peer != NONE)
                .then(|| program.layout.index(communicator, op.peer as usize) as u32);
            meetings.push(Meeting { kind, members, root });
        }
    }
}

fn absent(
    program: &Program,
    caller: usize,
    (_, op): (u32, u32),
    missing: usize,
    report: &mut Report<'_>,
) {
    let op = &program.ops[op as usize];
    let OpKind::Collective(kind) = op.kind else { return };
    let at = program.place(op.statement);
    let story = vec![
        report.line(caller as u32, op, report.does(op)),
        Line {
            rank: Some(missing),
            other: Some(caller),
            at,
            text: match op.communicator {
                0 => "never runs it".to_owned(),
                node => {
                    format!("is a member of {} and never runs it", report.communicator_name(node))
                }
            },
        },
    ];
    let title = format!("not all {} run this {}", report.members(op), kind.name());
    let help = [
        "remove the condition, or make one that holds for all members or for none",
        "or use a communicator of those ranks alone",
    ];
    report.tell(Check::CollectiveOrder, at, title, story, &help);
}

/// The length of one rank's part, as far as this rank knows it, or why its two regions do not fit.
fn count(kind: Kind, op: &Op, size: u64, is_root: bool) -> Result<u64, String> {
    let (sent, received) = (op.source.len(), op.target.len());
    let parts = |whole: u64, part: u64, verb: &str| {
        if part.checked_mul(size) == Some(whole) {
            Ok(part)
        } else {
            Err(format!("{verb}: {size} parts of {part} are not {whole}"))
        }
    };
    match kind {
        Kind::AllReduce(_) if sent == received => Ok(sent),
        Kind::AllReduce(_) => Err(format!("it sends {sent} and receives {received}")),
        Kind::Broadcast if is_root && sent != received => {
            Err(format!("the root sends {sent} and receives {received}"))
        }
        Kind::Broadcast => Ok(received),
        Kind::Reduce(_) if is_root && sent != received => {
            Err(format!("the root sends {sent} and receives {received}"))
        }
        Kind::Reduce(_) => Ok(sent),
        Kind::AllGather => parts(received, sent, "what it receives does not fit"),
        Kind::ReduceScatter(_) => parts(sent, received, "what it sends does not fit"),
        Kind::AllToAll if sent != received => {
            Err(format!("it sends {sent} and receives {received}"))
        }
        Kind::AllToAll if sent % size != 0 => {
            let (s, do_not) = if sent == 1 { ("", "does not") } else { ("s", "do not") };
            Err(format!("{sent} element{s} {do_not} fall into {size} parts"))
        }
        Kind::AllToAll => Ok(sent / size),
        Kind::Gather if is_root => parts(received, sent, "what the root receives does not fit"),
        Kind::Gather => Ok(sent),
        Kind::Scatter if is_root => parts(sent, received, "what the root sends does not fit"),
        Kind::Scatter => Ok(received),
    }
}

/// How many elements the whole must have of which the other region is a part, and where it is.
fn needs(kind: Kind, op: &Op, size: u64) -> Option<(u64, Span)> {
    let (part, whole) = match kind {
        Kind::AllGather | Kind::Gather => (op.source, op.target),
        Kind::ReduceScatter(_) | Kind::Scatter => (op.target, op.source),
        Kind::AllReduce(_) | Kind::Broadcast | Kind::Reduce(_) | Kind::AllToAll => return None,
    };
    Some((part.len().checked_mul(size)?, whole))
}

fn agree<'a>(
    program: &Program,
    ranks: &[usize],
    ops: impl Iterator<Item = &'a Op>,
    report: &mut Report<'_>,
) -> bool {
    let size = ranks.len() as u64;
    let mut model: Option<(u32, &Op, Result<u64, String>)> = None;
    for (&rank, op) in ranks.iter().zip(ops) {
        let OpKind::Collective(kind) = op.kind else { continue };
        let own = count(kind, op, size, op.peer == rank as u32);
        let rank = rank as u32;
        if let Err(why) = &own {
            let title = match needs(kind, op, size) {
                Some((needed, span)) => format!(
                    "this {} needs {needed} element{} in {}, which has {}",
                    kind.name(),
                    if needed == 1 { "" } else { "s" },
                    report.name(span),
                    span.len()
                ),
                None => format!("the regions of this {} do not fit: {why}", kind.name()),
            };
            let story = vec![report.line(rank, op, report.does(op))];
            let help = match kind {
                Kind::AllToAll => report.even(op.source.object),
                _ => Parts::of(op, report).and_then(|parts| parts.lengths()),
            };
            let help = help.unwrap_or_else(|| {
                "a part has one length on every rank: the whole is the size times the part".into()
            });
            report.tell(Check::Agreement, program.place(op.statement), title, story, &[&help]);
            return false;
        }
        let elements = elements_of(program, op);
        if elements.0 != elements.1 {
            let title =
                format!("this {} sends {} and receives {}", kind.name(), elements.0, elements.1);
            let story = vec![report.line(rank, op, report.does(op))];
            report.tell(
                Check::Agreement,
                program.place(op.statement),
                title,
                story,
                &["use one type"],
            );
            return false;
        }
        let Some((first, other, count)) = &model else {
            model = Some((rank, op, own));
            continue;
        };
        let told = |op: &Op, count: &Result<u64, String>, report: &Report<'_>| {
            let count = count.as_ref().map_or(0, |count| *count);
            let root = if op.peer == NONE { String::new() } else { format!(", root {}", op.peer) };
            let by = match op.kind {
                OpKind::Collective(kind) => {
                    kind.reduction().map_or_else(String::new, |by| format!(", {by}"))
                }
                _ => String::new(),
            };
            format!("{}: {count} {}{by}{root}", report.does(op), elements_of(program, op).0)
        };
        let OpKind::Collective(theirs) = other.kind else { continue };
        if kind.name() != theirs.name() {
            let story = vec![
                report.line(*first, other, report.does(other)),
                report.line(rank, op, report.does(op)),
            ];
            let title = "members of one communicator run different collectives at the same time";
            let help = ["run them in the same order on every member"];
            let at = program.place(op.statement);
            report.tell(Check::CollectiveOrder, at, title, story, &help);
            return false;
        }
        if kind != theirs
            || own != *count
            || op.peer != other.peer
            || elements != elements_of(program, other)
        {
            let story = vec![
                report.line(*first, other, told(other, count, report)),
                report.line(rank, op, told(op, &own, report)),
            ];
            let title = format!("the {} disagree about this {}", report.members(op), kind.name());
            let help = if kind != theirs {
                "use one reduction on every member".to_owned()
            } else if op.peer != other.peer && !runs_too(program, (rank, op), other) {
                let root = program.layout.index(usize::from(op.communicator), other.peer as usize);
                let line = program.place(op.statement).line;
                format!("name one root on every rank, such as `root = {root}` in line {line}")
            } else if op.statement == other.statement {
                "the length of a collective must be the same on every rank".to_owned()
            } else {
                "run the collectives in the same order on every member".to_owned()
            };
            let help = [help.as_str()];
            report.tell(Check::Agreement, program.place(op.statement), title, story, &help);
            return false;
        }
    }
    true
}

/// Whether a rank runs, besides this collective, the one that another rank runs in its place.
fn runs_too(program: &Program, (rank, op): (u32, &Op), other: &Op) -> bool {
    let own = &program.units[program.of_rank(rank as usize)];
    own.iter().flat_map(|unit| program.ops_of(unit)).any(|one| {
        one.statement != op.statement
            && (one.kind, one.communicator, one.peer)
                == (other.kind, other.communicator, other.peer)
    })
}

fn elements_of<'a>(
    program: &'a Program,
    op: &Op,
) -> (&'a crate::ir::ElementType, &'a crate::ir::ElementType) {
    let of = |object| program.objects.element(object);
    match (op.source.object, op.target.object) {
        (NONE, target) => (of(target), of(target)),
        (source, NONE) => (of(source), of(source)),
        (source, target) => (of(source), of(target)),
    }
}

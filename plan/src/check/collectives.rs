//! A4 and A2 for collectives: all members, one order, one shape.

use super::instance::Instance;
use super::links::Meeting;
use super::report::Report;
use super::shares::Shares;
use crate::ir::ElementType;
use crate::program::{Kind, NONE, Op, OpKind, Program, Span};
use crate::verdict::{Check, Line};

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) -> Vec<Meeting> {
    let program = instance.program;
    let mut meetings = Vec::new();
    for communicator in 0..program.communicators {
        let mut calls: Vec<Vec<u32>> = vec![Vec::new(); program.ranks()];
        let mut any = false;
        for (at, op) in (0..).zip(&program.ops) {
            if matches!(op.kind, OpKind::Collective(_))
                && usize::from(op.communicator) == communicator
            {
                calls[program.rank(op) as usize].push(at);
                any = true;
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
    calls: &[Vec<u32>],
    meetings: &mut Vec<Meeting>,
    report: &mut Report<'_>,
) {
    for first in 0..program.ranks() {
        if program.layout.first(communicator, first) != first {
            continue;
        }
        let ranks: Vec<usize> = program.layout.together(communicator, first).collect();
        let most = ranks.iter().map(|&rank| calls[rank].len()).max().unwrap_or(0);
        for turn in 0..most {
            let called = |rank: usize| calls[rank].get(turn).copied();
            let members: Vec<u32> = ranks.iter().filter_map(|&rank| called(rank)).collect();
            let Some(&first) = members.first() else { break };
            let op = &program.ops[first as usize];
            if let Some(&missing) = ranks.iter().find(|&&rank| called(rank).is_none()) {
                absent(op, missing, report);
                break;
            }
            if !agree(&members, report) {
                break;
            }
            let OpKind::Collective(kind) = op.kind else { break };
            let root = (op.peer != NONE)
                .then(|| program.layout.index(communicator, op.peer as usize) as u32);
            meetings.push(Meeting { kind, members, root });
        }
    }
}

fn absent(op: &Op, missing: usize, report: &mut Report<'_>) {
    let OpKind::Collective(kind) = op.kind else { return };
    let program = report.program;
    let at = program.place(op.statement);
    let text = match op.communicator {
        0 => "never runs it".to_owned(),
        node => format!("is a member of {} and never runs it", report.communicator_name(node)),
    };
    let other = Some(program.rank(op) as usize);
    let story = vec![report.says(op), Line { other, ..Line::of(missing, at, text) }];
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
    let parts = |whole: u64, part: u64, verb: String| {
        if part.checked_mul(size) == Some(whole) {
            Ok(part)
        } else {
            Err(format!("{verb}: {size} parts of {part} are not {whole}"))
        }
    };
    let spec = kind.spec();
    let who = if spec.has_root() { "the root" } else { "it" };
    match spec.wholes() {
        _ if !spec.send.is_on(is_root) => Ok(received),
        _ if !spec.recv.is_on(is_root) => Ok(sent),
        (false, true) => parts(received, sent, format!("what {who} receives does not fit")),
        (true, false) => parts(sent, received, format!("what {who} sends does not fit")),
        _ if sent != received => Err(format!("{who} sends {sent} and receives {received}")),
        (false, false) => Ok(sent),
        (true, true) if sent % size != 0 => {
            let (s, do_not) = if sent == 1 { ("", "does not") } else { ("s", "do not") };
            Err(format!("{sent} element{s} {do_not} fall into {size} parts"))
        }
        (true, true) => Ok(sent / size),
    }
}

/// How many elements the whole must have of which the other region is a part, and where it is.
fn needs(kind: Kind, op: &Op, size: u64) -> Option<(u64, Span)> {
    let (part, whole) = match kind.spec().wholes() {
        (false, true) => (op.source, op.target),
        (true, false) => (op.target, op.source),
        _ => return None,
    };
    Some((part.len().checked_mul(size)?, whole))
}

/// Whether the members give and take alike.
fn agree(members: &[u32], report: &mut Report<'_>) -> bool {
    let program = report.program;
    let mut first: Option<Own<'_>> = None;
    for op in members.iter().map(|&op| &program.ops[op as usize]) {
        let OpKind::Collective(kind) = op.kind else { continue };
        let size = members.len() as u64;
        let Some(own) = own(op, kind, size, report) else { return false };
        match &first {
            None => first = Some(own),
            Some(first) if !own.is_like(first) => {
                differ(program, first, &own, report);
                return false;
            }
            Some(_) => {}
        }
    }
    true
}

/// A member's call, whose own regions fit each other.
struct Own<'a> {
    op: &'a Op,
    kind: Kind,
    /// The length of one rank's part.
    count: u64,
    element: &'a ElementType,
}

impl Own<'_> {
    fn is_like(&self, other: &Own<'_>) -> bool {
        (self.kind, self.count, self.op.peer, self.element)
            == (other.kind, other.count, other.op.peer, other.element)
    }

    fn line(&self, report: &Report<'_>) -> Line {
        let Self { op, kind, count, element } = self;
        let root = if op.peer == NONE { String::new() } else { format!(", root {}", op.peer) };
        let by = kind.reduction().map_or_else(String::new, |by| format!(", {by}"));
        report.line(op, format!("{}: {count} {element}{by}{root}", report.does(op)))
    }
}

/// A member's call; told if its regions do not fit each other.
fn own<'a>(op: &'a Op, kind: Kind, size: u64, report: &mut Report<'a>) -> Option<Own<'a>> {
    let program = report.program;
    let (title, help) = match count(kind, op, size, op.peer == program.rank(op)) {
        Err(why) => {
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
            let help = match kind.spec().wholes() {
                (true, true) => report.even(op.source.object),
                _ => Shares::of(op, report).and_then(|shares| shares.lengths()),
            };
            let help = help.unwrap_or_else(|| {
                "a part has one length on every rank: the whole is the size times the part".into()
            });
            (title, help)
        }
        Ok(count) => {
            let (element, received) = elements_of(program, op);
            if element == received {
                return Some(Own { op, kind, count, element });
            }
            let title = format!("this {} sends {element} and receives {received}", kind.name());
            (title, "use one type".to_owned())
        }
    };
    let story = vec![report.says(op)];
    report.tell(Check::Agreement, program.place(op.statement), title, story, [help]);
    None
}

/// Tells of two members that call differently.
fn differ(program: &Program, first: &Own<'_>, own: &Own<'_>, report: &mut Report<'_>) {
    let (op, other) = (own.op, first.op);
    let at = program.place(op.statement);
    if own.kind.name() != first.kind.name() {
        let story = vec![report.says(other), report.says(op)];
        let title = "members of one communicator run different collectives at the same time";
        let help = ["run them in the same order on every member"];
        return report.tell(Check::CollectiveOrder, at, title, story, help);
    }
    let story = vec![first.line(report), own.line(report)];
    let title = format!("the {} disagree about this {}", report.members(op), own.kind.name());
    let help = if own.kind != first.kind {
        "use one reduction on every member".to_owned()
    } else if op.peer != other.peer && !runs_too(program, op, other) {
        let root = program.layout.index(usize::from(op.communicator), other.peer as usize);
        format!("name one root on every rank, such as `root = {root}` in line {}", at.line)
    } else if op.statement == other.statement {
        "the length of a collective must be the same on every rank".to_owned()
    } else {
        "run the collectives in the same order on every member".to_owned()
    };
    report.tell(Check::Agreement, at, title, story, [help]);
}

/// Whether a rank runs, besides this collective, the one that another rank runs in its place.
fn runs_too(program: &Program, op: &Op, other: &Op) -> bool {
    let own = &program.units[program.of_rank(program.rank(op) as usize)];
    own.iter().flat_map(|unit| program.ops_of(unit)).any(|one| {
        one.statement != op.statement
            && (one.kind, one.communicator, one.peer)
                == (other.kind, other.communicator, other.peer)
    })
}

fn elements_of<'a>(program: &'a Program, op: &Op) -> (&'a ElementType, &'a ElementType) {
    let of = |object| program.objects.element(object);
    match (op.source.object, op.target.object) {
        (NONE, target) => (of(target), of(target)),
        (source, NONE) => (of(source), of(source)),
        (source, target) => (of(source), of(target)),
    }
}

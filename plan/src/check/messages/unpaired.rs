//! A1: halves of messages that have no other half.

use std::collections::HashMap;

use super::super::report::Report;
use super::super::written::OpenEnd;
use super::Half;
use crate::program::{Op, OpKind, Program};
use crate::verdict::{Check, Line};

/// The first half between two ranks that is left over, and how many there are of each.
pub(super) struct Unpaired {
    half: Half,
    sends: usize,
    receives: usize,
}

/// Communicator, and how far away the other half is looked for.
type Distance = (u16, Vec<(u32, i64, Option<String>)>);

impl Unpaired {
    pub(super) fn new(sends: &[Half], receives: &[Half], matched: usize) -> Self {
        let half = sends.get(matched).copied().unwrap_or_else(|| receives[matched]);
        Self { half, sends: sends.len(), receives: receives.len() }
    }

    fn op<'p>(&self, program: &'p Program) -> &'p Op {
        &program.ops[self.half.1 as usize]
    }

    fn rank(&self, program: &Program) -> u32 {
        program.rank(self.op(program))
    }
}

/// Tells of all of them. What is sent to one side and received from the same side is one mistake.
pub(super) fn tell(alone: &[Unpaired], report: &mut Report<'_>) {
    let program = report.program;
    let mut receives: HashMap<Distance, Vec<&Unpaired>> = HashMap::new();
    for one in alone.iter().filter(|one| one.op(program).kind == OpKind::Receive) {
        if let Some(distance) = distance(program, one.op(program)) {
            receives.entry(distance).or_default().push(one);
        }
    }
    for one in alone {
        let op = one.op(program);
        if report.knows(Check::Matching, op) {
            continue;
        }
        let sides = distance(program, op).and_then(|distance| receives.get(&distance));
        let sides = sides.filter(|_| op.kind == OpKind::Send && report.open_end(op).is_none());
        let alike = |other: &&&Unpaired| is_alike(program, op, other.op(program));
        let same_side = sides.and_then(|sides| {
            let on_it = |other: &&&Unpaired| other.rank(program) == op.peer;
            let mut fitting = sides.iter().filter(alike);
            fitting.clone().find(on_it).or_else(|| fitting.next())
        });
        match same_side {
            Some(other) => one_side(one, other, report),
            None => half(one, report),
        }
    }
}

fn distance(program: &Program, op: &Op) -> Option<Distance> {
    let hops = &program.shift(op)?.hops;
    Some((
        op.communicator,
        hops.iter().map(|hop| (hop.axis, hop.by, hop.written.clone())).collect(),
    ))
}

/// Whether a send and a receive could be halves of one message.
fn is_alike(program: &Program, send: &Op, receive: &Op) -> bool {
    let (source, target) = (send.source, receive.target);
    source.len() == target.len()
        && program.objects.element(source.object) == program.objects.element(target.object)
}

/// A message that is sent to one side, and received from the same side.
fn one_side(send: &Unpaired, receive: &Unpaired, report: &mut Report<'_>) {
    let program = report.program;
    let (sends, receives) = (send.op(program), receive.op(program));
    let (at, other) = (program.place(sends.statement), program.place(receives.statement));
    let story = vec![report.says(sends), report.says(receives)];
    let title = format!(
        "this message is never received, and the one that line {} receives is never sent",
        other.line
    );
    let back = |op: &Op| report.peer(program.shifts[op.shift as usize].back);
    let help = [
        format!(
            "receive it from `{}` in line {}{}",
            back(sends),
            other.line,
            report.of_list(receives.statement)
        ),
        format!(
            "or send it to `{}` in line {}{}",
            back(receives),
            at.line,
            report.of_list(sends.statement)
        ),
    ];
    report.tell(Check::Matching, at, title, story, &help);
    report.is_told(Check::Matching, other);
}

/// A half whose other half is nowhere.
fn half(one: &Unpaired, report: &mut Report<'_>) {
    let program = report.program;
    let (op, rank) = (one.op(program), one.rank(program));
    let is_send = op.kind == OpKind::Send;
    let (title, wants) = match is_send {
        true => ("this message is never received", "receive"),
        false => ("this message is never sent", "send"),
    };
    let (sender, receiver) = if is_send { (rank, op.peer) } else { (op.peer, rank) };
    let mut story = vec![report.says(op)];
    let text = format!(
        "has no {wants} left for it: from rank {sender} to rank {receiver} there {} {}, {}",
        if one.sends > 1 { "are" } else { "is" },
        count(one.sends, "send"),
        count(one.receives, "receive"),
    );
    let line = Line::of(op.peer as usize, program.place(op.statement), text);
    story.push(Line { other: Some(rank as usize), ..line });
    let help = match report.open_end(op) {
        Some(open) => {
            let text = format!("on rank {}, `{}` is not a rank", op.peer, open.written);
            story.push(Line { rank: None, other: None, at: open.at, text });
            closed(op, &open, report)
        }
        None => added(one, wants, report),
    };
    report.tell(Check::Matching, program.place(op.statement), title, story, &help);
}

/// Help with a half around a ring whose other half goes along an open chain.
fn closed(op: &Op, open: &OpenEnd, report: &Report<'_>) -> Vec<String> {
    let program = report.program;
    let at = program.place(op.statement);
    let chain = report.open_peer(op.shift);
    let mut help = vec![format!("write `{chain}` in line {} for an open chain", at.line)];
    if let Some(own) = report.region(op)
        && report.are_together(at, open.at)
    {
        let both = at_once(op, &own, Some(&open.region), report);
        let (first, second) = (at.line.min(open.at.line), at.line.max(open.at.line));
        help.push(format!("or for a ring, write lines {first} and {second} as one: {both}"));
    }
    help
}

/// What adds the half that is missing.
fn added(one: &Unpaired, wants: &str, report: &Report<'_>) -> Vec<String> {
    let program = report.program;
    let op = one.op(program);
    let elsewhere = other_half(program, op);
    let other = elsewhere.and_then(|other| report.region(other));
    let stepped = program.shifts.len() > op.shift as usize;
    let both = report
        .region(op)
        .filter(|_| stepped)
        .map(|own| at_once(op, &own, other.as_deref(), report));
    let back = report.back(op);
    match (elsewhere, back, both) {
        (Some(other), back, both) => {
            let line = program.place(other.statement).line;
            let mut help = vec![match back {
                Some(back) if !is_missing(one) => {
                    let side = if op.kind == OpKind::Send { "from" } else { "to" };
                    format!("add the {wants}, {side} `{back}`{}", report.of_list(op.statement))
                }
                _ => format!("let rank {} {wants} too, as in line {line}", op.peer),
            }];
            help.extend(both.map(|both| format!("or write both ends at once: {both}")));
            help
        }
        (None, Some(_), Some(both)) => {
            let which = if op.kind == OpKind::Send { "receives it" } else { "is sent" };
            vec![format!("write both ends at once: {both}, with the memory that {which}")]
        }
        _ => vec![format!("add the {wants} on rank {}", op.peer)],
    }
}

/// A message with both ends, of an operation that is one of them: `own` is its memory.
fn at_once(op: &Op, own: &str, other: Option<&str>, report: &Report<'_>) -> String {
    // What stands in backticks has none inside.
    let (own, other) = (own.trim_matches('`'), other.unwrap_or("..").trim_matches('`'));
    match op.kind {
        OpKind::Send => format!("`send {own} to {} into {other};`", report.peer(op.shift)),
        _ => format!("`send {other} to {} into {own};`", report.back(op).unwrap_or_default()),
    }
}

/// Whether nothing at all comes from the other end.
fn is_missing(one: &Unpaired) -> bool {
    one.sends.min(one.receives) == 0
}

/// A half between other ranks that would fit this one: the same distance, the same elements.
fn other_half<'p>(program: &'p Program, op: &Op) -> Option<&'p Op> {
    let back = &program.way_back(op)?.hops;
    program.ops.iter().find(|other| {
        let fits = match (op.kind, other.kind) {
            (OpKind::Send, OpKind::Receive) => is_alike(program, op, other),
            (OpKind::Receive, OpKind::Send) => is_alike(program, other, op),
            _ => false,
        };
        let comes_back = program.shift(other).is_some_and(|shift| shift.hops == *back);
        fits && other.communicator == op.communicator && comes_back
    })
}

/// So many, for people: `1 send`, `no receive`.
fn count(many: usize, what: &str) -> String {
    match many {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

//! A1, A2, A3 and the grouping of A8 for messages: both halves, alike, grouped alike.

mod agreement;
mod groups;
mod unpaired;

use typed_nccl_match::channels;

use super::instance::Instance;
use super::links::Message;
use super::report::Report;
use crate::program::{NONE, OpKind, Program};
use crate::verdict::Check;

/// One half: communicator, sender, receiver in one key; the operation.
type Half = (u64, u32);

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) -> Vec<Message> {
    let (mut sends, mut receives) = halves(instance.program);
    // Within a key the order of issue is the order of the operations.
    sends.sort_unstable();
    receives.sort_unstable();
    let mut messages = Vec::with_capacity(sends.len());
    let mut alone = Vec::new();
    for (sends, receives) in channels(&sends, &receives) {
        let first = messages.len();
        let pairs = sends.iter().zip(receives);
        messages.extend(pairs.map(|(send, receive)| Message { send: send.1, receive: receive.1 }));
        if sends.len() != receives.len() {
            alone.push(unpaired::Unpaired::new(sends, receives, messages.len() - first));
        } else {
            directions(&messages[first..], report);
        }
    }
    unpaired::tell(&alone, report);
    for message in &messages {
        agreement::check(instance.program, message, report);
    }
    if !report.is_unmatched() {
        groups::check(instance.program, &messages, report);
    }
    messages
}

fn halves(program: &Program) -> (Vec<Half>, Vec<Half>) {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (at, op) in (0..).zip(&program.ops) {
        let key = |from: u32, to: u32| {
            u64::from(op.communicator) << 48 | u64::from(from) << 24 | u64::from(to)
        };
        match op.kind {
            OpKind::Send => sends.push((key(program.rank(op), op.peer), at)),
            OpKind::Receive => receives.push((key(op.peer, program.rank(op)), at)),
            _ => {}
        }
    }
    (sends, receives)
}

/// If several distances lead to one rank, messages match in the order of the calls. Each must be
/// received from the direction in which it was sent.
fn directions(messages: &[Message], report: &mut Report<'_>) {
    let program = report.program;
    let shift = |op: u32| program.ops[op as usize].shift;
    let several = |of: fn(&Message) -> u32| {
        let mut distances = messages.iter().map(|message| shift(of(message)));
        let first = distances.find(|&distance| distance != NONE);
        first.is_some_and(|first| {
            distances.any(|distance| distance != NONE && !same(program, first, distance))
        })
    };
    if messages.is_empty() || !(several(|of| of.send) || several(|of| of.receive)) {
        return;
    }
    for message in messages {
        let (send, receive) = message.ops(program);
        let (sent, received) = (send.shift, receive.shift);
        if sent == NONE
            || received == NONE
            || same(program, program.shifts[sent as usize].back, received)
        {
            continue;
        }
        let story = vec![
            report.line(send, format!("{}, its neighbour at {}", report.does(send), distance(program, sent))),
            report.line(receive,
                format!(
                    "{}, its neighbour at {}, and gets that message: NCCL has no tags, messages between \
                     two ranks match in order",
                    report.does(receive),
                    distance(program, received)
                ),
            ),
        ];
        let title = format!(
            "the neighbours at {} and at {} are the same rank, and take each other's messages",
            distance(program, sent),
            distance(program, program.shifts[received as usize].back)
        );
        let bound = apart(program, messages).map(|bound| {
            let axis = report.axis_name(sent);
            format!("declare the plan for more ranks: `where {axis} >= {bound}`")
        });
        let or = if bound.is_some() { "or " } else { "" };
        let steps = format!("{or}put the two directions in two steps");
        let help: Vec<String> = bound.into_iter().chain([steps]).collect();
        return report.tell(Check::Matching, program.place(send.statement), title, story, &help);
    }
}

/// Whether two distances are as far, around a ring or not.
fn same(program: &Program, a: u32, b: u32) -> bool {
    let (a, b) = (&program.shifts[a as usize].hops, &program.shifts[b as usize].hops);
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| (a.axis, a.by, &a.written) == (b.axis, b.by, &b.written))
}

/// A distance for people: `+1`, or as it is written.
fn distance(program: &Program, shift: u32) -> String {
    let hops = program.shifts[shift as usize].hops.iter().map(|hop| match &hop.written {
        Some(written) => format!("`{written}`"),
        None => format!("{:+}", hop.by),
    });
    let hops: Vec<String> = hops.collect();
    if hops.is_empty() { "`rank`".to_owned() } else { hops.join(", ") }
}

/// The least number of ranks at which the distances of these messages lead to different ranks, if
/// all distances are numbers.
fn apart(program: &Program, messages: &[Message]) -> Option<i64> {
    let shifts = messages.iter().map(|message| message.ops(program).0.shift);
    let by: Option<Vec<i64>> = shifts
        .filter(|shift| *shift != NONE)
        .flat_map(|shift| &program.shifts[shift as usize].hops)
        .map(|hop| hop.written.is_none().then_some(hop.by))
        .collect();
    let by = by?;
    let (least, most) = (by.iter().min()?, by.iter().max()?);
    Some(most.saturating_sub(*least).saturating_add(1))
}

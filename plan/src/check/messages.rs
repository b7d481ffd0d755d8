//! A1, A2, A3 and the grouping of A8 for messages: both halves, alike, grouped alike.

use super::instance::Instance;
use super::links::Message;
use super::report::Report;
use crate::program::{NONE, OpKind, Program};
use crate::verdict::{Check, Line};

/// One half: communicator, sender, receiver in one key; unit; operation.
type Half = (u64, u32, u32);

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) -> Vec<Message> {
    let (mut sends, mut receives) = halves(instance.program);
    // Within a key the order of issue is the order of the operations.
    sends.sort_unstable();
    receives.sort_unstable();
    let mut messages = Vec::with_capacity(sends.len());
    let (mut s, mut r) = (0, 0);
    while s < sends.len() || r < receives.len() {
        let key = match (sends.get(s), receives.get(r)) {
            (Some(send), Some(receive)) => send.0.min(receive.0),
            (Some(half), None) | (None, Some(half)) => half.0,
            (None, None) => break,
        };
        let s_end = s + sends[s..].iter().take_while(|half| half.0 == key).count();
        let r_end = r + receives[r..].iter().take_while(|half| half.0 == key).count();
        let first = messages.len();
        messages.extend(sends[s..s_end].iter().zip(&receives[r..r_end]).map(|(send, receive)| {
            Message {
                send_unit: send.1,
                send_op: send.2,
                receive_unit: receive.1,
                receive_op: receive.2,
            }
        }));
        let matched = messages.len() - first;
        if s_end - s != r_end - r {
            unpaired(&sends[s..s_end], &receives[r..r_end], matched, report);
        } else {
            directions(&messages[first..], report);
        }
        (s, r) = (s_end, r_end);
    }
    for message in &messages {
        agreement(instance.program, message, report);
    }
    if !report.is_unmatched() {
        groups(instance.program, &messages, report);
    }
    messages
}

fn halves(program: &Program) -> (Vec<Half>, Vec<Half>) {
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (at, unit) in (0..).zip(&program.units) {
        for (op_at, op) in (unit.first_op..).zip(program.ops_of(unit)) {
            let key = |from: u32, to: u32| {
                u64::from(op.communicator) << 48 | u64::from(from) << 24 | u64::from(to)
            };
            match op.kind {
                OpKind::Send => sends.push((key(unit.rank, op.peer), at, op_at)),
                OpKind::Receive => receives.push((key(op.peer, unit.rank), at, op_at)),
                _ => {}
            }
        }
    }
    (sends, receives)
}

fn unpaired(sends: &[Half], receives: &[Half], matched: usize, report: &mut Report<'_>) {
    let program = report.program;
    let (half, title, wants) = match sends.get(matched) {
        Some(half) => (half, "this message is never received", "receive"),
        None => (&receives[matched], "this message is never sent", "send"),
    };
    let op = &program.ops[half.2 as usize];
    if report.knows(Check::Matching, op) {
        return;
    }
    let rank = program.units[half.1 as usize].rank;
    let mut story = vec![report.line(rank, op, report.does(op))];
    let (from, to) = (sends.len(), receives.len());
    let sender = if wants == "receive" { rank } else { op.peer };
    let receiver = if wants == "receive" { op.peer } else { rank };
    story.push(Line {
        rank: Some(op.peer as usize),
        other: Some(rank as usize),
        at: program.place(op.statement),
        text: format!(
            "has no {wants} left for it: from rank {sender} to rank {receiver} there {} {}, {}",
            if from == 1 { "is" } else { "are" },
            count(from, "send"),
            count(to, "receive"),
        ),
    });
    let open = report.open_end(op);
    let mut help = Vec::new();
    if let Some((at, written, closed)) = open {
        story.push(Line {
            rank: None,
            other: None,
            at,
            text: format!("on rank {}, `{written}` is no rank", op.peer),
        });
        help.push(format!("write `{closed}` in line {} to close the ring", at.line));
    }
    help.push(format!("{}add the {wants}", if help.is_empty() { "" } else { "or " }));
    help.push(match wants {
        "receive" => format!(
            "or write both ends at once: `send {} to .. into b;`",
            report.buffer_name(op.source.object)
        ),
        _ => format!(
            "or write both ends at once: `send a to .. into {};`",
            report.buffer_name(op.target.object)
        ),
    });
    let help: Vec<&str> = help.iter().map(String::as_str).collect();
    report.tell(Check::Matching, program.place(op.statement), title, story, &help);
}

/// So many, for people: `1 send`, `no receive`.
fn count(many: usize, what: &str) -> String {
    match many {
        0 => format!("no {what}"),
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}

/// Where several distances lead to one rank, the messages match in the order of the calls: each must be
/// received as what it was sent.
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
    if messages.is_empty() || !(several(|of| of.send_op) || several(|of| of.receive_op)) {
        return;
    }
    for message in messages {
        let (sent, received) = (shift(message.send_op), shift(message.receive_op));
        if sent == NONE
            || received == NONE
            || same(program, program.shifts[sent as usize].back, received)
        {
            continue;
        }
        let (send, receive) =
            (&program.ops[message.send_op as usize], &program.ops[message.receive_op as usize]);
        let (from, to) = (
            program.units[message.send_unit as usize].rank,
            program.units[message.receive_unit as usize].rank,
        );
        let story = vec![
            report.line(from, send, format!("{}, its neighbour at {}", report.does(send), distance(program, sent))),
            report.line(
                to,
                receive,
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
        let bound = apart(program, messages);
        let help = [
            format!(
                "declare the plan for more ranks: `where {} >= {bound}`",
                report.axis_name(sent)
            ),
            "or put the two directions in two steps".to_owned(),
        ];
        let help: Vec<&str> = help.iter().map(String::as_str).collect();
        return report.tell(Check::Matching, program.place(send.statement), title, story, &help);
    }
}

/// Whether two distances are as far, around a ring or not.
fn same(program: &Program, a: u32, b: u32) -> bool {
    let (a, b) = (&program.shifts[a as usize].hops, &program.shifts[b as usize].hops);
    a.len() == b.len()
        && a.iter().zip(b).all(|((axis, by, _), (other, far, _))| (axis, by) == (other, far))
}

/// A distance for people: `+1`.
fn distance(program: &Program, shift: u32) -> String {
    let hops = program.shifts[shift as usize].hops.iter();
    hops.map(|(_, by, _)| format!("{by:+}")).collect::<Vec<_>>().join(", ")
}

/// From how many ranks on the distances of these messages lead to different ranks.
fn apart(program: &Program, messages: &[Message]) -> i64 {
    let shifts = messages.iter().map(|message| program.ops[message.send_op as usize].shift);
    let by: Vec<i64> = shifts
        .filter(|shift| *shift != NONE)
        .flat_map(|shift| program.shifts[shift as usize].hops.iter().map(|(_, by, _)| *by))
        .collect();
    let (least, most) = (by.iter().min().copied(), by.iter().max().copied());
    most.zip(least).map_or(0, |(most, least)| most.saturating_sub(least).saturating_add(1))
}

fn agreement(program: &Program, message: &Message, report: &mut Report<'_>) {
    let (send, receive) =
        (&program.ops[message.send_op as usize], &program.ops[message.receive_op as usize]);
    let (from, to) = (
        program.units[message.send_unit as usize].rank,
        program.units[message.receive_unit as usize].rank,
    );
    let elements = (
        program.objects.element(send.source.object),
        program.objects.element(receive.target.object),
    );
    let lens = (send.source.len(), receive.target.len());
    let is_self = from == to;
    if elements.0 == elements.1 && lens.0 == lens.1 {
        if is_self && message.send_unit != message.receive_unit {
            let story = vec![
                report.line(from, send, report.does(send)),
                report.line(to, receive, format!("later {}", report.does(receive))),
            ];
            let title = "a rank sends to itself, and receives in another group";
            let help = ["put both halves in one group: alone, the first waits for the second"];
            let at = program.place(send.statement);
            report.tell(Check::SelfMessages, at, title, story, &help);
        }
        return;
    }
    let what = |element: &crate::ir::ElementType, len| format!("{len} {element}");
    let story = vec![
        report.line(from, send, format!("{}: {}", report.does(send), what(elements.0, lens.0))),
        report.line(to, receive, format!("{}: {}", report.does(receive), what(elements.1, lens.1))),
    ];
    let title = format!(
        "{} and {} of one message differ: {} and {}",
        report.name(send.source),
        report.name(receive.target),
        what(elements.0, lens.0),
        what(elements.1, lens.1)
    );
    let mut help = vec!["make both halves of one type and one length".to_owned()];
    if elements.0 == elements.1 && lens.0.min(lens.1) == 0 {
        help.splice(0..0, report.even(send.source.object));
    }
    let help: Vec<&str> = help.iter().map(String::as_str).collect();
    report.tell(Check::Agreement, program.place(send.statement), title, story, &help);
}

/// The messages between two ranks are parted into groups alike at both ends.
fn groups(program: &Program, messages: &[Message], report: &mut Report<'_>) {
    // From each end: a unit, the other rank, the other's unit.
    let mut ends: Vec<(u32, u32, u32, u16, u32)> = Vec::with_capacity(messages.len() * 2);
    for (at, message) in (0..).zip(messages) {
        let rank = |unit: u32| program.units[unit as usize].rank;
        let communicator = program.ops[message.send_op as usize].communicator;
        let (a, b) = (message.send_unit, message.receive_unit);
        if rank(a) != rank(b) {
            ends.push((a, rank(b), b, communicator, at));
            ends.push((b, rank(a), a, communicator, at));
        }
    }
    ends.sort_unstable_by_key(|&(unit, other, theirs, communicator, _)| {
        (unit, other, communicator, theirs)
    });
    for pair in ends.windows(2) {
        let [(unit, other, theirs, among, _), (unit2, other2, theirs2, among2, _)] =
            [pair[0], pair[1]];
        if unit == unit2 && other == other2 && among == among2 && theirs != theirs2 {
            let rank = program.units[unit as usize].rank;
            let story = vec![
                report.unit_line(unit, report.unit_does(unit)),
                report.unit_line(theirs, format!("{}, and only then", report.unit_does(theirs))),
                report.unit_line(theirs2, report.unit_does(theirs2)),
            ];
            let title = format!(
                "rank {rank} groups its messages with rank {other}, and rank {other} does not group \
                 them so: NCCL leaves undefined what happens"
            );
            let help = ["group the same messages at both ends", "or at neither, where it ends"];
            return report.tell(Check::Groups, program.at(unit as usize), title, story, &help);
        }
    }
}

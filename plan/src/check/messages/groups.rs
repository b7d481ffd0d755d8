//! The messages between two ranks are parted into groups alike at both ends.

use super::super::links::Message;
use super::super::report::Report;
use crate::program::Program;
use crate::verdict::Check;

/// A message from one of its ends: a unit, the other rank, the communicator, the other's unit, the
/// message.
type End = (u32, u32, u16, u32, u32);

pub(super) fn check(program: &Program, messages: &[Message], report: &mut Report<'_>) {
    let mut ends: Vec<End> = Vec::with_capacity(messages.len() * 2);
    for (at, message) in (0..).zip(messages) {
        let rank = |unit: u32| program.units[unit as usize].rank;
        let (send, receive) = message.ops(program);
        let (a, b, communicator) = (send.unit, receive.unit, send.communicator);
        if rank(a) != rank(b) {
            ends.push((a, rank(b), communicator, b, at));
            ends.push((b, rank(a), communicator, a, at));
        }
    }
    ends.sort_unstable();
    for pair in ends.windows(2) {
        let [first, second] = [pair[0], pair[1]];
        let same = (first.0, first.1, first.2) == (second.0, second.1, second.2);
        if same && first.3 != second.3 {
            return tell(program, messages, (first, second), report);
        }
    }
}

fn tell(program: &Program, messages: &[Message], (a, b): (End, End), report: &mut Report<'_>) {
    let (unit, other, _, theirs, _) = a;
    let theirs2 = b.3;
    let rank = program.units[unit as usize].rank;
    let story = vec![
        report.unit_line(unit, report.unit_does(unit)),
        report.unit_line(theirs, format!("{}, and only then", report.unit_does(theirs))),
        report.unit_line(theirs2, report.unit_does(theirs2)),
    ];
    let title = format!(
        "rank {rank} groups its messages with rank {other}, and rank {other} does not group them so: NCCL \
         leaves undefined what happens"
    );
    let at = program.at(unit as usize);
    let mut help = Vec::new();
    // Work between them stands in no group.
    let between = &program.units[theirs as usize..theirs2 as usize];
    if !between.iter().any(|unit| unit.is_compute) {
        let lines = (program.at(theirs as usize).line, program.at(theirs2 as usize).line);
        help.push(if lines.0 == lines.1 {
            "group the same messages at both ends".to_owned()
        } else {
            format!("group the same messages at both ends: lines {} and {} too", lines.0, lines.1)
        });
    }
    // The group's own halves of these messages, in the order of the other rank.
    let own = |end: End| {
        let (send, receive) = messages[end.4 as usize].ops(program);
        let op = if send.unit == unit { send } else { receive };
        program.place(op.statement).line
    };
    let lines = (own(a), own(b));
    let or = if help.is_empty() { "" } else { "or " };
    help.push(format!(
        "{or}take the group in line {} apart, {}",
        at.line,
        match lines.0 == lines.1 {
            true => "in the order of the other rank".to_owned(),
            false => format!("with line {} before line {}", lines.0, lines.1),
        }
    ));
    report.tell(Check::Groups, at, title, story, &help);
}

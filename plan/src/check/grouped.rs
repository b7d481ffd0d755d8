//! A8 for collectives: all members group them alike, and with them both ends of a message.
//!
//! NCCL begins a group's collectives before its messages, and those of several lengths in an order
//! of its own.

use super::links::{Meeting, Message};
use super::report::Report;
use crate::program::{NONE, Op, OpKind, Program};
use crate::verdict::Check;

pub(crate) fn check(
    program: &Program,
    messages: &[Message],
    meetings: &[Meeting],
    report: &mut Report<'_>,
) {
    // Of each unit, its first collective, and how many it has. They have an order on all members.
    let mut with = vec![(NONE, 0_u32); program.units.len()];
    for (at, meeting) in (0..).zip(meetings) {
        for &op in &meeting.members {
            let (first, many) = &mut with[program.ops[op as usize].unit as usize];
            *first = at.min(*first);
            *many += 1;
        }
    }
    let differ = |one: &Op, other: &Op| with[one.unit as usize] != with[other.unit as usize];
    for meeting in meetings {
        let mut members = meeting.members.iter().map(|&op| &program.ops[op as usize]);
        let Some(first) = members.next() else { continue };
        if let Some(other) = members.find(|other| differ(first, other)) {
            let many = |op: &Op| with[op.unit as usize].1;
            return unlike(first, other, many, report);
        }
    }
    for message in messages {
        let (send, receive) = message.ops(program);
        if differ(send, receive) {
            let ends =
                if with[send.unit as usize].1 > 0 { (send, receive) } else { (receive, send) };
            return at_one_end(ends, report);
        }
    }
}

/// Reports a collective that two members group differently.
fn unlike(first: &Op, other: &Op, many: impl Fn(&Op) -> u32, report: &mut Report<'_>) {
    let program = report.program;
    let (more, less) = if many(first) < many(other) { (other, first) } else { (first, other) };
    let OpKind::Collective(kind) = more.kind else { return };
    let name = kind.name();
    let (here, there) = (program.rank(more), program.rank(less));
    let apart = if many(less) > 1 { "in another group" } else { "without them" };
    let title = format!(
        "rank {here} calls this {name} in a group with other collectives, and rank {there} calls it {apart}: \
         NCCL runs the collectives of a group in an order of its own, so the ranks can wait for each \
         other forever"
    );
    let line = program.at(more.unit as usize).line;
    let help = [
        format!("put the same collectives into one group on all {}", report.members(more)),
        format!("or call them one after the other, without the group in line {line}"),
    ];
    let story = [more, less].map(|op| report.unit_line(op.unit, report.unit_does(op.unit)));
    report.tell(Check::Groups, program.at(more.unit as usize), title, story.to_vec(), &help);
}

/// Reports a message that only one end groups with these collectives.
fn at_one_end((here, there): (&Op, &Op), report: &mut Report<'_>) {
    let program = report.program;
    let (rank, other) = (program.rank(here), program.rank(there));
    let title = format!(
        "rank {rank} has this message in a group with a collective, and rank {other} has its end outside of \
         that group: NCCL runs a group's collectives before its messages, so the ranks can wait for \
         each other forever"
    );
    let line = program.place(here.statement).line;
    let help = [
        format!("take the message in line {line} out of the group"),
        format!("or put its other end, in line {}, into a group with that collective", {
            program.place(there.statement).line
        }),
    ];
    let story = [here, there].map(|op| report.unit_line(op.unit, report.unit_does(op.unit)));
    report.tell(Check::Groups, program.place(here.statement), title, story.to_vec(), &help);
}

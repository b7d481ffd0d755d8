//! A8: what may stand in one group.

use std::collections::HashMap;

use super::instance::Instance;
use super::report::Report;
use crate::ir::ElementType;
use crate::program::{NONE, Op, OpKind, Unit};
use crate::verdict::Check;

pub(crate) fn check(instance: &Instance<'_>, report: &mut Report<'_>) {
    let mut accesses = Vec::new();
    // A group of several communicators is several units.
    let groups = instance.program.units.chunk_by(|_, next| next.continues);
    for group in groups.filter(|group| !group[0].is_compute) {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let all = first.first_op as usize..(last.first_op + last.ops) as usize;
        let ops = &instance.program.ops[all];
        if ops.len() > 1 {
            one_stream(first, ops, report);
            waits_alone(ops, report);
            queues(ops, report);
        }
        aliases(first.rank, ops, &mut accesses, report);
        for op in ops.iter().filter(|op| op.kind == OpKind::Put) {
            put(op, report);
        }
    }
}

fn one_stream(unit: &Unit, ops: &[Op], report: &mut Report<'_>) {
    let Some(other) = ops.iter().find(|op| op.stream != ops[0].stream) else { return };
    let title = format!(
        "a group runs on one stream, and this one is on `{}` and on `{}`",
        report.stream(ops[0].stream),
        report.stream(other.stream)
    );
    let story = vec![report.says(&ops[0]), report.says(other)];
    let help = ["put all operations of the group on one stream, or make two groups"];
    report.tell(Check::Groups, report.program.place(unit.statement), title, story, &help);
}

fn waits_alone(ops: &[Op], report: &mut Report<'_>) {
    let is_wait = |op: &&Op| op.kind == OpKind::Wait;
    let (Some(wait), Some(other)) = (ops.iter().find(is_wait), ops.iter().find(|op| !is_wait(op)))
    else {
        return;
    };
    let story = vec![
        report.says(wait),
        report.line(other, format!("in the same group {}", report.does(other))),
    ];
    let help =
        ["take the wait out of the group: NCCL launches a group as one, so what a wait stands \
                 with may never start"];
    let at = report.program.place(wait.statement);
    report.tell(
        Check::Groups,
        at,
        "a wait for signals shares a group with other work",
        story,
        &help,
    );
}

fn queues(ops: &[Op], report: &mut Report<'_>) {
    let messages = |op: &Op| matches!(op.kind, OpKind::Send | OpKind::Receive);
    let collective =
        |op: &Op| matches!(op.kind, OpKind::Collective(kind) if kind.name().is_messages());
    // The first message of each communicator.
    let mut first: HashMap<u16, &Op> = HashMap::new();
    if ops.iter().any(collective) {
        for op in ops.iter().rev().filter(|op| messages(op)) {
            first.insert(op.communicator, op);
        }
    }
    for op in ops.iter().filter(|op| collective(op)) {
        if let Some(other) = first.get(&op.communicator) {
            if report.knows(Check::Groups, op) {
                continue;
            }
            let OpKind::Collective(kind) = op.kind else { continue };
            let title =
                format!("{} shares a group with a message of the same communicator", kind.name());
            let story = vec![report.says(op), report.says(other)];
            let help =
                ["make two groups: NCCL makes messages of this collective, and they would match \
                         with the others in the order of the calls"];
            report.tell(Check::Groups, report.program.place(op.statement), title, story, &help);
        }
    }
}

/// In what two regions differ, and what they should be.
pub(super) fn difference(
    elements: (&ElementType, &ElementType),
    lens: (u64, u64),
) -> (String, &'static str) {
    match (elements.0 == elements.1, lens.0 == lens.1) {
        (false, true) => (format!("{} and {}", elements.0, elements.1), "of one type"),
        (true, _) => (format!("{} and {} elements", lens.0, lens.1), "of one length"),
        _ => (
            format!("{} {} and {} {}", lens.0, elements.0, lens.1, elements.1),
            "of one type and one length",
        ),
    }
}

/// A2 for puts: what is read here and what is written there are alike.
fn put(op: &Op, report: &mut Report<'_>) {
    let element = |object| report.program.objects.element(object);
    let elements = (element(op.source.object), element(op.target.object));
    let lens = (op.source.len(), op.target.len());
    if elements.0 == elements.1 && lens.0 == lens.1 {
        return;
    }
    let (differ, alike) = difference(elements, lens);
    let title = format!(
        "{} and {} of one put differ: {differ}",
        report.region(op).unwrap_or_else(|| report.name(op.source)),
        report.target(op).unwrap_or_else(|| report.name(op.target)),
    );
    let story = vec![report.says(op)];
    let help = [&*format!("make both regions {alike}")];
    report.tell(Check::Agreement, report.program.place(op.statement), title, story, &help);
}

/// One access of a group: object, start, end, whether it writes, which operation.
type Access = (u32, u64, u64, bool, u32);

fn aliases(rank: u32, ops: &[Op], accesses: &mut Vec<Access>, report: &mut Report<'_>) {
    accesses.clear();
    for (at, op) in (0..).zip(ops) {
        let source = op.source;
        if source.object != NONE && !source.is_empty() {
            accesses.push((source.object, source.start, source.end, false, at));
        }
        let target = op.target;
        // What is put elsewhere is in another rank's memory.
        let is_here = op.kind != OpKind::Put || op.peer == rank;
        if target.object != NONE && !target.is_empty() && is_here {
            accesses.push((target.object, target.start, target.end, true, at));
        }
    }
    if accesses.len() < 2 {
        return;
    }
    accesses.sort_unstable();
    // For each object, the reads and the writes that reach furthest so far, of two operations each:
    // an operation does not clash with itself.
    let (mut reads, mut writes_so_far): (Furthest, Furthest) =
        (Furthest::default(), Furthest::default());
    for &access in accesses.iter() {
        let (_, _, _, writes, at) = access;
        let clash = writes_so_far.clash(access).or_else(|| reads.clash(access).filter(|_| writes));
        if let Some(before) = clash {
            let (first, second) = (&ops[before.4 as usize], &ops[at as usize]);
            let story = vec![
                report.says(first),
                report.line(second, format!("in the same group {}", report.does(second))),
            ];
            let name = if writes { second.target } else { second.source };
            let title =
                format!("two operations of one group touch {}, and one writes", report.name(name));
            let mut help = vec![if first.statement == second.statement {
                "use two buffers: both ends of a message run at once, in no order"
            } else {
                "use two buffers, or make two groups: operations of one group have no order"
            }];
            if [first, second].into_iter().any(|op| report.is_placed_by_sender(op)) {
                help.push("or change the part after `into`: `rank` there is the sender's");
            }
            return report.tell(
                Check::Groups,
                report.program.place(second.statement),
                title,
                story,
                &help,
            );
        }
        let so_far = if writes { &mut writes_so_far } else { &mut reads };
        so_far.add(access);
    }
}

/// The accesses of one object that reach furthest, of two different operations.
#[derive(Default)]
struct Furthest([Option<Access>; 2]);

impl Furthest {
    /// An access of another operation that reaches into this one.
    fn clash(&self, (object, start, _, _, at): Access) -> Option<Access> {
        let of = |before: &&Access| before.0 == object && before.2 > start && before.4 != at;
        self.0.iter().flatten().find(of).copied()
    }

    fn add(&mut self, access: Access) {
        let [first, second] = &mut self.0;
        let further =
            |than: &Option<Access>| than.is_none_or(|than| than.0 != access.0 || than.2 < access.2);
        match first {
            Some(own) if own.0 == access.0 && own.4 == access.4 => own.2 = own.2.max(access.2),
            _ if further(first) => {
                *second = first.filter(|first| first.0 == access.0);
                *first = Some(access);
            }
            _ if further(second) => *second = Some(access),
            _ => {}
        }
    }
}

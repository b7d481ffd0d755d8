//! Help with a circle of messages: a group of what each rank sends and receives, or one rank that
//! takes them in the other order.

use crate::program::{Op, OpKind, Program, Stride};

/// What a rank waits for in a circle, and what it would do next: units.
pub(super) type Blocked = (u32, u32);

/// Help with a circle of which these are all the ranks' messages.
pub(super) fn help(program: &Program, blocked: &[Blocked]) -> Vec<String> {
    let mut help = Vec::new();
    // Work between a message and the next one stands in no group.
    let between = |&(first, second): &Blocked| {
        let units = program.units.get(first as usize..second as usize).unwrap_or_default();
        units.iter().any(|unit| unit.is_compute)
    };
    if !blocked.iter().any(between) {
        help.push(
            "put what the ranks send each other and receive into one group, at both ends".into(),
        );
    }
    if let Some((rank, verb, lines)) = turned(program, blocked) {
        let or = if help.is_empty() { "" } else { "or " };
        help.push(match lines {
            (first, second) if first == second => {
                format!("{or}let one end {verb} first: rank {rank}, in line {first}")
            }
            (first, second) => format!(
                "{or}let one end {verb} first: on rank {rank}, line {second} before line {first}"
            ),
        });
    }
    if help.is_empty() {
        help.push("change the order of the statements so that one of them can go first".into());
    }
    help
}

/// A rank that ends the circle by swapping its two messages: the rank, what it then does first, and
/// both lines.
fn turned(program: &Program, blocked: &[Blocked]) -> Option<(u32, &'static str, (u32, u32))> {
    if blocked.len() != program.ranks() || !blocked.iter().all(|pair| is_step(program, pair)) {
        return None;
    }
    let rank = |pair: &&Blocked| program.units[pair.0 as usize].rank;
    let &(first, second) = blocked.iter().find(|pair| rank(pair) == 1)?;
    let op = only(program, second)?;
    let (verb, moved) = match op.kind {
        OpKind::Receive => ("receive", op.target),
        _ => ("send", op.source),
    };
    // It goes before all that is between them: work that does not touch what it moves.
    let mut between = program.units[first as usize + 1..second as usize].iter();
    let is_free = between.all(|unit| {
        let touches = |op: &Op| op.read().overlaps(moved) || op.target.overlaps(moved);
        unit.is_compute && !program.ops_of(unit).iter().any(touches)
    });
    let line = |unit: u32| program.at(unit as usize).line;
    is_free.then(|| (1, verb, (line(first), line(second))))
}

/// Whether both units are a single message, each issued once in a run: one to a neighbour, one from
/// the other, in different memory.
fn is_step(program: &Program, &(first, second): &Blocked) -> bool {
    let (Some(a), Some(b)) = (only(program, first), only(program, second)) else { return false };
    let own = &program.units[program.of_rank(program.units[first as usize].rank as usize)];
    let once = |op: &Op| own.iter().filter(|unit| unit.statement == op.statement).count() == 1;
    let by_one = |op: &Op| {
        program.shift(op).is_some_and(|shift| {
            matches!(shift.hops[..], [Stride { by: -1 | 1, written: None, .. }])
        })
    };
    let (send, receive) = match (a.kind, b.kind) {
        (OpKind::Send, OpKind::Receive) => (a, b),
        (OpKind::Receive, OpKind::Send) => (b, a),
        _ => return false,
    };
    first < second
        && [a, b].into_iter().all(|op| once(op) && by_one(op))
        && !send.source.overlaps(receive.target)
}

/// The operation of a unit of one.
fn only(program: &Program, unit: u32) -> Option<&Op> {
    match program.ops_of(&program.units[unit as usize]) {
        [only] => Some(only),
        _ => None,
    }
}

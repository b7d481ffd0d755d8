//! What may share a group (A8), but for the parting of messages and of collectives, which is with
//! them.

use typed_nccl_plan::ir::CollectiveKind;
use typed_nccl_plan::verdict::Check;

use crate::outcome::Outcome;
use crate::unit::{Act, Op, Span, Unit};

pub(crate) fn check(units: &[Vec<Unit>], outcome: &mut Outcome) {
    for (rank, units) in units.iter().enumerate() {
        // Whole groups, of all communicators.
        for group in units.chunk_by(|a, b| a.key == b.key) {
            let ops: Vec<&Op> = group.iter().flat_map(|unit| &unit.ops).collect();
            let mut note = |what: &str| {
                let key = &group[0].key;
                outcome.note(Check::Groups, || format!("rank {rank}, step {key:?}: {what}"));
            };
            if ops.iter().any(|op| op.stream != ops[0].stream) {
                note("several streams");
            }
            let waits = ops.iter().filter(|op| matches!(op.act, Act::Wait(_))).count();
            if waits != 0 && waits != ops.len() {
                note("a wait with something else");
            }
            for (at, one) in ops.iter().enumerate() {
                for (number, other) in ops.iter().enumerate() {
                    if number != at && pairwise(one) && message(other) && one.among == other.among {
                        note("messages with a collective that is made of messages");
                    }
                    if number > at && clash(rank, one, other) {
                        note("two operations touch the same elements");
                    }
                }
            }
        }
    }
}

/// A collective that NCCL makes of messages.
fn pairwise(op: &Op) -> bool {
    use CollectiveKind::{AllToAll, Gather, Scatter};
    let Act::Collective { kind, .. } = &op.act else { return false };
    matches!(kind, AllToAll | Gather(_) | Scatter(_))
}

fn message(op: &Op) -> bool {
    matches!(op.act, Act::Send { .. } | Act::Receive { .. })
}

fn clash(rank: usize, one: &Op, other: &Op) -> bool {
    let ((reads, writes), (others, written)) = (everywhere(rank, one), everywhere(rank, other));
    let meet = |a: &[(usize, Span)], b: &[(usize, Span)]| {
        a.iter().any(|(rank, a)| b.iter().any(|(other, b)| rank == other && a.meets(b)))
    };
    meet(&writes, &written) || meet(&reads, &written) || meet(&writes, &others)
}

/// What it reads and writes, with whose it is.
fn everywhere(rank: usize, op: &Op) -> (Vec<(usize, Span)>, Vec<(usize, Span)>) {
    let (reads, writes) = op.touches();
    let own = |spans: Vec<Span>| spans.into_iter().map(|span| (rank, span)).collect();
    let (reads, mut writes): (Vec<_>, Vec<_>) = (own(reads), own(writes));
    if let Act::Put { to, peer, .. } = op.act {
        writes.push((peer, to));
    }
    (reads, writes)
}

//! Ranks that do alike: of those, one is looked at.

use crate::ir::AxisId;
use crate::program::{NONE, Op, OpKind, Program, Span};

/// Whether two ranks issue alike: on the same streams, through the same communicators, using the
/// same objects, and the same elements of those that several streams use.
pub(super) fn issue(program: &Program, a: usize, b: usize) -> bool {
    let is_put = |op: &Op| matches!(op.kind, OpKind::Put);
    let is_get = |op: &Op| matches!(op.kind, OpKind::Get);
    let is_wait = |op: &Op| matches!(op.kind, OpKind::Wait);
    let same = |one: Span, other: Span| {
        one.object == other.object
            && (one == other || one.object == NONE || !program.shared[one.object as usize])
    };
    are_alike(program, a, b, |one, other| {
        one.communicator == other.communicator
            && (same(one.source, other.source) || is_get(one) && is_get(other))
            && (same(one.target, other.target) || is_put(one) && is_put(other))
            && is_put(one) == is_put(other)
            && is_get(one) == is_get(other)
            && is_wait(one) == is_wait(other)
    })
}

/// Whether all ranks do the same with the same elements, towards peers that are as far away around
/// the rings.
///
/// Then moving every rank as far maps the instance onto itself.
pub(super) fn everywhere(program: &Program) -> bool {
    program.objects.are_even()
        && (1..program.ranks()).all(|rank| {
            are_alike(program, 0, rank, |first, own| does_alike(program, rank, first, own))
        })
}

/// Whether two ranks have the same units, of operations that are alike.
fn are_alike(program: &Program, a: usize, b: usize, is_alike: impl Fn(&Op, &Op) -> bool) -> bool {
    let (a, b) = (program.of_rank(a), program.of_rank(b));
    if a.len() != b.len() {
        return false;
    }
    let (a, b) = (&program.units[a], &program.units[b]);
    // By index: macros run this without optimization.
    for at in 0..a.len() {
        let (one, other) = (&a[at], &b[at]);
        if one.ops != other.ops
            || one.stream != other.stream
            || one.after != other.after
            || one.is_compute != other.is_compute
        {
            return false;
        }
        let (one, other) = (program.ops_of(one), program.ops_of(other));
        for at in 0..one.len() {
            if !is_alike(&one[at], &other[at]) {
                return false;
            }
        }
    }
    true
}

/// Whether an operation of a rank is that of rank 0, moved.
fn does_alike(program: &Program, rank: usize, first: &Op, own: &Op) -> bool {
    first.kind == own.kind
        && first.statement == own.statement
        && first.part == own.part
        && first.communicator == own.communicator
        && first.stream == own.stream
        && first.shift == own.shift
        && first.signal == own.signal
        && first.times == own.times
        && first.source == own.source
        && first.target == own.target
        && is_as_far(program, rank, first.peer, own.peer)
}

/// Whether two peers are as far from rank 0 and from this rank, around every axis.
fn is_as_far(program: &Program, rank: usize, first: u32, own: u32) -> bool {
    if first == NONE || own == NONE {
        return first == own;
    }
    let layout = &program.layout;
    if let [extent] = layout.extents[..] {
        return (i64::from(own) - rank as i64).rem_euclid(extent) == i64::from(first);
    }
    (0..).map(AxisId).zip(&layout.extents).all(|(axis, extent)| {
        let at = |rank: usize| layout.coordinate(rank, axis);
        (at(own as usize) - at(rank)).rem_euclid(*extent) == at(first as usize)
    })
}

//! Turns operations into units, in the order of issue.

use super::{MOST_OPERATIONS, Walk};
use crate::ir::Place;
use crate::program::{Buckets, Op, Unit};

impl Walk<'_> {
    /// Makes units of the pending operations: one for each rank that has any.
    pub(super) fn issue(&mut self, statement: u32) {
        let mut pending = std::mem::take(&mut self.pending);
        if pending.windows(2).any(|pair| pair[0].0 > pair[1].0) {
            pending.sort_by_key(|(rank, ..)| *rank);
        }
        let mut begin = 0;
        while begin < pending.len() {
            let rank = pending[begin].0;
            let end = begin + pending[begin..].partition_point(|(other, ..)| *other == rank);
            let first_op = self.ops.len() as u32;
            let of_unit = &pending[begin..end];
            self.ops.extend(of_unit.iter().map(|(_, op, _)| op.clone()));
            let first = &of_unit[0].1;
            self.issued[rank as usize] += 1;
            self.units.push(Unit {
                rank,
                statement,
                turn: self.turn,
                first_op,
                ops: (end - begin) as u32,
                stream: first.stream,
                is_compute: first.kind.is_access(),
                after: of_unit.iter().fold(0, |set, (.., after)| set | after),
            });
            begin = end;
        }
        pending.clear();
        self.turn += 1;
        self.pending = pending;
    }

    pub(super) fn push(&mut self, rank: usize, op: Op, place: &Place) {
        if self.ops.len() + self.pending.len() >= MOST_OPERATIONS {
            self.stopped = true;
            return;
        }
        let after = place.after.iter().fold(0, |set, stream| set | 1 << stream.0);
        self.pending.push((rank as u32, op, after));
    }
}

/// Sorts units by rank, keeping the order of issue, and their operations with them.
pub(super) fn by_rank(
    ranks: usize,
    units: Vec<Unit>,
    ops: Vec<Op>,
) -> (Vec<Unit>, Vec<Op>, Vec<u32>) {
    let buckets = Buckets::new(ranks, units.iter().map(|unit| unit.rank as usize));
    let (order, begins) = buckets.into_parts();
    let mut sorted_ops = Vec::with_capacity(ops.len());
    let sorted = order
        .iter()
        .map(|&at| {
            let mut unit = units[at as usize].clone();
            let first = sorted_ops.len() as u32;
            let own = &ops[unit.first_op as usize..][..unit.ops as usize];
            sorted_ops.extend_from_slice(own);
            unit.first_op = first;
            unit
        })
        .collect();
    (sorted, sorted_ops, begins)
}

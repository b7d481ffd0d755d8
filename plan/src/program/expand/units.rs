//! Turns operations into units, in the order of issue.

use std::collections::BTreeSet;

use super::{MOST_OPERATIONS, Walk};
use crate::ir::Place;
use crate::program::{Buckets, Op, Unit};

impl Walk<'_> {
    /// Makes units of the pending operations: for each rank that has any, one for each of their
    /// communicators, in the plan's order. So they are launched.
    pub(super) fn issue(&mut self, statement: u32) {
        let mut pending = std::mem::take(&mut self.pending);
        let place = |(rank, op, _): &(u32, Op, u64)| (*rank, op.communicator);
        if pending.windows(2).any(|pair| place(&pair[0]) > place(&pair[1])) {
            pending.sort_by_key(place);
        }
        let among: BTreeSet<u16> = pending.iter().map(|(_, op, _)| op.communicator).collect();
        let mut begin = 0;
        let mut before = None;
        let mut after = 0;
        while begin < pending.len() {
            let (rank, communicator) = place(&pending[begin]);
            let own = &pending[begin..];
            if before != Some(rank) {
                // A group waits for all its operations before its first call.
                let ranks_own = own.iter().take_while(|(of, ..)| *of == rank);
                after = ranks_own.fold(0, |set, (.., after)| set | after);
            }
            let own = &own[..own.partition_point(|one| place(one) == (rank, communicator))];
            let first_op = self.ops.len() as u32;
            self.ops.extend(own.iter().map(|(_, op, _)| op.clone()));
            let first = &own[0].1;
            self.issued[rank as usize] += 1;
            self.units.push(Unit {
                rank,
                statement,
                turn: self.turn + among.range(..communicator).count() as u32,
                first_op,
                ops: own.len() as u32,
                stream: first.stream,
                is_compute: first.kind.is_access(),
                after,
                continues: before == Some(rank),
            });
            begin += own.len();
            before = Some(rank);
        }
        pending.clear();
        self.turn += among.len().max(1) as u32;
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

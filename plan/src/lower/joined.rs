//! A program whose units are groups of another program's units.

use std::collections::HashMap;

use crate::check::Links;
use crate::program::{Program, Unit};

/// A program, and the origin of its parts.
pub(super) struct Joined {
    pub(super) program: Program,
    /// For each unit, the original units in order.
    pub(super) units: Vec<Vec<u32>>,
    /// For each operation, the original one.
    ops: Vec<u32>,
}

impl Joined {
    /// Joins the units of each rank whose turns are in one group, at the place of the first.
    pub(super) fn new(program: &Program, group_of: &[u32]) -> Self {
        let mut units: Vec<Vec<u32>> = Vec::with_capacity(program.units.len());
        let mut begins = vec![0];
        for rank in 0..program.ranks() {
            let mut places = HashMap::new();
            for at in program.of_rank(rank) {
                let group = group_of[program.units[at].turn as usize];
                let place = *places.entry(group).or_insert(units.len());
                if place == units.len() {
                    units.push(Vec::new());
                }
                units[place].push(at as u32);
            }
            begins.push(units.len() as u32);
        }
        let mut ops: Vec<u32> = Vec::with_capacity(program.ops.len());
        let made = units.iter().map(|of| {
            let first_op = ops.len() as u32;
            for &at in of {
                let unit = &program.units[at as usize];
                ops.extend(unit.first_op..unit.first_op + unit.ops);
            }
            let after = of.iter().fold(0, |set, &at| set | program.units[at as usize].after);
            let count = ops.len() as u32 - first_op;
            // Whole groups were checked before.
            let first = program.units[of[0] as usize].clone();
            Unit { first_op, ops: count, after, continues: false, ..first }
        });
        let made = made.collect();
        let program = Program {
            layout: program.layout.clone(),
            objects: program.objects.clone(),
            places: program.places.clone(),
            units: made,
            begins,
            ops: ops.iter().map(|&op| program.ops[op as usize].clone()).collect(),
            streams: program.streams,
            communicators: program.communicators,
            shifts: program.shifts.clone(),
            counters: program.counters.clone(),
            exact: program.exact,
            shared: Vec::new(),
            off_the_end: Vec::new(),
            heres: Vec::new(),
        }
        .with_units();
        Self { program, units, ops }
    }

    /// Whether the same operations match in both programs.
    pub(super) fn keeps(&self, before: &Links, after: &Links) -> bool {
        let op = |op: u32| self.ops[op as usize];
        let waits = |unit: u32| self.units[unit as usize].as_slice();
        let mut own: Vec<_> =
            after.messages.iter().map(|one| (op(one.send), op(one.receive))).collect();
        let mut theirs: Vec<_> =
            before.messages.iter().map(|one| (one.send, one.receive)).collect();
        own.sort_unstable();
        theirs.sort_unstable();
        let meetings = before.collectives.len() == after.collectives.len()
            && before.collectives.iter().zip(&after.collectives).all(|(before, after)| {
                after.members.iter().map(|&of| op(of)).eq(before.members.iter().copied())
            });
        let (old, new) = (&before.signals, &after.signals);
        let raised = old.raised.len() == new.raised.len()
            && old.raised.iter().zip(&new.raised).all(|(old, new)| {
                waits(new.wait_unit) == [old.wait_unit]
                    && waits(new.raise_unit).contains(&old.raise_unit)
            });
        let arrivals = old.arrivals.len() == new.arrivals.len()
            && old.arrivals.iter().zip(&new.arrivals).all(|(old, new)| {
                op(new.put) == old.put
                    && match (old.wait, new.wait) {
                        (None, None) => true,
                        (Some((old, a)), Some((new, b))) => waits(new) == [old] && a == b,
                        _ => false,
                    }
            });
        own == theirs && meetings && raised && arrivals
    }
}

//! The ranks' memory: every element is a number that says where it came from.

use std::collections::HashMap;

use typed_nccl_plan::ir::{Expr, Plan};
use typed_nccl_plan::lower::{Part, Schedule, Work};

/// Rank, buffer, which of an array, which copy.
pub(crate) type Place = (u32, u32, u32, bool);

/// What stands in an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Is(u64),
    /// Somebody is writing it.
    Torn,
}

#[derive(Debug, Default)]
pub(crate) struct Memory(HashMap<Place, Vec<Value>>);

pub(crate) fn hash(parts: &[u64]) -> u64 {
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| {
        let mixed = (hash ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 29)
    })
}

impl Memory {
    fn of(&mut self, place: Place, len: u64) -> &mut Vec<Value> {
        let object = self.0.entry(place).or_default();
        for at in object.len() as u64..len {
            let (rank, buffer, index, copy) = place;
            let parts = [rank.into(), buffer.into(), index.into(), copy.into(), at];
            object.push(Value::Is(hash(&parts)));
        }
        object
    }

    /// A part's place in a run of that number.
    fn place(rank: u32, part: &Part, run: usize) -> Place {
        (rank, part.buffer, part.index, part.next ^ (run % 2 == 1))
    }

    pub(crate) fn read(&mut self, plan: &Plan, rank: u32, part: &Part, run: usize) -> Vec<u64> {
        let swaps = plan.buffers[part.buffer as usize].copies == 2;
        let place = Self::place(rank, part, if swaps { run } else { 0 });
        let object = self.of(place, part.end);
        let values = &object[part.start as usize..part.end as usize];
        let of = |value: &Value| match value {
            Value::Is(value) => *value,
            Value::Torn => panic!("rank {rank} reads {part:?} while somebody writes it"),
        };
        values.iter().map(of).collect()
    }

    pub(crate) fn write(
        &mut self,
        plan: &Plan,
        rank: u32,
        part: &Part,
        run: usize,
        value: impl Fn(usize) -> Value,
    ) {
        let swaps = plan.buffers[part.buffer as usize].copies == 2;
        let place = Self::place(rank, part, if swaps { run } else { 0 });
        let object = self.of(place, part.end);
        for (at, slot) in object[part.start as usize..part.end as usize].iter_mut().enumerate() {
            *slot = value(at);
        }
    }

    /// Everything, in order.
    pub(crate) fn all(&self) -> Vec<(Place, Vec<Value>)> {
        let mut all: Vec<_> = self.0.iter().map(|(place, of)| (*place, of.clone())).collect();
        all.sort_by_key(|(place, _)| *place);
        all
    }
}

/// Whether two parts of one rank have elements in common.
pub(crate) fn overlap(a: &Part, b: &Part) -> bool {
    (a.buffer, a.index, a.next) == (b.buffer, b.index, b.next)
        && a.start.max(b.start) < a.end.min(b.end)
}

/// The ranks of each rank's communicator, in order: those that agree in every axis that it has not.
pub(crate) fn members(plan: &Plan, schedule: &Schedule, among: usize, rank: usize) -> Vec<usize> {
    let extents = &schedule.sizes.extents;
    let coordinates = |rank: usize| {
        let mut left = rank as i64;
        let mut at: Vec<i64> = extents
            .iter()
            .rev()
            .map(|extent| {
                let here = left % extent;
                left /= extent;
                here
            })
            .collect();
        at.reverse();
        at
    };
    let axes = &plan.communicators[among].axes;
    let own = coordinates(rank);
    let alike = |other: &usize| {
        let other = coordinates(*other);
        (0..own.len())
            .all(|axis| own[axis] == other[axis] || axes.iter().any(|one| one.index() == axis))
    };
    (0..schedule.ranks.len()).filter(alike).collect()
}

/// The root's number.
pub(crate) fn root(root: &Expr) -> usize {
    match root {
        Expr::Int(root) => *root as usize,
        other => panic!("a root that is no number: {other:?}"),
    }
}

/// What a compute step writes into an element.
pub(crate) fn computed(work: &Work, inputs: &[u64], which: usize, at: usize) -> u64 {
    let Work::Compute { name, arguments, .. } = work else { panic!("no compute step") };
    let mut parts: Vec<u64> = name.bytes().map(u64::from).collect();
    parts.extend(arguments.iter().map(|&number| number as u64));
    parts.extend(inputs);
    parts.extend([which as u64, at as u64]);
    hash(&parts)
}

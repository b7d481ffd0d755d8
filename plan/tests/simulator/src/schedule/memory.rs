//! The ranks' memory: every element is a number that says where it came from.

use std::collections::HashMap;

use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::lower::{Elements, Work};

/// Rank, buffer, which of an array, which copy.
pub(super) type Place = (u32, u32, u32, bool);

/// What stands in an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Is(u64),
    /// Somebody is writing it.
    Torn,
}

#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<Place, Vec<Value>>);

fn hash(parts: &[u64]) -> u64 {
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
    fn place(rank: u32, part: &Elements, run: usize) -> Place {
        (rank, part.buffer, part.index, part.next ^ (run % 2 == 1))
    }

    pub(super) fn read(&mut self, plan: &Plan, rank: u32, part: &Elements, run: usize) -> Vec<u64> {
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

    pub(super) fn write(
        &mut self,
        plan: &Plan,
        rank: u32,
        part: &Elements,
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
    pub(super) fn all(&self) -> Vec<(Place, Vec<Value>)> {
        let mut all: Vec<_> = self.0.iter().map(|(place, of)| (*place, of.clone())).collect();
        all.sort_by_key(|(place, _)| *place);
        all
    }
}

/// What local work writes into an element.
pub(super) fn computed(work: &Work, inputs: &[u64], which: usize, at: usize) -> u64 {
    let mut parts: Vec<u64> = Vec::new();
    match work {
        Work::Compute { name, arguments, .. } => {
            parts.extend(name.bytes().map(u64::from));
            parts.extend(arguments.iter().map(|&number| number as u64));
        }
        Work::Assign { by, .. } => parts.push(*by as u64),
        Work::Group(_) | Work::Kernel { .. } => panic!("no local work"),
    }
    parts.extend(inputs);
    parts.extend([which as u64, at as u64]);
    hash(&parts)
}

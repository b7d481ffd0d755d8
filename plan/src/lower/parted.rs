//! Memory whose parts several streams use side by side.

use std::collections::BTreeMap;

use super::schedule::{Elements, Operation, RankSchedule, Work};

/// What one stream uses of an object: of all uses and of writes, where the first one ends and where
/// the last one starts.
#[derive(Clone, Copy)]
struct Reach {
    end: u64,
    start: u64,
    written_end: u64,
    written_start: Option<u64>,
}

impl RankSchedule {
    /// Buffers, each with an index in an array, of which streams use different elements, and write
    /// some. Only this schedule says which of these uses wait for each other.
    pub fn parted(&self) -> Vec<(u32, u32)> {
        let mut uses: BTreeMap<(u32, u32), BTreeMap<u32, Reach>> = BTreeMap::new();
        for call in &self.calls {
            for (of, writes) in touched(&call.work) {
                if of.len() == 0 {
                    continue;
                }
                let streams = uses.entry((of.buffer, of.index)).or_default();
                let reach = Reach {
                    end: of.end,
                    start: of.start,
                    written_end: if writes { of.end } else { u64::MAX },
                    written_start: writes.then_some(of.start),
                };
                let known = streams.entry(call.stream.0).or_insert(reach);
                known.end = known.end.min(reach.end);
                known.start = known.start.max(reach.start);
                known.written_end = known.written_end.min(reach.written_end);
                known.written_start = known.written_start.max(reach.written_start);
            }
        }
        let apart = |one: &Reach, other: &Reach| {
            one.written_end <= other.start || other.written_start.is_some_and(|at| one.end <= at)
        };
        let parted = uses.into_iter().filter(|(_, streams)| {
            streams.iter().any(|(at, one)| {
                streams.iter().any(|(other_at, other)| at != other_at && apart(one, other))
            })
        });
        parted.map(|(object, _)| object).collect()
    }
}

/// The elements of its own rank that a call touches, and whether it writes them.
fn touched(work: &Work) -> Vec<(Elements, bool)> {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    match work {
        Work::Compute { reads: of, writes: to, .. } => {
            reads.extend(of);
            writes.extend(to);
        }
        Work::Assign { to, of, .. } => {
            reads.extend(of.iter().filter(|of| of.rank.is_none()));
            writes.push(*to);
        }
        Work::Group(operations) | Work::Kernel { operations, .. } => {
            for operation in operations {
                match operation {
                    Operation::Collective { send, recv, .. } => {
                        reads.extend(send);
                        writes.extend(recv);
                    }
                    Operation::Send { from, .. } | Operation::Put { from, .. } => reads.push(*from),
                    Operation::Receive { to, .. } => writes.push(*to),
                    Operation::Signal { .. } | Operation::Wait { .. } => {}
                }
            }
        }
    }
    let reads = reads.into_iter().map(|of| (of, false));
    reads.chain(writes.into_iter().map(|of| (of, true))).collect()
}

//! Decides which calls can share one kernel although NCCL cannot group them: the rules of
//! [`greedy`](super::super::greedy), applied to a schedule. There, collectives on windows stand
//! alone, because NCCL does not fuse their kernels; ours have no such limit.

use super::Among;
use super::stretch::Stretch;
use crate::lower::uses::{Use, Uses};
use crate::lower::{Call, Elements, Event, Operation, Schedule};

/// The most operations behind one kernel, as in a group of NCCL's.
const MOST: usize = 2048;

/// The memory that a rank's calls read and write, by buffer, index in an array, and copy.
#[derive(Default)]
pub(super) struct Touched {
    all: Uses<(u32, u32, bool)>,
    parts: Vec<Use<(u32, u32, bool)>>,
}

impl Touched {
    pub(super) fn of(operations: &[Operation]) -> Self {
        let mut touched = Self::default();
        for operation in operations {
            if let Operation::Collective { send, recv, .. } = operation {
                let part = |part: &Elements, writes| (part.object(), part.start, part.end, writes);
                touched.parts.extend(send.iter().map(|send| part(send, false)));
                touched.parts.extend(recv.iter().map(|recv| part(recv, true)));
            }
        }
        touched.parts.iter().for_each(|part| touched.all.add(*part));
        touched
    }

    pub(super) fn extend(&mut self, more: &Self) {
        more.parts.iter().for_each(|part| self.all.add(*part));
        self.parts.extend(&more.parts);
    }

    /// Whether both touch the same elements, at least one of them writing.
    fn clashes(&self, other: &Self) -> bool {
        other.parts.iter().any(|part| self.all.clashes(part))
    }
}

impl Stretch {
    /// Whether `next` could join on every rank; if not, why.
    pub(super) fn fits(
        &self,
        schedule: &Schedule,
        among: &Among,
        next: &Self,
    ) -> Result<(), &'static str> {
        let mut ranks = among.ranks.iter().enumerate();
        ranks.try_for_each(|(member, &rank)| {
            let calls = &schedule.ranks[rank as usize].calls;
            let (own, more) = (&self.calls[member], &next.calls[member]);
            if own.len() + more.len() > MOST {
                return Err("there are enough in it");
            }
            if self.touched[member].clashes(&next.touched[member]) {
                return Err("both touch the same elements, and one writes");
            }
            follows(calls, own, more[0])
        })
    }
}

fn follows(calls: &[Call], own: &[usize], next: usize) -> Result<(), &'static str> {
    let between = || (own[0]..next).filter(|at| !own.contains(at)).map(|at| &calls[at]);
    let Call { stream, waits, carried, .. } = &calls[next];
    if !waits.is_empty() || !carried.is_empty() {
        return Err("the second waits for something that the first need not wait for");
    }
    if between().any(|call| call.stream == *stream || !call.work.operations().is_empty()) {
        return Err("something else is between them");
    }
    let ends = own.iter().chain([&next]).filter_map(|&at| calls[at].records);
    let ends: Vec<Event> = ends.collect();
    let waits = |call: &Call| call.waits.iter().chain(&call.carried).any(|one| ends.contains(one));
    if between().any(waits) {
        return Err("something between them waits for one, and would wait for both");
    }
    Ok(())
}

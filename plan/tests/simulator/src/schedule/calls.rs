//! What a call is about: the memory that it reads, and its communicators.

use typed_nccl_plan::ir::CommunicatorId;
use typed_nccl_plan::lower::{Call, Elements, Operation, Work};

pub(super) fn call_computes(call: &Call) -> bool {
    matches!(call.work, Work::Compute { .. } | Work::Assign { .. })
}

/// What a call reads, of its own rank or as local work of others, and nothing else reads for it.
pub(super) fn reading(call: &Call, rank: u32) -> Vec<Elements> {
    match &call.work {
        Work::Compute { reads, .. } => reads.clone(),
        Work::Assign { of, .. } => of.clone(),
        Work::Group(ops) | Work::Kernel { operations: ops, .. } => {
            let send = |op: &Operation| match op {
                Operation::Collective { send, .. } => *send,
                // What a rank puts where it is already need not be watched.
                Operation::Put { from, to, peer, .. } => {
                    (*peer != rank || !overlap(from, to)).then_some(*from)
                }
                _ => None,
            };
            ops.iter().filter_map(send).collect()
        }
    }
}

/// The communicator of an operation.
pub fn communicator(op: &Operation) -> CommunicatorId {
    match op {
        Operation::Collective { among, .. }
        | Operation::Send { among, .. }
        | Operation::Receive { among, .. }
        | Operation::Put { among, .. }
        | Operation::Signal { among, .. }
        | Operation::Wait { among, .. } => *among,
    }
}

pub(super) fn communicators(call: &Call) -> Vec<CommunicatorId> {
    match &call.work {
        Work::Compute { .. } | Work::Assign { .. } => Vec::new(),
        Work::Group(ops) | Work::Kernel { operations: ops, .. } => {
            ops.iter().map(communicator).collect()
        }
    }
}

/// Whether two parts of one rank have elements in common.
pub(super) fn overlap(a: &Elements, b: &Elements) -> bool {
    (a.buffer, a.index, a.next) == (b.buffer, b.index, b.next)
        && a.start.max(b.start) < a.end.min(b.end)
}

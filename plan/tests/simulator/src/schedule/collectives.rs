//! Who takes part in a collective, and what it gives each of them.

use typed_nccl_plan::ir::{CollectiveKind, Plan};
use typed_nccl_plan::lower::Schedule;

/// The ranks of each rank's communicator, in order: those that agree in every axis that it has not.
pub(super) fn members(plan: &Plan, schedule: &Schedule, among: usize, rank: usize) -> Vec<usize> {
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

/// What a collective gives one member.
pub(super) fn outcome(
    kind: &CollectiveKind<u32>,
    given: &[&Vec<u64>],
    index: usize,
    len: usize,
) -> Vec<u64> {
    let sum = |at: usize| given.iter().fold(0_u64, |sum, of| sum.wrapping_add(of[at]));
    let one_by_one = || given.iter().flat_map(|of| of.iter().copied()).collect();
    match kind {
        CollectiveKind::AllReduce(_) | CollectiveKind::Reduce(..) => (0..len).map(sum).collect(),
        CollectiveKind::Broadcast(from) => given[*from as usize].clone(),
        CollectiveKind::AllGather | CollectiveKind::Gather(_) => one_by_one(),
        CollectiveKind::ReduceScatter(_) => (0..len).map(|at| sum(index * len + at)).collect(),
        CollectiveKind::AllToAll => {
            let part = len / given.len();
            given.iter().flat_map(|of| of[index * part..][..part].iter().copied()).collect()
        }
        CollectiveKind::Scatter(from) => given[*from as usize][index * len..][..len].to_vec(),
    }
}

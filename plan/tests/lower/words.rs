//! What tests of schedules are said with.

use typed_nccl_plan::build::{Number, PlanBuilder, Stream};
use typed_nccl_plan::ir::{Plan, Reduction};
use typed_nccl_plan::lower::{Operation, Schedule, Work};
use typed_nccl_plan::verdict::Sizes;

pub(crate) fn sizes(plan: &Plan, n: i64, values: &[(&str, i64)]) -> Sizes {
    let of = |name: &str| values.iter().find(|(one, _)| *one == name).map(|(_, value)| *value);
    let params = plan.params.iter().map(|param| vec![of(&param.name).expect("a value")]);
    let mut extents = vec![1; plan.axes.len()];
    extents[0] = n;
    Sizes { extents, params: params.collect(), text: format!("n = {n}") }
}

pub(crate) fn groups(schedule: &Schedule, rank: usize) -> Vec<&[Operation]> {
    let of = schedule.ranks[rank].calls.iter().filter_map(|call| match &call.work {
        Work::Group(ops) | Work::Kernel { operations: ops, .. } => Some(ops.as_slice()),
        Work::Compute { .. } | Work::Assign { .. } => None,
    });
    of.collect()
}

pub(crate) fn joined(schedule: &Schedule) -> usize {
    schedule.reasons.iter().filter(|reason| reason.joined).count()
}

#[track_caller]
pub(crate) fn apart_because(schedule: &Schedule, why: &str) {
    assert_eq!(joined(schedule), 0, "{:?}", schedule.reasons);
    assert!(
        schedule.reasons.iter().any(|reason| reason.why.contains(why)),
        "{:?}",
        schedule.reasons
    );
}

/// `many` all-reduces of plain buffers, one after another.
pub(crate) fn all_reduces(many: i64, again: impl Fn(&mut PlanBuilder, Stream, Number)) -> Plan {
    let mut plan = PlanBuilder::new("all-reduces");
    plan.ranks(1..);
    let g = plan.array(many).in_out::<f32>("g", |_| 256);
    let net = plan.stream("net");
    plan.for_each("i", ..many, |plan, i| {
        plan.on(net).all_reduce_in_place(g.at(i), Reduction::Sum);
        again(plan, net, i);
    });
    plan.unchecked().expect("a plan")
}

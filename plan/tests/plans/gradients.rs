//! Gradients are averaged bucket by bucket, while the backward pass makes the next ones.

use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::ir::Reduction::{Avg, Sum};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// For any number of ranks and of buckets, which differ in length.
pub(crate) fn buckets() -> PlanBuilder {
    let mut plan = PlanBuilder::new("gradient buckets");
    plan.ranks(1..);
    let k = plan.param("k", 1..);
    let sizes = plan.list("sizes", k, 1..);
    let g = plan.array(k).in_out::<f32>("g", |i| sizes.at(i));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));

    plan.for_each_reversed("i", ..k, |plan, i| {
        plan.on(cmp).run("backward").argument(i).writes(g.at(i));
        plan.on(net).after([cmp]).all_reduce_in_place(g.at(i), Avg);
    });
    plan.on(cmp).after([net]).run("update").reads(g);
    plan
}

/// The first rank does not take part.
pub(crate) fn without_the_first() -> NearMiss {
    let mut plan = PlanBuilder::new("gradients without the first rank");
    plan.ranks(1..);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let g = plan.in_out::<f32>("g", len);
    let net = plan.stream("net");
    plan.when(r.ne(0), |plan| {
        plan.on(net).all_reduce_in_place(g, Avg); // all but the first
    });
    NearMiss::new(plan, Check::CollectiveOrder)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("gradients.rs"), ["all but the first"])
        .mend("condition")
}

/// Every rank reduces another length.
pub(crate) fn length_by_rank() -> NearMiss {
    let mut plan = PlanBuilder::new("gradients of another length on each rank");
    let n = plan.ranks(1..);
    let r = plan.rank();
    let g = plan.in_out::<f32>("g", n);
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(g.slice(..r + 1), Sum); // another length
    NearMiss::new(plan, Check::Agreement)
        .ranks([0, 1])
        .lines(include_str!("gradients.rs"), ["another length"])
        .mend("on every rank")
}

/// Half of the ranks begin with the other bucket.
pub(crate) fn in_another_order() -> NearMiss {
    let mut plan = PlanBuilder::new("gradients in another order");
    plan.ranks(1..=8);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let (g, h) = (plan.in_out::<f32>("g", len), plan.in_out::<f32>("h", 2 * len));
    let net = plan.stream("net");
    plan.when((r % 2).eq(0), |plan| {
        plan.on(net).all_reduce_in_place(g, Sum); // g first
        plan.on(net).all_reduce_in_place(h, Sum);
    });
    plan.when((r % 2).eq(1), |plan| {
        plan.on(net).all_reduce_in_place(h, Sum); // h first
        plan.on(net).all_reduce_in_place(g, Sum);
    });
    NearMiss::new(plan, Check::Agreement)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("gradients.rs"), ["g first", "h first"])
        .mend("order")
}

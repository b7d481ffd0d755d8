//! One rank's numbers reach all: those that have them send them on.

use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, chain};
use typed_nccl_plan::ir::CollectiveKind;
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// In a tree: with every round twice as many ranks have them.
pub(crate) fn tree() -> PlanBuilder {
    let (mut plan, Declared { r, x, net }) = declared("tree broadcast", 1..=16);
    for by in [1, 2, 4, 8] {
        plan.when(r.lt(by), |plan| plan.on(net).transfer(x, chain(by), x));
    }
    plan.computes(CollectiveKind::Broadcast(0.into()), x, x);
    plan
}

/// A round too few for more than eight ranks.
pub(crate) fn a_round_too_few() -> NearMiss {
    let (mut plan, Declared { r, x, net }) = declared("tree of three rounds", 1..=16);
    for by in [1, 2, 4] {
        plan.when(r.lt(by), |plan| plan.on(net).transfer(x, chain(by), x));
    }
    plan.computes(CollectiveKind::Broadcast(0.into()), x, x); // to all
    NearMiss::new(plan, Check::Postcondition)
        .smallest([9])
        .ranks([8])
        .lines(include_str!("broadcast.rs"), ["to all"])
}

/// Everyone thinks that it is the root.
pub(crate) fn everyone_is_the_root() -> NearMiss {
    let (mut plan, Declared { r, x, net }) = declared("broadcast of everyone", 1..);
    plan.on(net).broadcast_in_place(x, r); // the root
    NearMiss::new(plan, Check::Agreement)
        .ranks([0, 1])
        .lines(include_str!("broadcast.rs"), ["the root"])
        .mend("on every rank")
}

struct Declared {
    r: Number,
    x: Buffer<Generic>,
    net: Stream,
}

fn declared(name: &str, ranks: impl Into<typed_nccl_plan::ir::Values>) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    plan.ranks(ranks);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let x = plan.in_out("x", len);
    let net = plan.stream("net");
    (plan, Declared { r, x, net })
}

//! Microbatches go forward through a chain of ranks.

use typed_nccl_plan::build::{Generic, PlanBuilder, chain};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// For any number of ranks. The caller fills `inp` of the first rank and gets `out` of the last.
pub(crate) fn forward() -> PlanBuilder {
    let mut plan = PlanBuilder::new("pipeline forward");
    plan.ranks(2..);
    let (mb, k) = (plan.param("mb", 1..), plan.param("k", 1..));
    let inp = plan.array(mb).in_out::<Generic>("inp", |_| k);
    let out = plan.array(mb).output::<Generic>("out", |_| k);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));

    plan.for_each("i", ..mb, |plan, i| {
        plan.sequence(|plan| {
            plan.on(cmp).after([net]).run("fwd").argument(i).reads(inp.at(i)).writes(out.at(i));
            plan.on(net).after([cmp]).transfer(out.at(i), chain(1), inp.at(i));
        });
    });
    plan
}

/// Nobody sends to the first rank.
pub(crate) fn reads_what_nobody_wrote() -> NearMiss {
    let mut plan = PlanBuilder::new("pipeline without an input");
    plan.ranks(2..);
    let (mb, k) = (plan.param("mb", 1..), plan.param("k", 1..));
    let inp = plan.array(mb).local::<Generic>("inp", |_| k);
    let out = plan.array(mb).output::<Generic>("out", |_| k);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));

    plan.for_each("i", ..mb, |plan, i| {
        plan.sequence(|plan| {
            plan.on(cmp).after([net]).run("fwd").reads(inp.at(i)).writes(out.at(i)); // reads nothing
            plan.on(net).after([cmp]).transfer(out.at(i), chain(1), inp.at(i));
        });
    });
    NearMiss::new(plan, Check::Initialised)
        .smallest([2])
        .ranks([0])
        .lines(include_str!("pipeline.rs"), ["reads nothing"])
        .mend("inout")
}

/// Without a sequence both halves are in one group, and one buffer is read and written at once.
pub(crate) fn one_buffer_for_both() -> NearMiss {
    let mut plan = PlanBuilder::new("pipeline in one buffer");
    plan.ranks(3..);
    let k = plan.param("k", 1..);
    let x = plan.in_out::<Generic>("x", k);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(cmp).after([net]).run("fwd").reads(x).writes(x);
    plan.on(net).after([cmp]).transfer(x, chain(1), x); // read and written at once
    NearMiss::new(plan, Check::Groups)
        .smallest([3])
        .ranks([1])
        .lines(include_str!("pipeline.rs"), ["read and written at once"])
}

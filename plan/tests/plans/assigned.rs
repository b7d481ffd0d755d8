//! Plans with local work of this library: copies and reductions.

use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, at, ring};
use typed_nccl_plan::ir::{CollectiveKind, Reduction};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

const SUM: CollectiveKind = CollectiveKind::AllReduce(Reduction::Sum);

/// Every rank gets all ranks' data, and adds it up.
pub(crate) fn one_shot() -> PlanBuilder {
    let mut plan = PlanBuilder::new("all-reduce in one shot");
    let n = plan.ranks(1..);
    let d = declared(&mut plan);
    let got = plan.local::<Generic>("got", n * d.len);
    plan.on(d.net).all_gather(d.x, got);
    plan.on(d.net).copy(got.slice(..d.len), d.x);
    plan.for_each("i", Number::from(1)..n, |plan, i| {
        plan.on(d.net).update(d.x, Reduction::Sum, got.chunk(n, i));
    });
    plan.computes(SUM, d.x, d.x);
    plan
}

/// Averages of averages, on two and four ranks.
pub(crate) fn averages() -> PlanBuilder {
    let mut plan = PlanBuilder::new("averages");
    let (n, r) = (plan.ranks([2, 4]), plan.rank());
    let d = declared(&mut plan);
    let got = plan.local::<Generic>("got", d.len);
    for by in [1, 2] {
        plan.when(n.gt(by), |plan| {
            let partner = r + by - r / by % 2 * 2 * by;
            plan.on(d.net).transfer(d.x, at(partner), got);
            plan.on(d.net).update(d.x, Reduction::Avg, got);
        });
    }
    plan.computes(CollectiveKind::AllReduce(Reduction::Avg), d.x, d.x);
    plan
}

/// The larger one of two is not their sum.
pub(crate) fn the_larger_for_the_sum() -> NearMiss {
    let mut plan = PlanBuilder::new("the larger one for the sum");
    plan.ranks([2]);
    let d = declared(&mut plan);
    let got = plan.local::<Generic>("got", d.len);
    plan.on(d.net).transfer(d.x, ring(1), got);
    plan.on(d.net).update(d.x, Reduction::Max, got); // the larger one
    plan.computes(SUM, d.x, d.x); // the sum
    NearMiss::new(plan, Check::Postcondition)
        .smallest([2])
        .lines(include_str!("assigned.rs"), ["the sum", "the larger one"])
}

/// Two elements are added to one.
pub(crate) fn of_two_lengths() -> NearMiss {
    let mut plan = PlanBuilder::new("of two lengths");
    plan.ranks(1..);
    let d = declared(&mut plan);
    let got = plan.input::<Generic>("got", d.len + 1);
    plan.on(d.net).update(d.x, Reduction::Sum, got); // one more
    NearMiss::new(plan, Check::Agreement)
        .smallest([1])
        .lines(include_str!("assigned.rs"), ["one more"])
        .mend("as many elements on both sides")
}

/// A buffer is moved by one element within itself.
pub(crate) fn within_itself() -> NearMiss {
    let mut plan = PlanBuilder::new("within itself");
    plan.ranks(1..);
    let len = plan.param("len", 3..);
    let x = plan.in_out::<Generic>("x", len);
    let net = plan.stream("net");
    plan.on(net).copy(x.slice(1..), x.slice(..len - 1)); // within itself
    NearMiss::new(plan, Check::Hazards)
        .smallest([1])
        .lines(include_str!("assigned.rs"), ["within itself"])
        .mend("the same elements on both sides")
}

struct Declared {
    len: Number,
    x: Buffer<Generic>,
    net: Stream,
}

fn declared(plan: &mut PlanBuilder) -> Declared {
    let len = plan.param("len", 1..);
    let x = plan.in_out("x", len);
    let net = plan.stream("net");
    Declared { len, x, net }
}

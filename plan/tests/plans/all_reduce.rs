//! All-reduce around a ring, by steps that say what they compute.

use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, ring};
use typed_nccl_plan::ir::{CollectiveKind, Reduction};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// Each rank adds up one part in n - 1 turns, and the sums go around in as many.
pub(crate) fn by_steps() -> PlanBuilder {
    let (mut plan, d) = declared("all-reduce around a ring");
    d.reduce_scatter(&mut plan, d.n - 1, (-1).into());
    d.all_gather(&mut plan, 1);
    plan.computes(CollectiveKind::AllReduce(Reduction::Sum), d.x, d.x);
    plan
}

/// What came is added to the part that was sent.
pub(crate) fn adds_to_another_part() -> NearMiss {
    let (mut plan, d) = declared("all-reduce, added to another part");
    d.reduce_scatter(&mut plan, d.n - 1, 0.into());
    d.all_gather(&mut plan, 1);
    plan.computes(CollectiveKind::AllReduce(Reduction::Sum), d.x, d.x); // added elsewhere
    NearMiss::new(plan, Check::Postcondition)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("all_reduce.rs"), ["added elsewhere", "the addition"])
        .mend("what line")
}

/// The part that is passed on is not the one that has been added up.
pub(crate) fn passes_on_another_part() -> NearMiss {
    let (mut plan, d) = declared("all-reduce, another part passed on");
    d.reduce_scatter(&mut plan, d.n - 1, (-1).into());
    d.all_gather(&mut plan, 0);
    plan.computes(CollectiveKind::AllReduce(Reduction::Sum), d.x, d.x); // another part
    NearMiss::new(plan, Check::Postcondition)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("all_reduce.rs"), ["another part", "the addition"])
}

/// A turn too few: the sums lack one rank's part.
pub(crate) fn a_turn_too_few() -> NearMiss {
    let (mut plan, d) = declared("all-reduce, a turn too few");
    d.reduce_scatter(&mut plan, d.n - 2, (-1).into());
    d.all_gather(&mut plan, 1);
    plan.computes(CollectiveKind::AllReduce(Reduction::Sum), d.x, d.x); // one is missing
    NearMiss::new(plan, Check::Postcondition)
        .smallest([2])
        .lines(include_str!("all_reduce.rs"), ["one is missing"])
}

struct Declared {
    n: Number,
    r: Number,
    x: Buffer<Generic>,
    got: Buffer<Generic>,
    net: Stream,
}

impl Declared {
    fn reduce_scatter(&self, plan: &mut PlanBuilder, turns: Number, by: Number) {
        let &Self { n, r, x, got, net } = self;
        plan.for_each("i", ..turns, |plan, i| {
            plan.on(net).transfer(x.chunk(n, (r - i) % n), ring(1), got);
            let own = x.chunk(n, (r - i + by) % n);
            let (by, of) = (Reduction::Sum, [1, 0]);
            plan.on(net).run("add").reads(got).reads(own).writes(own).computes(0, by, of); // the addition
        });
    }

    fn all_gather(&self, plan: &mut PlanBuilder, by: i64) {
        let &Self { n, r, x, net, .. } = self;
        plan.for_each("i", ..n - 1, |plan, i| {
            let part = x.chunk(n, (r - i + by) % n);
            plan.on(net).transfer(part, ring(1), part);
        });
    }
}

fn declared(name: &str) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    let n = plan.ranks(1..);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let x = plan.in_out("x", n * len);
    let got = plan.local("got", len);
    let net = plan.stream("net");
    (plan, Declared { n, r, x, got, net })
}

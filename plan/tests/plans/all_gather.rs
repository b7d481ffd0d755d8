//! Parts go around a ring until everyone has all of them.

use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, ring};
use typed_nccl_plan::ir::CollectiveKind;
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// In n - 1 steps: each passes on what came with the last one.
pub(crate) fn around_a_ring() -> PlanBuilder {
    let (mut plan, d) = declared("all-gather around a ring", 1, true);
    d.own_part(&mut plan);
    d.steps(&mut plan, d.n - 1);
    plan.covers(d.b);
    plan.computes(CollectiveKind::AllGather, d.a, d.b);
    plan
}

/// The same for any number of ranks: that all parts come, each once.
pub(crate) fn around_any_ring() -> PlanBuilder {
    let mut plan = PlanBuilder::new("all-gather around any ring");
    let n = plan.ranks(1..);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let a = plan.input::<Generic>("a", len);
    let b = plan.in_out::<Generic>("b", n * len);
    let net = plan.stream("net");
    let all = Declared { n, r, a, b, net };
    all.own_part(&mut plan);
    all.steps(&mut plan, n - 1);
    plan.covers(b);
    plan
}

/// A step too few.
pub(crate) fn with_a_hole() -> NearMiss {
    let (mut plan, d) = declared("all-gather with a hole", 1, false);
    d.own_part(&mut plan);
    d.steps(&mut plan, d.n - 2);
    plan.covers(d.b); // not all of it
    NearMiss::new(plan, Check::Coverage)
        .smallest([2])
        .lines(include_str!("all_gather.rs"), ["not all of it"])
}

/// A step too many brings everyone its own part again.
pub(crate) fn covered_twice() -> NearMiss {
    let (mut plan, d) = declared("all-gather of one part twice", 2, false);
    d.own_part(&mut plan);
    d.steps(&mut plan, d.n);
    plan.covers(d.b); // its own part again
    NearMiss::new(plan, Check::Coverage)
        .smallest([2])
        .ranks([0])
        .lines(include_str!("all_gather.rs"), ["its own part again"])
}

/// The last rank's window ends before the place that is written.
pub(crate) fn past_the_end() -> NearMiss {
    let mut plan = PlanBuilder::new("a part past the end");
    let n = plan.ranks(2..);
    let r = plan.rank();
    let h = plan.param("h", 1..);
    let part = plan.window().in_out::<Generic>("part", h);
    let board = plan.window().in_out::<Generic>("board", (n - 1) * h);
    let arrived = plan.signal("arrived");
    let net = plan.stream("net");
    plan.on(net).put(part, ring(1), board.slice(r * h..(r + 1) * h)).signal(arrived); // past the end
    plan.on(net).wait([arrived.from(ring(-1))]);
    NearMiss::new(plan, Check::Bounds)
        .smallest([2])
        .ranks([1])
        .lines(include_str!("all_gather.rs"), ["past the end"])
}

struct Declared {
    n: Number,
    r: Number,
    a: Buffer<Generic>,
    b: Buffer<Generic>,
    net: Stream,
}

impl Declared {
    /// A message to oneself, so that all of `b` is covered.
    fn own_part(&self, plan: &mut PlanBuilder) {
        let &Self { n, r, a, b, net } = self;
        plan.on(net).transfer(a, ring(0), b.chunk(n, r));
    }

    fn steps(&self, plan: &mut PlanBuilder, count: Number) {
        let &Self { n, r, b, net, .. } = self;
        plan.for_each("k", ..count, |plan, k| {
            let part = b.chunk(n, (r - k) % n);
            plan.on(net).transfer(part, ring(1), part);
        });
    }
}

fn declared(name: &str, smallest: i64, output: bool) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    let n = plan.ranks(smallest..=8);
    let r = plan.rank();
    let len = plan.param("len", [1, 2, 3]);
    let a = plan.input("a", len);
    let b = if output { plan.output("b", n * len) } else { plan.in_out("b", n * len) };
    let net = plan.stream("net");
    (plan, Declared { n, r, a, b, net })
}

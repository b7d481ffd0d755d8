//! Plans of the run-time builder that run both on the host backend and on GPUs.

use typed_nccl::plan::Call;
use typed_nccl::plan::build::{Checked, Open, PlanBuilder, PlanElement, ring};
use typed_nccl::{Avg, Communicator, Result, World};

/// Steps of this communicator's world.
pub(crate) fn steps_of<W: World, F: FnMut(&mut Call<'_, W>) -> Result<()>>(
    _: &Communicator<W>,
    steps: F,
) -> F {
    steps
}

/// The checked plan, or a panic with everything that is wrong with it.
pub(crate) fn checked(plan: PlanBuilder<Open>) -> PlanBuilder<Checked> {
    plan.check().unwrap_or_else(|refused| panic!("{refused}"))
}

/// Buckets `g` of f32, filled by the step `backward` on one stream and averaged on another, then
/// passed to the step `apply`.
pub(crate) fn grad_sync() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("grad_sync");
    plan.ranks(1..);
    let k = plan.param("k", 1..);
    let sizes = plan.list("sizes", k, 1..);
    let g = plan.array(k).in_out::<f32>("g", |i| sizes.at(i));
    let (compute, net) = (plan.stream("compute"), plan.stream("net"));
    plan.for_each_reversed("i", ..k, |plan, i| {
        plan.on(compute).run("backward").argument(i).writes(g.at(i));
        plan.on(net).after([compute]).all_reduce_in_place(g.at(i), Avg);
    });
    plan.on(compute).after([net]).run("apply").reads(g);
    checked(plan)
}

/// Neighbours on a ring of at least `ranks` put the `h` outer elements of their `m` into each
/// other's windows, whose two copies swap. Then the step `step` computes the next copy's interior.
pub(crate) fn halo<T: PlanElement>(ranks: i64) -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("halo");
    plan.ranks(ranks..);
    let (m, h) = (plan.param("m", 1..), plan.param("h", 1..));
    plan.promise(m.ge(4 * h));
    let u = plan.window().swapped().in_out::<T>("u", m);
    let (lo, hi) = (plan.signal("lo"), plan.signal("hi"));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi);
    plan.on(net).put(u.slice(m - 2 * h..m - h), ring(1), u.slice(..h)).signal(lo);
    plan.on(net).wait([hi.from(ring(1)), lo.from(ring(-1))]);
    plan.on(cmp).after([net]).run("step").reads(u).writes(u.next().slice(h..m - h));
    checked(plan)
}

/// Two puts of `len` elements between them, of which only the second raises a signal, and an answer
/// that lets the next run begin.
pub(crate) fn quiet_put(len: i64) -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("quiet");
    plan.ranks(1..);
    let (most, end) = (len - 2, len);
    let a = plan.window().input::<f32>("a", len);
    let b = plan.window().swapped().in_out::<f32>("b", len);
    let there = plan.signal("there");
    let s = plan.stream("s");
    plan.on(s).put(a.slice(..most), ring(1), b.next().slice(..most));
    plan.on(s).put(a.slice(most..end), ring(1), b.next().slice(most..end)).signal(there);
    plan.on(s).wait([there.from(ring(-1))]);
    plan.on(s).signal(there, ring(-1));
    plan.on(s).wait([there.from(ring(1))]);
    checked(plan)
}

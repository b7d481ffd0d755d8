//! Neighbours around a ring keep copies of each other's edges.

use typed_nccl_plan::build::{
    Buffer, Generic, Number, PlanBuilder, Signal, Stream, SwappedWindow, Window, ring,
};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// Puts into the neighbours' windows, in a graph. The window has two copies, which swap with every
/// run: a neighbour may still read one while the next run fills the other.
pub(crate) fn one_sided() -> PlanBuilder {
    let (mut plan, Declared { m, h, hi, lo, net, cmp }) = declared("halo");
    let u: SwappedWindow<Generic> = plan.window().swapped().in_out("u", m);
    plan.captured();

    plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi);
    plan.on(net).put(u.slice(m - 2 * h..m - h), ring(1), u.slice(..h)).signal(lo);
    plan.on(cmp).run("interior").reads(u.slice(h..m - h)).writes(u.next().slice(2 * h..m - 2 * h));
    plan.on(net).wait([hi.from(ring(1)), lo.from(ring(-1))]);
    plan.on(cmp)
        .after([net])
        .run("edges")
        .reads(u)
        .writes(u.next().slice(h..2 * h))
        .writes(u.next().slice(m - 2 * h..m - h));
    plan
}

/// Messages to and from both neighbours in one group.
pub(crate) fn two_sided() -> PlanBuilder {
    both_neighbours("two-sided halo", 3)
}

/// With two ranks both neighbours are one rank, and NCCL has no tags: its edges arrive the wrong
/// way round.
pub(crate) fn claims_two_ranks() -> NearMiss {
    NearMiss::new(both_neighbours("two-sided halo of two", 2), Check::Matching)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("halo.rs"), ["to the left", "from the left"])
        .mend("n >= 3")
}

/// That a neighbour's edge has arrived does not say that it has read ours.
pub(crate) fn one_copy() -> NearMiss {
    let (mut plan, declared) = declared("halo of one copy");
    let u = plan.window().in_out("u", declared.m);
    in_place(&mut plan, &declared, u);
    NearMiss::new(plan, Check::ReplayHazards)
        .smallest([3])
        .ranks([0, 1])
        .lines(include_str!("halo.rs"), ["overwrites what is read", "is still reading"])
        .mend("two copies")
}

/// The same within one run, which does two steps.
pub(crate) fn one_copy_twice() -> NearMiss {
    let (mut plan, declared) = declared("two steps of a halo of one copy");
    let u = plan.window().in_out("u", declared.m);
    plan.once();
    plan.for_each("step", ..2, |plan, _| in_place(plan, &declared, u));
    NearMiss::new(plan, Check::Hazards)
        .smallest([3])
        .lines(include_str!("halo.rs"), ["overwrites what is read", "is still reading"])
        .mend("signal")
}

/// Two copies are enough between neighbours that wait for each other. Here nobody waits for the
/// rank that it writes to, and may be many runs ahead of it.
pub(crate) fn one_way() -> NearMiss {
    let (mut plan, Declared { m, h, hi, net, .. }) = declared("halo of one side");
    let u = plan.window().swapped().in_out::<Generic>("u", m);
    plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi); // runs ahead
    plan.on(net).wait([hi.from(ring(1))]);
    NearMiss::new(plan, Check::ReplayHazards)
        .smallest([3])
        .ranks([0, 1])
        .lines(include_str!("halo.rs"), ["runs ahead"])
        .mend("signal")
}

/// NCCL starts a group's operations in an order of its own.
pub(crate) fn wait_with_its_cause() -> NearMiss {
    let (mut plan, Declared { m, h, hi, lo, net, .. }) = declared("halo, all in one group");
    let u = plan.window().swapped().in_out::<Generic>("u", m);
    plan.on(net).group(|net| {
        net.put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi);
        net.put(u.slice(m - 2 * h..m - h), ring(1), u.slice(..h)).signal(lo);
        net.wait([hi.from(ring(1)), lo.from(ring(-1))]); // waits in its group
    });
    NearMiss::new(plan, Check::Groups)
        .lines(include_str!("halo.rs"), ["waits in its group"])
        .mend("out of the group")
}

/// Before 2.32 a captured put waits until the signal before it was consumed.
pub(crate) fn two_signals_in_a_graph() -> NearMiss {
    let mut plan = two_signals("two puts before a wait");
    plan.target(2, 30, 7);
    NearMiss::new(plan, Check::CapturedCredit)
        .lines(include_str!("halo.rs"), ["the second"])
        .mend("call by call")
}

/// The same where it may be: NCCL 2.32 counts.
pub(crate) fn two_signals_counted() -> PlanBuilder {
    two_signals("two puts before a wait, counted")
}

/// Before 2.31 all signals between two ranks are one counter, and the first is taken for the
/// second.
pub(crate) fn awaited_in_another_order() -> NearMiss {
    let (mut plan, Declared { m, h, hi, lo, net, .. }) = declared("two signals, one counter");
    let u = plan.window().swapped().in_out::<Generic>("u", m);
    plan.target(2, 30, 7);
    plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi); // raised first
    plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(..h)).signal(lo);
    plan.on(net).wait([lo.from(ring(1))]); // awaited first
    plan.on(net).wait([hi.from(ring(1))]);
    NearMiss::new(plan, Check::Signals)
        .smallest([3])
        .lines(include_str!("halo.rs"), ["raised first", "awaited first"])
}

/// It is raised once.
pub(crate) fn awaits_one_too_many() -> NearMiss {
    let (mut plan, Declared { m, h, hi, net, .. }) = declared("halo that waits twice");
    let u = plan.window().swapped().in_out::<Generic>("u", m);
    plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi); // raised once
    plan.on(net).wait([hi.from(ring(1)).times(2)]); // awaited twice
    NearMiss::new(plan, Check::Signals)
        .lines(include_str!("halo.rs"), ["raised once", "awaited twice"])
        .mend("fewer")
}

struct Declared {
    m: Number,
    h: Number,
    hi: Signal,
    lo: Signal,
    net: Stream,
    cmp: Stream,
}

fn declared(name: &str) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    plan.ranks(3..);
    let m = plan.param("m", 1..);
    let h = plan.param("h", 1..);
    plan.promise(m.ge(4 * h));
    let (hi, lo) = (plan.signal("hi"), plan.signal("lo"));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    (plan, Declared { m, h, hi, lo, net, cmp })
}

/// A step that updates its only copy.
fn in_place(plan: &mut PlanBuilder, declared: &Declared, u: Window<Generic>) {
    let &Declared { m, h, hi, lo, net, cmp } = declared;
    plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi); // overwrites what is read
    plan.on(net).put(u.slice(m - 2 * h..m - h), ring(1), u.slice(..h)).signal(lo);
    plan.on(net).wait([hi.from(ring(1)), lo.from(ring(-1))]);
    plan.on(cmp).after([net]).run("update").reads(u).writes(u); // is still reading
}

fn both_neighbours(name: &str, smallest: i64) -> PlanBuilder {
    let mut plan = PlanBuilder::new(name);
    plan.ranks(smallest..);
    let h = plan.param("h", 1..);
    let edge = |plan: &mut PlanBuilder, name| -> Buffer<Generic> { plan.input(name, h) };
    let (left, right) = (edge(&mut plan, "left"), edge(&mut plan, "right"));
    let halo = |plan: &mut PlanBuilder, name| -> Buffer<Generic> { plan.output(name, h) };
    let (lo, hi) = (halo(&mut plan, "from_left"), halo(&mut plan, "from_right"));
    let net = plan.stream("net");
    plan.on(net).group(|net| {
        net.send(left, ring(-1)); // to the left
        net.send(right, ring(1));
        net.receive(lo, ring(-1)); // from the left
        net.receive(hi, ring(1));
    });
    plan
}

fn two_signals(name: &str) -> PlanBuilder {
    let (mut plan, Declared { h, hi, lo, net, .. }) = declared(name);
    let edge = plan.window().in_out::<Generic>("edge", 2 * h);
    let halo = plan.window().swapped().local::<Generic>("halo", 4 * h);
    plan.captured();
    plan.on(net).put(edge.chunk(2, 0), ring(-1), halo.chunk(4, 2)).signal(hi);
    plan.on(net).put(edge.chunk(2, 1), ring(-1), halo.chunk(4, 3)).signal(hi); // the second
    plan.on(net).put(edge.chunk(2, 0), ring(1), halo.chunk(4, 0)).signal(lo);
    plan.on(net).put(edge.chunk(2, 1), ring(1), halo.chunk(4, 1)).signal(lo);
    plan.on(net).wait([hi.from(ring(1)).times(2), lo.from(ring(-1)).times(2)]);
    plan
}

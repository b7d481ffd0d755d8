//! Ranks that do not all do the same: the first and the last, every second one.

use typed_nccl_plan::build::{
    Buffer, Generic, Guard, Number, PlanBuilder, Signal, Stream, SwappedWindow, Window, chain, ring,
};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// Even ranks send to the next one first, odd ranks receive first.
pub(crate) fn by_turns_in_a_chain() -> PlanBuilder {
    let (mut plan, d) = declared("by turns in a chain", 1..);
    plan.when((d.r % 2).eq(0), |plan| {
        plan.on(d.net).send(d.x, chain(1));
        plan.on(d.net).receive(d.y, chain(-1));
    });
    plan.when((d.r % 2).ne(0), |plan| {
        plan.on(d.net).receive(d.y, chain(-1));
        plan.on(d.net).send(d.x, chain(1));
    });
    plan
}

/// The same around a ring of an even number of ranks.
pub(crate) fn by_turns_around_a_ring() -> PlanBuilder {
    let (mut plan, d) = declared("by turns around a ring", 2..);
    plan.promise((d.n % 2).eq(0));
    around(&mut plan, &d, |r| (r % 2).eq(0), |r| (r % 2).eq(1));
    plan
}

/// With all others sending first, an odd number of ranks does not wait in a circle either.
pub(crate) fn by_turns_around_any_ring() -> PlanBuilder {
    let (mut plan, d) = declared("by turns around any ring", 2..);
    around(&mut plan, &d, |r| (r % 2).eq(0), |r| (r % 2).eq(1));
    plan
}

/// Every third rank receives first, and the others send first.
pub(crate) fn by_threes() -> PlanBuilder {
    let (mut plan, d) = declared("by threes", 3..);
    plan.promise((d.n % 3).eq(0));
    around(&mut plan, &d, |r| (r % 3).lt(2), |r| (r % 3).eq(2));
    plan
}

/// All ranks are even, by mistake: both neighbours of every rank send.
pub(crate) fn all_send_first() -> NearMiss {
    let (mut plan, d) = declared("nobody receives first", 2..);
    plan.promise((d.n % 2).eq(0));
    around(&mut plan, &d, |r| (r % 2).lt(2), |r| (r % 2).gt(1)); // all of them
    NearMiss::new(plan, Check::Deadlock).smallest([2]).ranks([0, 1])
}

/// From even ranks to even ones: there are no such neighbours.
pub(crate) fn every_second_is_silent() -> NearMiss {
    let (mut plan, d) = declared("every second is silent", 2..);
    plan.promise((d.n % 2).eq(0));
    plan.when((d.r % 2).eq(0), |plan| {
        plan.on(d.net).send(d.x, ring(1)); // to nobody
        plan.on(d.net).receive(d.y, ring(-1));
    });
    NearMiss::new(plan, Check::Matching)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("apart.rs"), ["to nobody"])
}

/// A token goes once around: the first rank begins.
pub(crate) fn token() -> PlanBuilder {
    let (mut plan, d) = declared("token", 2..);
    around(&mut plan, &d, |r| r.eq(0), |r| r.ne(0));
    plan
}

/// Two of them on the way at once, from the first rank and from the last.
pub(crate) fn two_tokens() -> PlanBuilder {
    let (mut plan, d) = declared("two tokens", 3..);
    let n = d.n;
    around(&mut plan, &d, |r| r.eq(0).or(r.eq(n - 1)), |r| r.gt(0).and(r.lt(n - 1)));
    plan
}

/// Nobody begins.
pub(crate) fn token_that_nobody_has() -> NearMiss {
    let (mut plan, d) = declared("token that nobody has", 2..);
    around(&mut plan, &d, |r| r.lt(0), |r| r.ge(0));
    NearMiss::new(plan, Check::Deadlock).smallest([2]).ranks([0, 1])
}

/// Everybody begins.
pub(crate) fn token_that_all_have() -> NearMiss {
    let (mut plan, d) = declared("token that all have", 2..);
    around(&mut plan, &d, |r| r.ge(0), |r| r.lt(0));
    NearMiss::new(plan, Check::Deadlock).smallest([2]).ranks([0, 1])
}

/// The fifth rank begins: with fewer, nobody does.
pub(crate) fn token_of_the_fifth_rank() -> NearMiss {
    let (mut plan, d) = declared("token of the fifth rank", 2..);
    around(&mut plan, &d, |r| r.eq(4), |r| r.ne(4));
    NearMiss::new(plan, Check::Deadlock).smallest([2]).ranks([0, 1])
}

/// A pipeline whose first rank loads and whose last one computes the loss.
pub(crate) fn pipeline() -> PlanBuilder {
    let (mut plan, Stages { n, r, input, output, total, net, cmp }) = stages("load and loss");
    let mb = plan.param("mb", 1..);
    plan.for_each("i", ..mb, |plan, i| {
        plan.when(r.eq(0), |plan| {
            plan.on(cmp).run("load").argument(i).writes(input);
        });
        plan.sequence(|plan| {
            plan.on(cmp).after([net]).run("forward").reads(input).writes(output);
            plan.on(net).after([cmp]).transfer(output, chain(1), input);
        });
        plan.when(r.eq(n - 1), |plan| {
            plan.on(cmp).run("loss").argument(i).reads(output).writes(total);
        });
    });
    plan
}

/// Nobody loads: the last rank instead of the first does.
pub(crate) fn pipeline_loads_at_the_wrong_end() -> NearMiss {
    let (mut plan, Stages { n, r, output, total, net, cmp, .. }) = stages("loads at the end");
    let input = plan.local::<Generic>("read", 4);
    plan.when(r.eq(n - 1), |plan| {
        plan.on(cmp).run("load").writes(input);
    });
    plan.sequence(|plan| {
        plan.on(cmp).after([net]).run("forward").reads(input).writes(output); // of nothing
        plan.on(net).after([cmp]).transfer(output, chain(1), input);
    });
    plan.when(r.eq(0), |plan| {
        plan.on(cmp).run("loss").reads(output).writes(total);
    });
    NearMiss::new(plan, Check::Initialised)
        .smallest([2])
        .ranks([0])
        .lines(include_str!("apart.rs"), ["of nothing"])
}

/// Borders to both neighbours in a chain, written as steps around a ring that the ends do not take.
pub(crate) fn halo() -> PlanBuilder {
    let (mut plan, d) = borders("halo in a chain");
    let u: SwappedWindow<Generic> = plan.window().swapped().in_out("u", d.m);
    let Borders { n, r, m, h, hi, lo, net, cmp } = d;
    plan.captured();
    plan.when(r.gt(0), |plan| {
        plan.on(net).put(u.slice(h..2 * h), ring(-1), u.slice(m - h..m)).signal(hi);
    });
    plan.when(r.lt(n - 1), |plan| {
        plan.on(net).put(u.slice(m - 2 * h..m - h), ring(1), u.slice(..h)).signal(lo);
    });
    plan.on(cmp).run("interior").reads(u.slice(h..m - h)).writes(u.next().slice(2 * h..m - 2 * h));
    plan.when(r.lt(n - 1), |plan| plan.on(net).wait([hi.from(ring(1))]));
    plan.when(r.gt(0), |plan| plan.on(net).wait([lo.from(ring(-1))]));
    plan.on(cmp)
        .after([net])
        .run("edges")
        .reads(u)
        .writes(u.next().slice(h..2 * h))
        .writes(u.next().slice(m - 2 * h..m - h));
    plan
}

/// The first rank waits for the last one too, which puts nothing there.
pub(crate) fn halo_awaited_across_the_ends() -> NearMiss {
    let (mut plan, d) = borders("halo awaited across the ends");
    let u: SwappedWindow<Generic> = plan.window().swapped().in_out("u", d.m);
    let Borders { n, r, m, h, lo, net, cmp, .. } = d;
    plan.when(r.lt(n - 1), |plan| {
        plan.on(net).put(u.slice(m - 2 * h..m - h), ring(1), u.slice(..h)).signal(lo);
    });
    plan.on(net).wait([lo.from(ring(-1))]); // all wait
    plan.on(cmp).after([net]).run("edges").reads(u).writes(u.next().slice(h..m - h));
    NearMiss::new(plan, Check::Signals)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("apart.rs"), ["all wait"])
}

/// All but the last rank let the next run wait until they have read: the last one may still be
/// reading.
pub(crate) fn halo_in_one_copy() -> NearMiss {
    let (mut plan, d) = borders("halo in one copy");
    let u: Window<Generic> = plan.window().in_out("u", d.m);
    let Borders { n, r, m, h, hi, lo, net, cmp } = d;
    plan.when(r.lt(n - 1), |plan| {
        plan.on(net).put(u.slice(m - 2 * h..m - h), ring(1), u.slice(..h)).signal(lo);
    });
    plan.when(r.gt(0), |plan| plan.on(net).wait([lo.from(ring(-1))]));
    plan.on(cmp).after([net]).run("edges").reads(u).writes(u); // still reading
    plan.when(r.gt(0).and(r.lt(n - 1)), |plan| plan.on(net).after([cmp]).signal(hi, ring(-1)));
    plan.when(r.lt(n - 2), |plan| plan.on(net).wait([hi.from(ring(1))]));
    NearMiss::new(plan, Check::ReplayHazards)
        .smallest([2])
        .lines(include_str!("apart.rs"), ["still reading"])
}

struct Declared {
    n: Number,
    r: Number,
    x: Buffer<Generic>,
    y: Buffer<Generic>,
    net: Stream,
}

fn declared(name: &str, ranks: impl Into<typed_nccl_plan::ir::Values>) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    let n = plan.ranks(ranks);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let (x, y) = (plan.in_out("x", len), plan.in_out("y", len));
    let net = plan.stream("net");
    (plan, Declared { n, r, x, y, net })
}

/// Some ranks send to the next one around the ring before they receive, others receive before they
/// send.
fn around(
    plan: &mut PlanBuilder,
    d: &Declared,
    sends_first: impl FnOnce(Number) -> Guard,
    receives_first: impl FnOnce(Number) -> Guard,
) {
    plan.when(sends_first(d.r), |plan| {
        plan.on(d.net).send(d.x, ring(1));
        plan.on(d.net).receive(d.y, ring(-1));
    });
    plan.when(receives_first(d.r), |plan| {
        plan.on(d.net).receive(d.y, ring(-1));
        plan.on(d.net).send(d.x, ring(1));
    });
}

struct Stages {
    n: Number,
    r: Number,
    input: Buffer<Generic>,
    output: Buffer<Generic>,
    total: Buffer<Generic>,
    net: Stream,
    cmp: Stream,
}

fn stages(name: &str) -> (PlanBuilder, Stages) {
    let mut plan = PlanBuilder::new(name);
    let n = plan.ranks(2..);
    let r = plan.rank();
    let (input, output) = (plan.in_out("input", 4), plan.in_out("output", 4));
    let total = plan.output("total", 1);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    (plan, Stages { n, r, input, output, total, net, cmp })
}

struct Borders {
    n: Number,
    r: Number,
    m: Number,
    h: Number,
    hi: Signal,
    lo: Signal,
    net: Stream,
    cmp: Stream,
}

fn borders(name: &str) -> (PlanBuilder, Borders) {
    let mut plan = PlanBuilder::new(name);
    let n = plan.ranks(2..);
    let r = plan.rank();
    let (m, h) = (plan.param("m", 4..), plan.param("h", 1..));
    plan.promise(m.ge(4 * h));
    let (hi, lo) = (plan.signal("hi"), plan.signal("lo"));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    (plan, Borders { n, r, m, h, hi, lo, net, cmp })
}

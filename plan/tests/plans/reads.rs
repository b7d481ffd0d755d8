//! Ranks that read each other's windows.

use typed_nccl_plan::build::{
    Buffer, Generic, Number, PlanBuilder, Signal, Stream, Symmetric, chain, ring,
};
use typed_nccl_plan::ir::{CollectiveKind, Reduction};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

const SUM: CollectiveKind = CollectiveKind::AllReduce(Reduction::Sum);

/// Every rank reads what the next one shows, once that one says so, and says when it has read.
pub(crate) fn around_a_ring() -> PlanBuilder {
    let (mut plan, d) = declared("reads around a ring", 1);
    plan.on(d.net).copy(d.x, d.shown);
    plan.on(d.net).signal(d.ready, ring(-1));
    plan.on(d.net).wait([d.ready.from(ring(1))]);
    plan.on(d.net).gathered(d.y, Reduction::Sum, |of| of.rank(d.shown, ring(1)));
    plan.on(d.net).signal(d.done, ring(1));
    plan.on(d.net).wait([d.done.from(ring(-1))]);
    plan.holds(d.y, Reduction::Sum, |of| of.rank(d.x, ring(1)));
    plan
}

/// Along a chain: the last rank reads nothing, and its memory stays as it is.
pub(crate) fn along_a_chain() -> PlanBuilder {
    let mut plan = PlanBuilder::new("reads along a chain");
    plan.ranks(1..);
    let len = plan.param("len", 1..);
    let (x, shown) =
        (plan.in_out::<Generic>("x", len), plan.window().local::<Generic>("shown", len));
    let (ready, done, net) = (plan.signal("ready"), plan.signal("done"), plan.stream("net"));
    plan.on(net).copy(x, shown);
    plan.on(net).signal(ready, chain(-1));
    plan.on(net).wait([ready.from(chain(1))]);
    plan.on(net).gathered(x, Reduction::Sum, |of| {
        of.own(x);
        of.rank(shown, chain(1));
    });
    plan.on(net).signal(done, chain(1));
    plan.on(net).wait([done.from(chain(-1))]);
    plan.holds(x, Reduction::Sum, |of| {
        of.own(x);
        of.rank(x, chain(1));
    });
    plan
}

/// One kernel adds up what all ranks show.
pub(crate) fn one_shot() -> PlanBuilder {
    let mut plan = PlanBuilder::new("all-reduce in one shot, by reads");
    let n = plan.ranks(1..=16);
    let len = plan.param("len", 1..);
    let (x, shown) =
        (plan.in_out::<Generic>("x", len), plan.window().local::<Generic>("shown", len));
    let (ready, done, net) = (plan.signal("ready"), plan.signal("done"), plan.stream("net"));
    plan.on(net).copy(x, shown);
    everyone(&mut plan, n, net, ready);
    plan.on(net).gathered(x, Reduction::Sum, |of| {
        of.for_each("r", ..n, |of, r| of.rank(shown, typed_nccl_plan::build::at(r)));
    });
    everyone(&mut plan, n, net, done);
    plan.computes(SUM, x, x);
    plan
}

/// Each rank adds up its part of all windows, which the caller fills; then all read the sums.
pub(crate) fn two_shots() -> PlanBuilder {
    let mut plan = PlanBuilder::new("all-reduce in two shots, by reads");
    let n = plan.ranks(1..);
    let len = plan.param("len", 1..);
    plan.promise((len % n).eq(0));
    let x: Buffer<Generic, Symmetric> = plan.window().in_out("x", len);
    let (ready, summed) = (plan.signal("ready"), plan.signal("summed"));
    let (done, net) = (plan.signal("done"), plan.stream("net"));
    let r = plan.rank();
    everyone(&mut plan, n, net, ready);
    let own = x.chunk(n, r);
    plan.for_each("i", Number::from(1)..n, |plan, i| {
        plan.on(net).gathered(own, Reduction::Sum, |of| {
            of.own(own);
            of.rank(own, ring(i));
        });
    });
    everyone(&mut plan, n, net, summed);
    plan.for_each("i", Number::from(1)..n, |plan, i| {
        let theirs = x.chunk(n, (r + i) % n);
        plan.on(net).gathered(theirs, Reduction::Sum, |of| of.rank(theirs, ring(i)));
    });
    everyone(&mut plan, n, net, done);
    plan.computes(SUM, x, x);
    plan
}

/// Two copies: a rank fills one while its neighbour may still read the other. That the neighbour
/// says it is ready says that it has read, too.
pub(crate) fn in_two_copies() -> PlanBuilder {
    let (mut plan, Declared { x, y, ready, net, len, .. }) = declared("reads of two copies", 2);
    let both = plan.window().swapped().local::<Generic>("both", len);
    plan.on(net).copy(x, both);
    plan.on(net).signal(ready, ring(-1));
    plan.on(net).signal(ready, ring(1));
    plan.on(net).wait([ready.from(ring(1)), ready.from(ring(-1))]);
    plan.on(net).gathered(y, Reduction::Sum, |of| of.rank(both, ring(1)));
    plan.holds(y, Reduction::Sum, |of| of.rank(x, ring(1)));
    plan
}

/// Nobody says that the memory may be read.
pub(crate) fn without_ready() -> NearMiss {
    let (mut plan, d) = declared("reads what may not be there", 2);
    plan.on(d.net).copy(d.x, d.shown); // shows
    plan.on(d.net).gathered(d.y, Reduction::Sum, |of| of.rank(d.shown, ring(1))); // too early
    plan.on(d.net).signal(d.done, ring(1));
    plan.on(d.net).wait([d.done.from(ring(-1))]);
    NearMiss::new(plan, Check::Hazards)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("reads.rs"), ["shows", "too early"])
        .mend("signal ready2 to (rank - 1) % n")
}

/// Nobody says that it has been read: the next run writes over it.
pub(crate) fn without_done() -> NearMiss {
    let (mut plan, d) = declared("writes over what is read", 2);
    plan.on(d.net).copy(d.x, d.shown); // writes over it
    plan.on(d.net).signal(d.ready, ring(-1));
    plan.on(d.net).wait([d.ready.from(ring(1))]);
    plan.on(d.net).gathered(d.y, Reduction::Sum, |of| of.rank(d.shown, ring(1))); // still reads
    NearMiss::new(plan, Check::ReplayHazards)
        .smallest([2])
        .lines(include_str!("reads.rs"), ["writes over it", "still reads"])
        .mend("signal done2 to (rank + 1) % n")
}

/// The same within a run: a second turn writes over what the first one reads.
pub(crate) fn without_done_in_a_loop() -> NearMiss {
    let (mut plan, d) = declared("writes over what is read in a loop", 2);
    plan.once();
    plan.for_each("i", ..2, |plan, _| {
        plan.on(d.net).copy(d.x, d.shown); // its next turn
        plan.on(d.net).signal(d.ready, ring(-1));
        plan.on(d.net).wait([d.ready.from(ring(1))]);
        plan.on(d.net).gathered(d.y, Reduction::Sum, |of| of.rank(d.shown, ring(1))); // this turn
    });
    NearMiss::new(plan, Check::Hazards)
        .smallest([2])
        .lines(include_str!("reads.rs"), ["its next turn", "this turn"])
        .mend("at the end of the loop's body")
}

/// The caller fills the window whenever its own run allows.
pub(crate) fn of_a_caller() -> NearMiss {
    let mut plan = PlanBuilder::new("reads of what a caller fills");
    plan.ranks(2..);
    let len = plan.param("len", 1..);
    let given = plan.window().input::<Generic>("given", len);
    let (y, net) = (plan.output::<Generic>("y", len), plan.stream("net"));
    plan.once();
    plan.on(net).gathered(y, Reduction::Sum, |of| of.rank(given, ring(1))); // without a word
    NearMiss::new(plan, Check::Hazards)
        .smallest([2])
        .lines(include_str!("reads.rs"), ["without a word"])
        .mend("signal ready to (rank - 1) % n")
}

/// And fills it again for the next run.
pub(crate) fn of_a_caller_twice() -> NearMiss {
    let mut plan = PlanBuilder::new("reads of what a caller fills again");
    plan.ranks(3..);
    let len = plan.param("len", 1..);
    let given = plan.window().input::<Generic>("given", len);
    let (y, ready, net) =
        (plan.output::<Generic>("y", len), plan.signal("ready"), plan.stream("net"));
    plan.on(net).signal(ready, ring(-1));
    plan.on(net).wait([ready.from(ring(1))]);
    plan.on(net).gathered(y, Reduction::Sum, |of| of.rank(given, ring(1))); // not over
    NearMiss::new(plan, Check::ReplayHazards)
        .smallest([3])
        .lines(include_str!("reads.rs"), ["not over"])
        .mend("signal done to (rank + 1) % n")
}

/// Only windows can be reached from other ranks.
pub(crate) fn of_no_window() -> NearMiss {
    let (mut plan, d) = declared("reads what is no window", 2);
    plan.on(d.net).gathered(d.y, Reduction::Sum, |of| of.rank(d.x, ring(1))); // no window
    NearMiss::new(plan, Check::Bounds)
        .smallest([2])
        .lines(include_str!("reads.rs"), ["no window"])
        .mend("declare `in window x`")
}

/// Nothing has written the window.
pub(crate) fn of_nothing() -> NearMiss {
    let (mut plan, d) = declared("reads what nobody wrote", 2);
    plan.on(d.net).signal(d.ready, ring(-1));
    plan.on(d.net).wait([d.ready.from(ring(1))]);
    plan.on(d.net).gathered(d.y, Reduction::Sum, |of| of.rank(d.shown, ring(1))); // of nothing
    NearMiss::new(plan, Check::Initialised)
        .smallest([2])
        .lines(include_str!("reads.rs"), ["of nothing"])
        .mend("before, with a signal from there")
}

/// What is read is longer than where it goes.
pub(crate) fn longer_there() -> NearMiss {
    let (mut plan, d) = declared("reads two of one length", 2);
    let longer = plan.window().input::<Generic>("longer", d.len + 1);
    plan.once();
    plan.on(d.net).signal(d.ready, ring(-1));
    plan.on(d.net).wait([d.ready.from(ring(1))]);
    plan.on(d.net).gathered(d.y, Reduction::Sum, |of| of.rank(longer, ring(1))); // one more
    NearMiss::new(plan, Check::Agreement)
        .smallest([2])
        .lines(include_str!("reads.rs"), ["one more"])
        .mend("as many elements on both sides")
}

/// The rank before the first one.
pub(crate) fn before_the_first() -> NearMiss {
    let (mut plan, d) = declared("reads before the first", 2);
    let r = plan.rank();
    plan.on(d.net).gathered(d.y, Reduction::Sum, |of| {
        of.rank(d.shown, typed_nccl_plan::build::at(r - 1)); // nobody
    });
    NearMiss::new(plan, Check::Bounds).smallest([2]).mend("shift that wraps")
}

/// All tell all others.
fn everyone(plan: &mut PlanBuilder, n: Number, net: Stream, signal: Signal) {
    plan.for_each("i", Number::from(1)..n, |plan, i| plan.on(net).signal(signal, ring(i)));
    plan.for_each("i", Number::from(1)..n, |plan, i| {
        plan.on(net).wait([signal.from(ring(-i))]);
    });
}

struct Declared {
    len: Number,
    x: Buffer<Generic>,
    y: Buffer<Generic>,
    shown: Buffer<Generic, Symmetric>,
    ready: Signal,
    done: Signal,
    net: Stream,
}

fn declared(name: &str, least: i64) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    plan.ranks(least..);
    let len = plan.param("len", 1..);
    let (x, y) = (plan.input("x", len), plan.output("y", len));
    let shown = plan.window().local("shown", len);
    let (ready, done, net) = (plan.signal("ready"), plan.signal("done"), plan.stream("net"));
    (plan, Declared { len, x, y, shown, ready, done, net })
}

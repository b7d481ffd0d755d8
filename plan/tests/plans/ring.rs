//! Every rank sends to the next one around a ring.

use typed_nccl_plan::build::{Buffer, PlanBuilder, Stream, at, ring};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// `a @ r -> b @ (r + 1) % n`, for any n.
pub(crate) fn exchange() -> PlanBuilder {
    let (mut plan, Declared { a, b, net }) = declared("ring exchange", 1);
    plan.on(net).transfer(a, ring(1), b);
    plan
}

/// In two messages, which fill `b` together.
pub(crate) fn in_two_halves() -> PlanBuilder {
    let mut plan = PlanBuilder::new("ring exchange in two halves");
    plan.ranks(1..=8);
    let len = plan.param("len", [1, 2, 3, 8]);
    let a = plan.input::<f32>("a", len);
    let b = plan.output::<f32>("b", len);
    let net = plan.stream("net");
    plan.on(net).transfer(a.slice(..len / 2), ring(1), b.slice(..len / 2));
    plan.on(net).transfer(a.slice(len / 2..), ring(1), b.slice(len / 2..));
    plan.covers(b);
    plan
}

/// Everyone sends first and receives then: nobody gets to receiving.
pub(crate) fn sends_first() -> NearMiss {
    let (mut plan, Declared { a, b, net }) = declared("ring, sends first", 2);
    plan.on(net).send(a, ring(1)); // everyone sends
    plan.on(net).receive(b, ring(-1));
    NearMiss::new(plan, Check::Deadlock)
        .smallest([2])
        .ranks([0, 1])
        .lines(include_str!("ring.rs"), ["everyone sends"])
        .mend("group")
}

/// Rank 0 does not receive what the last rank sends it.
pub(crate) fn sends_what_nobody_receives() -> NearMiss {
    let mut plan = PlanBuilder::new("ring, one does not receive");
    plan.ranks(2..);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let a = plan.input::<f32>("a", len);
    let b = plan.in_out::<f32>("b", len);
    let net = plan.stream("net");
    plan.on(net).group(|net| {
        net.send(a, ring(1)); // nobody receives
        net.when(r.gt(0), |net| net.receive(b, ring(-1)));
    });
    NearMiss::new(plan, Check::Matching)
        .smallest([2])
        .ranks([1, 0])
        .lines(include_str!("ring.rs"), ["nobody receives"])
        .mend("receive")
}

/// In the local view nothing but the checker sees both ends.
pub(crate) fn receives_doubles() -> NearMiss {
    let mut plan = PlanBuilder::new("ring, f32 into f64");
    plan.ranks(1..);
    let len = plan.param("len", 1..);
    let a = plan.input::<f32>("a", len);
    let b = plan.output::<f64>("b", len);
    let net = plan.stream("net");
    plan.on(net).group(|net| {
        net.send(a, ring(1)); // f32
        net.receive(b, ring(-1)); // f64
    });
    NearMiss::new(plan, Check::Agreement)
        .smallest([1])
        .lines(include_str!("ring.rs"), ["f32", "f64"])
        .mend("one type")
}

/// Half of the ring and two thirds are one rank if there are two, and each receives what was meant
/// for the other.
pub(crate) fn half_for_two_thirds() -> NearMiss {
    let mut plan = PlanBuilder::new("ring, half for two thirds");
    let n = plan.ranks([2]);
    let (half, more) = (n / 2, n * 2 / 3);
    let len = plan.param("len", 1..);
    let (a, b) = (plan.input::<f32>("a", len), plan.input::<f32>("b", len));
    let (x, y) = (plan.output::<f32>("x", len), plan.output::<f32>("y", len));
    let net = plan.stream("net");
    plan.on(net).group(|net| {
        net.send(a, ring(half)); // half sends
        net.send(b, ring(more));
        net.receive(y, ring(-more)); // two thirds receives
        net.receive(x, ring(-half));
    });
    NearMiss::new(plan, Check::Matching)
        .smallest([2])
        .lines(include_str!("ring.rs"), ["half sends", "two thirds receives"])
        .mend("two steps")
}

/// What arrives overwrites what is being sent.
pub(crate) fn onto_itself() -> NearMiss {
    let mut plan = PlanBuilder::new("ring in one buffer");
    plan.ranks(1..);
    let len = plan.param("len", 1..);
    let a = plan.in_out::<f32>("a", len);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), a); // onto itself
    NearMiss::new(plan, Check::Groups)
        .smallest([1])
        .lines(include_str!("ring.rs"), ["onto itself"])
        .mend("two buffers")
}

/// Rank 0 sends to itself, and receives in a step of its own.
pub(crate) fn itself_in_two_steps() -> NearMiss {
    let mut plan = PlanBuilder::new("self message in two steps");
    plan.ranks(1..);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let a = plan.input::<f32>("a", len);
    let b = plan.in_out::<f32>("b", len);
    let net = plan.stream("net");
    plan.when(r.eq(0), |plan| {
        plan.on(net).send(a, at(0)); // sent to itself
        plan.on(net).receive(b, at(0)); // received from itself
    });
    NearMiss::new(plan, Check::SelfMessages)
        .smallest([1])
        .ranks([0])
        .lines(include_str!("ring.rs"), ["sent to itself", "received from itself"])
        .mend("group")
}

/// An output that was forgotten.
pub(crate) fn output_never_written() -> NearMiss {
    let (mut plan, Declared { a, b, net }) = declared("ring with an output too many", 1);
    plan.output::<f32>("c", b.len()); // never written
    plan.on(net).transfer(a, ring(1), b);
    NearMiss::new(plan, Check::Initialised)
        .smallest([1])
        .lines(include_str!("ring.rs"), ["never written"])
        .mend("write it")
}

/// A group is launched on one stream.
pub(crate) fn on_two_streams() -> NearMiss {
    let (mut plan, Declared { a, b, net }) = declared("ring on two streams", 1);
    let other = plan.stream("other");
    plan.group(|plan| {
        plan.on(net).send(a, ring(1)); // on one stream
        plan.on(other).receive(b, ring(-1)); // on another
    });
    NearMiss::new(plan, Check::Groups)
        .smallest([1])
        .lines(include_str!("ring.rs"), ["on one stream", "on another"])
        .mend("stream")
}

struct Declared {
    a: Buffer<f32>,
    b: Buffer<f32>,
    net: Stream,
}

fn declared(name: &str, smallest: i64) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    plan.ranks(smallest..);
    let len = plan.param("len", 1..);
    let a = plan.input::<f32>("a", len);
    let b = plan.output::<f32>("b", len);
    let net = plan.stream("net");
    (plan, Declared { a, b, net })
}

//! Tokens go to the ranks of their experts and come back.

use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, ring};
use typed_nccl_plan::ir::CollectiveKind;
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// By two collectives, for any number of ranks.
pub(crate) fn dispatch_and_combine() -> PlanBuilder {
    let mut plan = PlanBuilder::new("experts");
    let n = plan.ranks(1..);
    let c = plan.param("capacity", 1..);
    let tokens = plan.input::<Generic>("tokens", n * c);
    let inbox = plan.local::<Generic>("inbox", n * c);
    let outbox = plan.local::<Generic>("outbox", n * c);
    let result = plan.output::<Generic>("result", n * c);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).all_to_all(tokens, inbox);
    plan.on(cmp).after([net]).run("experts").reads(inbox).writes(outbox);
    plan.on(net).after([cmp]).all_to_all(outbox, result);
    plan
}

/// By messages, all of them in one group.
pub(crate) fn by_messages() -> PlanBuilder {
    let (mut plan, d) = declared("experts by messages");
    let Declared { n, r, a, b, net } = d;
    plan.on(net).group(|net| {
        net.for_each("k", ..n, |net, k| {
            net.transfer(a.chunk(n, (r + k) % n), ring(k), b.chunk(n, r));
        });
    });
    plan.covers(b);
    plan.computes(CollectiveKind::AllToAll, a, b);
    plan
}

/// The same for any number of ranks: that every place is filled once.
pub(crate) fn by_messages_of_any_number() -> PlanBuilder {
    let mut plan = PlanBuilder::new("experts by messages of any number");
    let n = plan.ranks(1..);
    let r = plan.rank();
    let c = plan.param("capacity", 1..);
    let a = plan.input::<Generic>("a", n * c);
    let b = plan.output::<Generic>("b", n * c);
    let net = plan.stream("net");
    plan.on(net).group(|net| {
        net.for_each("k", ..n, |net, k| {
            net.transfer(a.chunk(n, (r + k) % n), ring(k), b.chunk(n, r));
        });
    });
    plan.covers(b);
    plan
}

/// Every token goes to the right rank, and there to the place of another sender.
pub(crate) fn at_anothers_place() -> NearMiss {
    let (mut plan, d) = declared("experts by messages, shifted");
    let Declared { n, r, a, b, net } = d;
    plan.on(net).group(|net| {
        net.for_each("k", ..n, |net, k| {
            net.transfer(a.chunk(n, (r + k) % n), ring(k), b.chunk(n, (r + 1) % n));
        });
    });
    plan.computes(CollectiveKind::AllToAll, a, b); // says it
    NearMiss::new(plan, Check::Postcondition)
        .smallest([2])
        .lines(include_str!("experts.rs"), ["says it"])
}

/// An all-to-all is messages to NCCL, on the queues of the others.
pub(crate) fn collective_among_messages() -> NearMiss {
    let (mut plan, d) = declared("experts beside messages");
    let c = plan.in_out::<Generic>("c", d.n);
    let e = plan.in_out::<Generic>("e", d.n);
    plan.on(d.net).group(|net| {
        net.all_to_all(d.a, d.b); // among messages
        net.transfer(c, ring(1), e);
    });
    NearMiss::new(plan, Check::Groups).lines(include_str!("experts.rs"), ["among messages"])
}

struct Declared {
    n: Number,
    r: Number,
    a: Buffer<Generic>,
    b: Buffer<Generic>,
    net: Stream,
}

fn declared(name: &str) -> (PlanBuilder, Declared) {
    let mut plan = PlanBuilder::new(name);
    let n = plan.ranks(1..=8);
    let r = plan.rank();
    let c = plan.param("capacity", [1, 2, 3]);
    let a = plan.input("a", n * c);
    let b = plan.output("b", n * c);
    let net = plan.stream("net");
    (plan, Declared { n, r, a, b, net })
}

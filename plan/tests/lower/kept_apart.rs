//! What is not one group, and why.

use typed_nccl_plan::build::{Guard, Number, PlanBuilder, at, ring};
use typed_nccl_plan::ir::Reduction;
use typed_nccl_plan::lower::WarmUp;

use super::verify::{lowered, verify};
use super::words::{all_reduces, apart_because, joined, sizes};
use crate::plans;

#[test]
fn not_across_a_hazard() {
    let plan = all_reduces(2, |_, _, _| ());
    assert_eq!(joined(&lowered(&plan, &sizes(&plan, 2, &[]))), 1);
    let mut plan = PlanBuilder::new("one after another");
    plan.ranks(1..);
    let (a, b) = (plan.input::<f32>("a", 4), plan.output::<f32>("b", 4));
    let c = plan.output::<f32>("c", 4);
    let net = plan.stream("net");
    plan.on(net).all_reduce(a, b, Reduction::Sum);
    plan.on(net).all_reduce(b, c, Reduction::Max);
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 2, &[])), "both touch `b`");
}

#[test]
fn not_across_streams() {
    let mut plan = PlanBuilder::new("two streams");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let streams = [plan.stream("one"), plan.stream("other")];
    plan.on(streams[0]).all_reduce_in_place(a, Reduction::Sum);
    plan.on(streams[1]).all_reduce_in_place(b, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 2, &[])), "two streams, `one` and `other`");
}

#[test]
fn not_with_a_wait() {
    let plan = plans::halo::one_sided().unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[("m", 9), ("h", 2)]));
    let waits = schedule.reasons.iter().filter(|one| one.why.contains("a wait for signals"));
    assert!(waits.clone().count() > 0 && waits.clone().all(|one| !one.joined));
    // The two puts before it are one group.
    assert_eq!(joined(&schedule), 1);
    assert_eq!(schedule.warm_ups, [WarmUp::OneSided(typed_nccl_plan::ir::CommunicatorId(0))]);
}

#[test]
fn not_on_windows() {
    let mut plan = PlanBuilder::new("windows");
    plan.ranks(1..);
    let g = plan.window().array(4).in_out::<f32>("g", |_| 16);
    let net = plan.stream("net");
    plan.for_each("i", ..4, |plan, i| {
        plan.on(net).all_reduce_in_place(g.at(i), Reduction::Sum);
    });
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    apart_because(&schedule, "symmetric kernels");
    assert!(schedule.explain(&plan).contains("85.9 us"));
}

#[test]
fn not_when_the_second_waits_for_more() {
    let mut plan = PlanBuilder::new("buckets");
    plan.ranks(1..);
    let g = plan.array(4).in_out::<f32>("g", |_| 16);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.for_each("i", ..4, |plan, i| {
        plan.on(cmp).run("backward").argument(i).writes(g.at(i));
        plan.on(net).after([cmp]).all_reduce_in_place(g.at(i), Reduction::Sum);
    });
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    apart_because(&schedule, "the second waits for `backward`");
    assert!(schedule.explain(&plan).contains("it is `after` stream `cmp`"));
    // A backward step waits for the last run's all-reduce of its own bucket, and for none of this
    // run.
    for (i, pair) in schedule.ranks[0].calls.chunks(2).enumerate() {
        assert_eq!(
            (pair[0].waits.len(), &pair[0].carried[..]),
            (0, pair[1].records.as_slice()),
            "{i}"
        );
        assert_eq!(
            (&pair[1].waits[..], pair[1].carried.len()),
            (pair[0].records.as_slice(), 0),
            "{i}"
        );
    }
}

#[test]
fn not_when_something_between_waits_for_the_first() {
    let mut plan = PlanBuilder::new("used at once");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    plan.on(cmp).run("use").reads(a);
    plan.on(net).all_reduce_in_place(b, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    apart_because(&schedule, "`use` in line");
    // The next run's first all-reduce writes what `use` reads.
    assert_eq!(schedule.ranks[0].calls[0].carried.len(), 1);
}

#[test]
fn not_where_only_one_end_could_be() {
    // Rank 0 sends twice, and could send in one group; rank 1 reads the first before it takes the
    // second.
    let mut plan = PlanBuilder::new("one end");
    plan.ranks(2);
    let r = plan.rank();
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let net = plan.stream("net");
    let zero = |r: Number| -> Guard { r.eq(0) };
    plan.when(zero(r), |plan| plan.on(net).send(a, at(1)));
    plan.when(zero(r), |plan| plan.on(net).send(b, at(1)));
    plan.when(r.eq(1), |plan| plan.on(net).receive(a, at(0)));
    plan.when(r.eq(1), |plan| {
        plan.on(net).run("use").reads(a).writes(a);
    });
    plan.when(r.eq(1), |plan| plan.on(net).receive(a, at(0)));
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 2, &[])), "does not group");
}

#[test]
fn not_messages_with_collectives() {
    let mut plan = PlanBuilder::new("both");
    plan.ranks(1..);
    let (a, b) = (plan.input::<f32>("a", 4), plan.output::<f32>("b", 4));
    let c = plan.in_out::<f32>("c", 4);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    plan.on(net).all_reduce_in_place(c, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 3, &[])), "messages and collectives");
}

#[test]
fn not_across_calls_that_nccl_orders() {
    let make = |implicit: bool| {
        let mut plan = PlanBuilder::new("implicit order");
        let axis = plan.axis("n", 2);
        let other = plan.communicator("other", [axis]);
        let [a, b, c] = ["a", "b", "c"].map(|name| plan.in_out::<f32>(name, 4));
        let (net, aside) = (plan.stream("net"), plan.stream("aside"));
        plan.on(net).all_reduce_in_place(a, Reduction::Sum);
        if implicit {
            plan.launch_order_is_implicit();
            plan.on(aside).among(other).all_reduce_in_place(b, Reduction::Sum);
        }
        plan.on(net).all_reduce_in_place(c, Reduction::Sum);
        let plan = plan.unchecked().expect("a plan");
        verify(&plan, &sizes(&plan, 2, &[]))
    };
    assert_eq!(joined(&make(false)), 1);
    apart_because(&make(true), "the order of the calls");
}

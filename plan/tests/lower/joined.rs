//! What is one group.

use typed_nccl_plan::build::{PlanBuilder, Slice, at, chain};
use typed_nccl_plan::ir::{Location, Reduction};
use typed_nccl_plan::lower::Operation;

use super::verify::{lowered, verify};
use super::words::{all_reduces, groups, sizes};

#[test]
fn sixty_four_all_reduces_are_one_group() {
    let looped = all_reduces(64, |_, _, _| ());
    let schedule = verify(&looped, &sizes(&looped, 4, &[]));
    for rank in 0..4 {
        let [all] = groups(&schedule, rank)[..] else { panic!("several groups") };
        assert_eq!(all.len(), 64);
        assert!(all.iter().all(|op| matches!(op, Operation::Collective { in_place: true, .. })));
    }
    assert_eq!(schedule.ranks[0].events, 0);
    assert_eq!(schedule.warm_ups.len(), 1);
    assert!(schedule.explain(&looped).contains("joined"), "{}", schedule.explain(&looped));
}

#[test]
fn all_reduces_written_out_are_one_group() {
    let mut plan = PlanBuilder::new("all-reduces");
    plan.ranks(1..);
    let g = plan.in_out::<f32>("g", 64 * 8);
    let net = plan.stream("net");
    for i in 0..64 {
        let part: Slice<f32> = g.chunk(64, i);
        plan.on(net).all_reduce_in_place(part, Reduction::Sum);
    }
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    assert_eq!(groups(&schedule, 2).len(), 1);
}

#[test]
fn a_group_has_2048_operations_at_most() {
    let plan = all_reduces(2049, |_, _, _| ());
    let schedule = lowered(&plan, &sizes(&plan, 2, &[]));
    let lens: Vec<usize> = groups(&schedule, 1).iter().map(|ops| ops.len()).collect();
    assert_eq!(lens, [2048, 1]);
}

#[test]
fn joined_when_the_first_waits_for_all() {
    let mut plan = PlanBuilder::new("buckets at the end");
    plan.ranks(1..);
    let g = plan.array(4).in_out::<f32>("g", |_| 16);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.for_each("i", ..4, |plan, i| {
        plan.on(cmp).run("backward").argument(i).writes(g.at(i));
    });
    plan.for_each("i", ..4, |plan, i| {
        plan.on(net).after([cmp]).all_reduce_in_place(g.at(i), Reduction::Sum);
    });
    plan.on(cmp).after([net]).run("step").reads(g);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    assert_eq!(groups(&schedule, 0).len(), 1);
    let calls = &schedule.ranks[0].calls;
    assert_eq!(calls.iter().map(|call| call.waits.len()).sum::<usize>(), 2);
    // `backward` of the next run stands on the stream of `step`, which has waited for the group.
    assert!(calls.iter().all(|call| call.carried.is_empty()));
    assert_eq!(schedule.ranks[0].events, 2);
}

#[test]
fn independent_work_between_does_not_matter() {
    let mut plan = PlanBuilder::new("apart");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let c = plan.in_out::<f32>("c", 4);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    plan.on(cmp).run("other").reads(c).writes(c);
    plan.on(net).all_reduce_in_place(b, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    assert_eq!((groups(&schedule, 0).len(), schedule.ranks[0].events), (1, 0));
}

#[test]
fn a_way_through_other_ranks_is_no_circuit() {
    // Rank 0 sends to 1, then to 2, which receives only after rank 1 has sent on what it got.
    let mut plan = PlanBuilder::new("detour");
    let axis = plan.axis("n", 3);
    let other = plan.communicator("other", [axis]);
    let r = plan.rank();
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|name| plan.in_out::<f32>(name, 4));
    let (net, aside, cmp) = (plan.stream("net"), plan.stream("aside"), plan.stream("cmp"));
    plan.once();
    plan.when(r.eq(0), |plan| plan.on(net).send(a, at(1)));
    plan.when(r.eq(1), |plan| plan.on(net).receive(a, at(0)));
    plan.when(r.eq(0), |plan| plan.on(net).send(b, at(2)));
    plan.when(r.eq(1), |plan| plan.on(aside).after([net]).among(other).send(a, at(2)));
    plan.when(r.eq(2), |plan| plan.on(aside).among(other).receive(c, at(1)));
    plan.when(r.eq(2), |plan| {
        plan.on(cmp).after([aside]).run("use").reads(c).writes(d);
    });
    plan.when(r.eq(2), |plan| plan.on(net).after([cmp]).receive(e, at(0)));
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    assert_eq!(groups(&schedule, 0).len(), 1, "{}", schedule.explain(&plan));
}

#[test]
fn a_chain_is_joined_at_both_ends() {
    let mut plan = PlanBuilder::new("both ways");
    plan.ranks(2..);
    let [a, b] = ["a", "b"].map(|name| plan.input::<f32>(name, 4));
    let [c, d] = ["c", "d"].map(|name| plan.in_out::<f32>(name, 4));
    let net = plan.stream("net");
    plan.on(net).transfer(a, chain(1), c);
    plan.on(net).transfer(b, chain(-1), d);
    let plan = plan.unchecked().expect("a plan");
    for n in 2..=8 {
        let schedule = verify(&plan, &sizes(&plan, n, &[]));
        assert!((0..n as usize).all(|rank| groups(&schedule, rank).len() == 1));
        assert!(schedule.ranks[0].calls[0].from.iter().all(|at: &Location| at.line > 0));
    }
}

//! Which events are waited for: of this run, and of the last one.

use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::ir::Reduction;
use typed_nccl_plan::lower::Work;

use super::verify::verify;
use super::words::sizes;
use crate::plans;

#[test]
fn a_halo_overlaps_with_its_interior() {
    let plan = plans::halo::one_sided().unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 4, &[("m", 9), ("h", 2)]));
    let interior = schedule.ranks[1]
        .calls
        .iter()
        .find(|call| matches!(&call.work, Work::Compute { name, .. } if name == "interior"));
    assert!(interior.is_some_and(|call| call.waits.is_empty()), "{}", schedule.explain(&plan));
}

#[test]
fn two_copies_carry_over_two_runs() {
    let mut plan = PlanBuilder::new("swapped");
    plan.ranks(1..);
    let x = plan.swapped().in_out::<f32>("x", 4);
    let y = plan.output::<f32>("y", 4);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("use").reads(x).writes(y);
    plan.on(other).run("fill").reads(x).writes(x);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 1, &[]));
    assert_eq!(schedule.ranks[0].calls[0].carried.len(), 1);
    assert!(schedule.why_waits.iter().any(|wait| wait.carried && wait.why == "both use `x`"));
}

#[test]
fn an_event_is_waited_for_as_it_was_recorded_last() {
    let mut plan = PlanBuilder::new("filled for the next run");
    plan.ranks(1..);
    let x = plan.swapped().in_out::<f32>("x", 4);
    let y = plan.output::<f32>("y", 4);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("use").reads(x).writes(y);
    plan.on(other).run("fill").writes(x.next());
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 1, &[]));
    let [uses, fills] = &schedule.ranks[0].calls[..] else { panic!("two calls") };
    // What was used in the last run is filled in this one, when the event stands for this run's use
    // already.
    assert_eq!((&uses.waits[..], &uses.carried[..]), (&[][..], fills.records.as_slice()));
    assert_eq!((&fills.waits[..], &fills.carried[..]), (uses.records.as_slice(), &[][..]));
}

#[test]
fn two_communicators_may_need_more_than_their_memory_says() {
    let mut plan = PlanBuilder::new("ordered by a stream");
    let axis = plan.axis("n", 2);
    let second = plan.communicator("second", [axis]);
    let [x, y] = ["x", "y"].map(|name| plan.in_out::<f32>(name, 4));
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("fill").writes(x);
    plan.on(one).all_reduce_in_place(y, Reduction::Sum);
    plan.on(other).among(second).all_reduce_in_place(x, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    let [fill, first, second] = &schedule.ranks[0].calls[..] else { panic!("three calls") };
    assert_eq!((&second.waits[..], fill.records), (first.records.as_slice(), None));
}

/// The first half of a buffer on one stream, the rest on another, which begin `overlap` elements
/// before it.
fn halves(overlap: i64) -> PlanBuilder {
    let mut plan = PlanBuilder::new("halves");
    plan.ranks(1..);
    let h = plan.param("h", 1..);
    let x = plan.in_out::<f32>("x", h * 2);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("first").writes(x.slice(..h)).reads(x.slice(..h));
    let second = x.slice(h - overlap..);
    plan.on(other).run("second").writes(second).reads(second);
    plan
}

#[test]
fn streams_on_two_halves_of_a_buffer_wait_for_nothing() {
    let plan = halves(0).unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[("h", 4)]));
    assert_eq!(schedule.ranks[0].events, 0, "{}", schedule.explain(&plan));
    assert!(schedule.why_waits.is_empty());
    assert_eq!(schedule.ranks[0].parted(), [(0, 0)]);
}

#[test]
fn streams_that_share_one_element_wait_for_each_other() {
    let plan = halves(1).unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[("h", 4)]));
    let [first, second] = &schedule.ranks[0].calls[..] else { panic!("two calls") };
    assert_eq!((&second.waits[..], first.waits.len()), (first.records.as_slice(), 0));
    // And the next run waits for this one.
    assert_eq!(first.carried.as_slice(), second.records.as_slice());
    assert_eq!(schedule.why_waits[0].why, "both use `x[3..4]`, on rank 0");
    assert!(schedule.ranks[0].parted().is_empty());
}

/// One half along the rows and then along the columns, the other half the other way round.
#[test]
fn the_halves_of_a_torus_overlap() {
    let mut plan = PlanBuilder::new("a torus in two halves");
    plan.launch_order_is_implicit();
    let (rows, cols) = (plan.axis("rows", 1..), plan.axis("cols", 1..));
    let (row, col) = (plan.communicator("row", [cols]), plan.communicator("col", [rows]));
    let h = plan.param("h", 1..);
    let x = plan.in_out::<f32>("x", h * 2);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).among(row).all_reduce_in_place(x.slice(..h), Reduction::Sum);
    plan.on(other).among(col).all_reduce_in_place(x.slice(h..), Reduction::Sum);
    plan.on(one).among(col).all_reduce_in_place(x.slice(..h), Reduction::Sum);
    plan.on(other).among(row).all_reduce_in_place(x.slice(h..), Reduction::Sum);
    let plan = plan.check().expect("a plan that is right").plan().clone();
    let of = plan.sizes(&[2, 2], &[vec![3]]).expect("sizes that it claims");
    let schedule = verify(&plan, &of);
    assert_eq!(schedule.ranks[3].events, 0, "{}", schedule.explain(&plan));
}

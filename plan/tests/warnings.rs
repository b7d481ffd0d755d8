//! What is allowed, and most likely not meant: told of plans that are right.

use crate::plans;
use typed_nccl_plan::build::{Number, PlanBuilder, chain, ring};
use typed_nccl_plan::ir::Reduction;

/// The warnings of a plan that is right, as text.
fn warnings(plan: PlanBuilder) -> Vec<String> {
    let plan = plan.check().expect("a plan that is right");
    let warnings = plan.accepted().warnings();
    warnings.iter().map(|one| one.render(&[]).to_string()).collect()
}

#[test]
fn plans_that_are_meant_so_have_none() {
    for (name, plan) in plans::good() {
        assert_eq!(warnings(plan), [""; 0], "{name}");
    }
}

/// Two collectives, each on a stream, of one communicator or of two halves of a mesh.
fn two_streams(along_axes: bool) -> PlanBuilder {
    let mut plan = PlanBuilder::new("two streams");
    plan.launch_order_is_implicit();
    let (rows, cols) = (plan.axis("rows", 1..), plan.axis("cols", 1..));
    let (row, col) = (plan.communicator("row", [cols]), plan.communicator("col", [rows]));
    let h = plan.param("h", 1..);
    let x = plan.in_out::<f32>("x", h * 2);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    let second = if along_axes { col } else { row };
    plan.on(one).among(row).all_reduce_in_place(x.slice(..h), Reduction::Sum);
    plan.on(other).among(second).all_reduce_in_place(x.slice(h..), Reduction::Sum);
    plan
}

#[test]
fn streams_that_never_overlap_are_told() {
    assert_eq!(warnings(two_streams(true)), [""; 0]);
    let found = warnings(two_streams(false));
    let [one] = &found[..] else { panic!("{found:?}") };
    assert!(
        one.contains("warning: for rows = 1, cols = 1, h = 1: the streams `one`, `other` never")
    );
    assert!(one.contains("operations of `row` run in order"), "{one}");
}

/// Every rank sends to the one so many ahead, as far as there is one.
fn sends(distance: impl Fn(Number) -> Number) -> PlanBuilder {
    let mut plan = PlanBuilder::new("along a chain");
    let n = plan.ranks(1..);
    let (a, b) = (plan.input::<f32>("a", 1), plan.in_out::<f32>("b", 1));
    let net = plan.stream("net");
    plan.on(net).transfer(a, chain(distance(n)), b);
    plan
}

#[test]
fn messages_that_hardly_anybody_sends_are_told() {
    assert_eq!(warnings(sends(|_| 1.into())), [""; 0]);
    assert_eq!(warnings(sends(|_| 2.into())), [""; 0]);
    let found = warnings(sends(|n| n - 1));
    assert!(found[0].contains("for n = 3: most ranks send nothing here"), "{found:?}");
    let found = warnings(sends(|n| n + 1));
    assert!(found[0].contains("nobody ever sends this"), "{found:?}");
}

/// Micro-batches along a chain, each sent into the memory from which it was read.
fn pipeline() -> PlanBuilder {
    let mut plan = PlanBuilder::new("pipeline");
    plan.ranks(1..);
    let h = plan.param("h", 1..);
    let many = plan.param("many", 2..);
    let (inp, act) = (plan.in_out::<f32>("inp", h), plan.local::<f32>("act", h));
    let net = plan.stream("net");
    plan.for_each("m", Number::from(0)..many, |plan, _| {
        plan.on(net).run("work").reads(inp).writes(act);
        plan.on(net).transfer(act, chain(1), inp);
    });
    plan
}

#[test]
fn a_message_after_its_reader_is_told() {
    let found = warnings(pipeline());
    let [one] = &found[..] else { panic!("{found:?}") };
    assert!(one.contains("this message comes into `inp` after a step has read there"), "{one}");
    assert!(one.contains("help: write `recv inp from rank - 1;` before line"), "{one}");
}

#[test]
fn a_message_that_comes_too_late_is_named_instead_of_the_callers_memory() {
    let mut plan = PlanBuilder::new("too late");
    plan.ranks(2..);
    let (inp, act) = (plan.local::<f32>("inp", 1), plan.output::<f32>("act", 1));
    let net = plan.stream("net");
    plan.on(net).run("work").reads(inp).writes(act);
    plan.on(net).transfer(act, ring(1), inp);
    let refused = plan.check().expect_err("nothing has come yet").to_string();
    assert!(refused.contains("help: receive it before line"), "{refused}");
    assert!(!refused.contains("declare it as `inout`"), "{refused}");
}

//! Collectives of some ranks, and collectives that some ranks order.

use plan_simulator::make;
use plan_simulator::make::{all, collective, communicator, compute, on, part, plan, via, when};
use typed_nccl_plan::ir::{
    CollectiveKind, Condition, Expr, Location, Param, ParamId, Reduction, Role, Values,
};

use crate::says::{Says, right, says, wrong};
use crate::words::{N, R, messages, with_two_streams};

#[test]
fn order_by_a_compute_step_of_some_ranks() {
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let steps = |some: Condition| {
        vec![
            collective(sum(), all(0), all(0)),
            when(some, vec![on(compute("f", vec![], vec![]), 1, &[0])]),
            via(on(collective(sum(), all(1), all(1)), 1, &[]), 1),
        ]
    };
    let two = |least: i64, some: Condition| {
        let mut plan = with_two_streams(messages(least, steps(some)));
        plan.communicators.push(communicator("again", &[0]));
        plan
    };
    right(&two(1, R.ge(0)));
    wrong(&two(1, R.ge(1)), 1);
    wrong(&two(1, R.lt(30)), 31);
    wrong(&two(1, R.ne(30)), 31);
    wrong(&two(2, (R % 3).ne(2)), 3);
    wrong(&two(1, Condition::Any(vec![R.lt(20), R.ge(N - 20)])), 41);
}

#[test]
fn collectives_of_some_ranks() {
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let one = |buffer: u32| collective(sum(), all(buffer), all(buffer));
    wrong(&messages(1, vec![when(R.lt(5), vec![one(0)])]), 6);
    wrong(&messages(1, vec![when((R % 2).eq(0), vec![one(0)])]), 2);
    // At different statements, all of them.
    right(&messages(1, vec![when(R.lt(5), vec![one(0)]), when(R.ge(5), vec![one(1)])]));
    wrong(&messages(1, vec![when(R.lt(5), vec![one(0)]), when(R.ge(6), vec![one(1)])]), 6);
    // Of different lengths, from some length on.
    let p = || Expr::Param(ParamId(0));
    let long = |to: Expr| collective(sum(), part(0, 0, to.clone()), part(0, 0, to));
    let lengths = |axis: Values, k: i64| {
        let mut plan = plan(axis);
        let (name, at) = ("p".to_owned(), Location::default());
        plan.params.push(Param { name, values: Values::AtLeast(1), count: None, at });
        plan.buffers = vec![make::buffer("x", Role::InOut, p())];
        plan.steps = vec![when(R.lt(1), vec![long(p())]), when(R.ge(1), vec![long(p() - p() / k)])];
        plan
    };
    assert_eq!(says(&lengths(Values::AtLeast(2), 100)), Says::Refused);
    assert_eq!(says(&lengths(Values::Exactly(2), 100)), Says::Refused);
}

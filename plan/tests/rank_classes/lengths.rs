//! What depends on lengths, under conditions on the rank.

use plan_simulator::make;
use plan_simulator::make::{
    all, chain, collective, communicator, compute, group, named, on, part, plan, put, receive,
    ring, send, transfer, via, wait, when,
};
use typed_nccl_plan::check::check_at;
use typed_nccl_plan::ir::{
    CollectiveKind, Expr, Location, Param, ParamId, Plan, Reduction, Role, Step, Values,
};

use crate::says::{Says, right, says, wrong};
use crate::words::{N, R, promise, with_two_streams};

fn p() -> Expr {
    Expr::Param(ParamId(0))
}

fn of(axis: Values, role: Role, steps: Vec<Step>) -> Plan {
    let mut plan = plan(axis);
    let (name, at) = ("p".to_owned(), Location::default());
    plan.params.push(Param { name, values: Values::AtLeast(1), count: None, at });
    plan.buffers = vec![
        make::buffer("u", Role::In, p()),
        make::buffer("s", role, p()),
        make::buffer("w", Role::InOut, 4),
    ];
    plan.steps = steps;
    plan
}

#[track_caller]
fn refused(plan: &Plan, n: i64, length: i64) {
    assert!(check_at(plan, &make::sizes(plan, &[n], &[vec![length]])).is_err(), "it is right");
    assert_ne!(says(plan), Says::Right);
}

#[test]
fn what_others_send_is_not_there_on_all() {
    let steps = || {
        vec![
            compute("write", vec![], vec![part(1, 0, p() - p() / 64)]),
            when(
                R.lt(1),
                vec![
                    transfer(all(0), ring(1), all(1)),
                    compute("read", vec![part(1, 0, p())], vec![]),
                ],
            ),
        ]
    };
    refused(&of(Values::Exactly(2), Role::Local, steps()), 2, 64);
    refused(&of(Values::AtLeast(2), Role::Local, steps()), 2, 64);
}

#[test]
fn a_collective_that_has_no_length_at_first() {
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let some = || part(1, 0, p() / 100);
    let steps = || vec![when(R.eq(0), vec![collective(sum(), some(), some())])];
    refused(&of(Values::Exactly(2), Role::InOut, steps()), 2, 100);
    refused(&of(Values::AtLeast(2), Role::InOut, steps()), 2, 100);
}

#[test]
fn an_unguarded_collective_that_has_no_length_at_first() {
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let some = || part(1, 0, p() / 100);
    let steps = vec![
        collective(sum(), all(2), all(2)),
        via(on(collective(sum(), some(), some()), 1, &[]), 1),
    ];
    let mut plan = with_two_streams(of(Values::AtLeast(2), Role::InOut, steps));
    plan.communicators.push(communicator("again", &[0]));
    refused(&plan, 2, 100);
}

#[test]
fn a_put_that_has_no_length_at_first() {
    let some = |buffer: u32| part(buffer, 0, p() / 100);
    let steps = || {
        vec![
            on(compute("read", vec![all(1)], vec![all(2)]), 1, &[]),
            put(some(0), ring(1), some(1), Some(0)),
            wait(vec![(0, ring(-1), 1)]),
        ]
    };
    let windows = |axis: Values| {
        let mut plan = with_two_streams(of(axis, Role::InOut, steps()));
        plan.signals = vec![named("told")];
        plan.buffers[0].window = true;
        plan.buffers[1].window = true;
        plan
    };
    refused(&windows(Values::Exactly(2)), 2, 100);
    refused(&windows(Values::AtLeast(2)), 2, 100);
}

#[test]
fn halves_of_different_ranks() {
    let some = |buffer: u32| part(buffer, 0, Expr::Int(1) + R / 64);
    let steps = vec![group(vec![send(some(0), ring(1)), receive(some(1), ring(-1))])];
    let plan = promise(of(Values::AtLeast(2), Role::InOut, steps), p().ge(N));
    refused(&plan, 65, 65);
    // A transfer's half is received by another statement.
    let less = || part(0, 0, p() - p() / 64);
    let steps = vec![
        when(R.eq(0), vec![send(less(), ring(1)), transfer(all(0), ring(1), all(1))]),
        when(R.eq(1), vec![receive(part(1, 0, p() - p() / 64), ring(-1))]),
    ];
    // Rank 1 receives the transfer first.
    let steps = steps.into_iter().rev().collect::<Vec<_>>();
    let crossed = vec![
        when(R.eq(0), vec![send(less(), ring(1))]),
        when(R.eq(0), vec![transfer(all(0), ring(1), all(1))]),
        when(R.eq(1), vec![receive(part(1, 0, p() - p() / 64), ring(-1))]),
    ];
    refused(&of(Values::Exactly(2), Role::InOut, crossed.clone()), 2, 64);
    refused(&of(Values::AtLeast(2), Role::InOut, crossed), 2, 64);
    assert_eq!(says(&of(Values::Exactly(2), Role::InOut, steps)), Says::Right);
}

#[test]
fn what_is_received_is_known_to_its_sender() {
    // Rank 5 receives both, and is not below 5 itself.
    let to = |at: Expr| part(1, at.clone(), at + 1);
    let steps = |clash: Expr| {
        vec![when(
            R.lt(5),
            vec![group(vec![
                transfer(part(0, 0, 1), chain(1), to(R)),
                transfer(part(0, 0, 1), chain(2), to(clash)),
            ])],
        )]
    };
    let fixed = |steps| {
        let mut plan = of(Values::AtLeast(2), Role::InOut, steps);
        plan.buffers[1].len = Expr::Int(8);
        plan
    };
    wrong(&fixed(steps(R + 1)), 3);
    wrong(&fixed(steps(R / 3 * 4)), 6);
    right(&fixed(steps(R + 2)));
}

//! The words of plans in which not all ranks do the same.

use plan_simulator::make;
use plan_simulator::make::{all, compute, named, on, plan, receive, ring, send, when, window};
use typed_nccl_plan::ir::{Condition, Expr, Location, Plan, Promise, Role, Step, Values};

pub(crate) const R: Expr = Expr::Rank;
pub(crate) const N: Expr = Expr::Size;

pub(crate) fn messages(least: i64, steps: Vec<Step>) -> Plan {
    let mut plan = plan(Values::AtLeast(least));
    plan.buffers = vec![
        make::buffer("x", Role::InOut, 4),
        make::buffer("y", Role::InOut, 4),
        make::buffer("z", Role::InOut, 4),
    ];
    plan.steps = steps;
    plan
}

pub(crate) fn promise(mut plan: Plan, condition: Condition) -> Plan {
    plan.promises.push(Promise { condition, at: Location::default() });
    plan
}

pub(crate) fn both(a: Condition, b: Condition) -> Condition {
    Condition::All(vec![a, b])
}

pub(crate) fn not(one: Condition) -> Condition {
    Condition::Not(Box::new(one))
}

pub(crate) fn out(by: i64) -> Step {
    send(all(0), ring(by))
}

pub(crate) fn back(by: i64) -> Step {
    receive(all(1), ring(by))
}

/// Ranks for which a condition holds send to the next one before they receive, the others after that.
pub(crate) fn by_turns(first: Condition) -> Vec<Step> {
    vec![when(first.clone(), vec![out(1), back(-1)]), when(not(first), vec![back(-1), out(1)])]
}

pub(crate) fn with_two_streams(mut plan: Plan) -> Plan {
    plan.streams = vec![named("a"), named("b")];
    plan
}

/// Each rank puts into the next one's window, reads it, and says so.
pub(crate) fn windows(steps: Vec<Step>) -> Plan {
    let mut plan = with_two_streams(messages(2, steps));
    plan.buffers = vec![
        window("u", Role::In, 4),
        window("v", Role::InOut, 4),
        make::buffer("w", Role::InOut, 4),
    ];
    plan.signals = vec![named("told"), named("ready")];
    plan
}

pub(crate) fn read() -> Step {
    on(compute("read", vec![all(1)], vec![all(2)]), 1, &[0])
}

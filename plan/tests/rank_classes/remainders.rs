//! Ranks that are told apart by remainders.

use plan_simulator::make;
use plan_simulator::make::{all, receive, ring, send, transfer, when};
use typed_nccl_plan::ir::{Condition, Plan, Role};

use crate::says::{right, wrong};
use crate::words::{N, R, back, both, by_turns, messages, out, promise};

#[test]
fn remainders() {
    let even = || (R % 2).eq(0);
    right(&messages(2, by_turns(even())));
    right(&promise(messages(2, by_turns(even())), (N % 2).eq(0)));
    right(&promise(messages(2, by_turns(even())), (N % 2).eq(1)));
    wrong(&messages(1, by_turns(even())), 1);
    // Every second rank talks to the next.
    let pairs = || vec![when((R % 2).eq(0), vec![out(1)]), when((R % 2).eq(1), vec![back(-1)])];
    wrong(&messages(2, pairs()), 3);
    right(&promise(messages(2, pairs()), (N % 2).eq(0)));
    wrong(&promise(messages(2, pairs()), (N % 3).eq(0)), 3);
    right(&promise(messages(2, pairs()), both((N % 2).eq(0), N.ge(100))));
    // 2, 3 and 5 together: wrong where no remainder is 0 but that of 30.
    let others = |m: i64| (R % m).ne(0);
    let sieve = Condition::Any(vec![others(2), others(3), others(5)]);
    right(&messages(2, by_turns(sieve.clone())));
    right(&messages(2, by_turns(both(sieve, R.gt(0)))));
    let late = Condition::Any(vec![others(2), others(3), others(5), R.lt(1)]);
    wrong(&messages(2, by_turns(late)), 2);
    right(&messages(31, by_turns(Condition::Any(vec![others(2), others(3), others(5), R.lt(1)]))));
}

#[test]
fn a_remainder_with_an_end() {
    // The last rank is odd or even.
    let last_is = |rest: i64| both(R.eq(N - 1), (R % 2).eq(rest));
    let steps = |rest| vec![when(last_is(rest), vec![transfer(all(0), ring(1), all(1))])];
    right(&messages(1, steps(0)));
    // Received by rank 0 alone, whoever sends.
    let half = |rest| vec![when(last_is(rest), vec![out(1)]), when(R.eq(0), vec![back(-1)])];
    wrong(&promise(messages(2, half(1)), N.gt(20)), 21);
    right(&promise(messages(2, half(1)), both(N.gt(20), (N % 2).eq(0))));
    right(&promise(messages(2, half(0)), both(N.gt(20), (N % 2).eq(1))));
    wrong(&promise(messages(2, half(0)), Condition::Any(vec![(N % 2).eq(1), N.eq(50)])), 50);
}

#[test]
fn several_remainders() {
    let by = |m: i64, c: i64| (R % m).eq(c);
    let six = vec![
        when(by(2, 0), vec![out(1)]),
        when(by(2, 1), vec![back(-1)]),
        when(by(3, 0), vec![send(all(0), ring(1)), send(all(2), ring(2))]),
        when(by(3, 1), vec![back(-1)]),
        when(by(3, 2), vec![receive(all(2), ring(-2))]),
    ];
    let of = |condition: Condition| {
        let mut plan = promise(messages(6, six.clone()), condition);
        plan.buffers.push(make::buffer("t", Role::InOut, 4));
        plan
    };
    right(&of((N % 6).eq(0)));
    right(&of(both((N % 2).eq(0), (N % 3).eq(0))));
    wrong(&of((N % 2).eq(0)), 8);
    wrong(&of((N % 3).eq(0)), 9);
    wrong(&wrong_from(of(both((N % 6).eq(0), N.ne(12))), 60), 60);
}

/// The same, with something wrong on the rank whose number is one less.
fn wrong_from(mut plan: Plan, n: i64) -> Plan {
    plan.steps.push(when(R.eq(n - 1), vec![out(1)]));
    plan
}

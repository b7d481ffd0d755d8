//! Some ranks send before they receive, and others after that.

use plan_simulator::make::{
    all, chain, compute, group, named, receive, repeat, send, sequence, transfer, when,
};
use typed_nccl_plan::ir::{Condition, Expr, Location, Param, ParamId, Plan, Step, Values};

use crate::says::{Says, not_right, right, says, wrong};
use crate::words::{N, R, back, both, by_turns, messages, not, out, promise};

#[test]
fn one_that_is_different_is_enough() {
    right(&messages(2, by_turns(R.eq(0))));
    right(&messages(2, by_turns(R.eq(N - 1))));
    right(&messages(2, by_turns(R.ge(1))));
    wrong(&messages(2, by_turns(R.lt(2))), 2);
    right(&messages(3, by_turns(R.lt(2))));
    right(&messages(41, by_turns(R.lt(40))));
    right(&messages(41, by_turns(R.eq(40))));
    wrong(&messages(2, by_turns(R.eq(40))), 2);
    right(&promise(messages(2, by_turns(R.lt(40))), N.gt(40)));
    // Far from both ends it is nobody, at one number of ranks.
    let nobody = |n: i64| both(R.ge(N - 5), R.lt(n));
    wrong(&messages(12, by_turns(nobody(30))), 35);
    wrong(&messages(2, by_turns(both(R.ge(N - 3), R.lt(5)))), 2);
    wrong(&messages(4, by_turns(both(R.ge(N - 3), R.lt(5)))), 8);
    not_right(&messages(12, by_turns(both(R.ge(N - 50), R.lt(60)))), 110);
}

#[test]
fn far_from_the_first_sizes() {
    // Nothing is received by rank 40.
    let gap =
        |k: i64| vec![send(all(0), chain(1)), when(R.ne(k), vec![receive(all(1), chain(-1))])];
    wrong(&messages(1, gap(40)), 41);
    wrong(&messages(1, gap(200)), 201);
    assert_eq!(says(&messages(1, gap(4000))), Says::Refused);
    let far = vec![when(R.ge(N - 50), vec![out(1)]), when(R.ge(N - 49), vec![back(-1)])];
    not_right(&messages(1, far), 70);
    let far = |to: i64| {
        vec![when(R.lt(N - 50), vec![out(7)]), when(both(R.ge(7), R.lt(N - to)), vec![back(-7)])]
    };
    right(&messages(1, far(43)));
    wrong(&messages(1, far(44)), 51);
}

#[test]
fn hops_of_several_ranks() {
    for by in 1..=4 {
        let lower = || R.lt(by);
        right(&messages(
            2 * by,
            vec![
                when(lower(), vec![out(by), back(-by)]),
                when(not(lower()), vec![back(-by), out(by)]),
            ],
        ));
        // One class of ranks goes all the way round without one that is different.
        let one = || R.lt(by - 1);
        not_right(
            &messages(
                2 * by,
                vec![
                    when(one(), vec![out(by), back(-by)]),
                    when(not(one()), vec![back(-by), out(by)]),
                ],
            ),
            40,
        );
    }
}

#[test]
fn what_goes_round() {
    // One way is broken at the first rank; the other is all ranks' in a group.
    let both_ways = |first: Condition| {
        let body = |one: Step, other: Step| vec![one, other, group(vec![out(-1), back(1)])];
        let (sends, receives) = (body(out(1), back(-1)), body(back(-1), out(1)));
        messages(4, vec![when(first.clone(), sends), when(not(first), receives)])
    };
    right(&both_ways(R.eq(0)));
    right(&both_ways((R % 2).eq(0)));
    wrong(&both_ways(R.lt(0)), 4);
}

#[test]
fn a_chain_beside_a_ring() {
    let body = |first: Condition| {
        vec![
            send(all(0), chain(1)),
            receive(all(1), chain(-1)),
            when(first.clone(), vec![out(-1), back(1)]),
            when(not(first), vec![back(1), out(-1)]),
        ]
    };
    right(&messages(3, body(R.eq(0))));
    right(&messages(3, body((R % 2).eq(1))));
    wrong(&messages(2, body(R.lt(0))), 2);
    wrong(&messages(20, body(both(R.gt(N - 20), R.lt(9)))), 28);
}

#[test]
fn loops_without_a_bound_and_guarded_messages() {
    let p = || Expr::Param(ParamId(0));
    let with = |mut plan: Plan| {
        let (name, at) = ("p".to_owned(), Location::default());
        plan.params.push(Param { name, values: Values::AtLeast(0), count: None, at });
        plan.counters = vec![named("i")];
        plan
    };
    let steps = vec![repeat(0, 0, p(), by_turns(R.eq(0)))];
    assert_eq!(says(&with(messages(2, steps))), Says::Refused);
    let steps = vec![repeat(0, 0, 3, by_turns(R.eq(0)))];
    right(&with(messages(2, steps)));
    // Compute steps are no partners.
    let work = when(R.eq(0), vec![compute("load", vec![], vec![all(0)])]);
    let body = vec![work, sequence(vec![transfer(all(0), chain(1), all(1))])];
    right(&with(messages(2, vec![repeat(0, 0, p(), body)])));
}

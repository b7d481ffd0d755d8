//! Conditions on the rank, for every number of ranks: what holds for all is what is found at each.

use plan_simulator::make::{
    all, chain, collective, communicator, compute, group, hop, named, on, part, plan, put, raise,
    receive, repeat, ring, send, sequence, transfer, via, wait, when, window,
};
use plan_simulator::{make, simulate};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::*;
use typed_nccl_plan::verdict::Sizes;

const R: Expr = Expr::Rank;
const N: Expr = Expr::Size;

/// What the checker says of all sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Right,
    Wrong,
    Refused,
}

fn says(plan: &Plan) -> Says {
    assert!(plan.validate().is_empty(), "no plan: {:?}", plan.validate());
    match check(plan) {
        Ok(_) => Says::Right,
        Err(rejected) => {
            println!("{rejected}");
            match rejected.problems.iter().any(|problem| problem.is_broken()) {
                true => Says::Wrong,
                false => Says::Refused,
            }
        }
    }
}

/// The first size up to `most` ranks along the first axis at which the plan is wrong.
fn first_wrong(plan: &Plan, most: i64) -> Option<Sizes> {
    let others: Vec<i64> =
        plan.axes[1..].iter().map(|axis| axis.extent.first().unwrap_or(1)).collect();
    let found = (1..=most).find_map(|n| {
        let extents: Vec<i64> = [n].into_iter().chain(others.iter().copied()).collect();
        let params: Vec<Vec<i64>> =
            plan.params.iter().map(|param| vec![param.values.first().unwrap_or(0)]).collect();
        let sizes = make::sizes(plan, &extents, &params);
        let claimed = plan.axes[0].extent.contains(n) && promised(plan, n);
        (claimed && check_at(plan, &sizes).is_err()).then_some(sizes)
    });
    if let Some(sizes) = &found
        && sizes.extents[0] <= 40
    {
        assert!(!simulate(plan, sizes).is_right(), "the simulator finds nothing at {}", sizes.text);
    }
    found
}

/// Whether the promises about the number of ranks hold, of one axis.
fn promised(plan: &Plan, n: i64) -> bool {
    fn value(expr: &Expr, n: i64) -> i64 {
        match expr {
            Expr::Int(value) => *value,
            Expr::Rem(a, b) => value(a, n).rem_euclid(value(b, n)),
            _ => n,
        }
    }
    fn holds(condition: &Condition, n: i64) -> bool {
        match condition {
            Condition::Compare(a, how, b) => how.holds(value(a, n), value(b, n)),
            Condition::All(list) => list.iter().all(|one| holds(one, n)),
            Condition::Any(list) => list.iter().any(|one| holds(one, n)),
            Condition::Not(one) => !holds(one, n),
        }
    }
    plan.promises.iter().all(|promise| holds(&promise.condition, n))
}

#[track_caller]
fn right(plan: &Plan) {
    assert_eq!(says(plan), Says::Right);
    assert_eq!(first_wrong(plan, 70), None);
}

/// Wrong at this number of ranks first, however far it is.
#[track_caller]
fn wrong(plan: &Plan, first: i64) {
    let found = first_wrong(plan, first).map(|sizes| sizes.extents[0]);
    assert_eq!(found, Some(first), "it should be wrong at {first} first");
    assert_eq!(says(plan), Says::Wrong);
}

/// Wrong somewhere, and not accepted.
#[track_caller]
fn not_right(plan: &Plan, somewhere: i64) {
    assert!(first_wrong(plan, somewhere).is_some(), "it is right up to {somewhere}");
    assert_ne!(says(plan), Says::Right);
}

fn messages(least: i64, steps: Vec<Step>) -> Plan {
    let mut plan = plan(Values::AtLeast(least));
    plan.buffers = vec![
        make::buffer("x", Role::InOut, 4),
        make::buffer("y", Role::InOut, 4),
        make::buffer("z", Role::InOut, 4),
    ];
    plan.steps = steps;
    plan
}

fn promise(mut plan: Plan, condition: Condition) -> Plan {
    plan.promises.push(Promise { condition, at: Location::default() });
    plan
}

fn both(a: Condition, b: Condition) -> Condition {
    Condition::All(vec![a, b])
}

fn not(one: Condition) -> Condition {
    Condition::Not(Box::new(one))
}

fn out(by: i64) -> Step {
    send(all(0), ring(by))
}

fn back(by: i64) -> Step {
    receive(all(1), ring(by))
}

/// Ranks for which a condition holds send to the next one before they receive, the others after that.
fn by_turns(first: Condition) -> Vec<Step> {
    vec![when(first.clone(), vec![out(1), back(-1)]), when(not(first), vec![back(-1), out(1)])]
}

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

fn with_two_streams(mut plan: Plan) -> Plan {
    plan.streams = vec![named("a"), named("b")];
    plan
}

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

/// A mesh of endless nodes of four.
fn mesh(steps: Vec<Step>) -> Plan {
    let mut plan = messages(1, steps);
    let mut local = plan.axes[0].clone();
    local.name = "local".to_owned();
    local.extent = Values::Exactly(4);
    plan.axes.push(local);
    plan.communicators = vec![
        communicator("world", &[0, 1]),
        communicator("rail", &[0]),
        communicator("node", &[1]),
    ];
    plan
}

#[test]
fn nodes() {
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let one = |among: u32| via(collective(sum(), all(0), all(0)), among);
    let node = || Expr::Coordinate(AxisId(0));
    let slot = || Expr::Coordinate(AxisId(1));
    let nodes = || Expr::Extent(AxisId(0));
    right(&mesh(vec![one(2), when(slot().eq(0), vec![one(1)])]));
    right(&mesh(vec![when(node().lt(1), vec![one(2)]), one(1)]));
    right(&mesh(vec![when(node().ge(nodes() - 2), vec![one(2)]), one(1)]));
    right(&mesh(vec![when((node() % 2).eq(0), vec![one(2)])]));
    wrong(&mesh(vec![when(node().lt(9), vec![one(1)])]), 10);
    wrong(&mesh(vec![when(both(node().lt(9), slot().eq(0)), vec![one(1)])]), 10);
    wrong(&mesh(vec![when(slot().eq(0), vec![one(2)])]), 1);
    let turns = |first: Condition| {
        let out = || send(all(0), hop(0, 1, true));
        let back = || receive(all(1), hop(0, -1, true));
        mesh(vec![when(first.clone(), vec![out(), back()]), when(not(first), vec![back(), out()])])
    };
    let least = |n: i64, mut plan: Plan| {
        plan.axes[0].extent = Values::AtLeast(n);
        plan
    };
    right(&least(2, turns(node().eq(0))));
    wrong(&least(2, turns(both(node().eq(0), slot().lt(3)))), 2);
    // The rank's own number is of no axis.
    assert_eq!(says(&mesh(vec![when(R.lt(4), vec![one(2)])])), Says::Refused);
    assert_eq!(says(&mesh(vec![when((2 * node()).lt(nodes()), vec![one(2)])])), Says::Refused);
}

/// Each rank puts into the next one's window, reads it, and says so.
fn windows(steps: Vec<Step>) -> Plan {
    let mut plan = with_two_streams(messages(2, steps));
    plan.buffers = vec![
        window("u", Role::In, 4),
        window("v", Role::InOut, 4),
        make::buffer("w", Role::InOut, 4),
    ];
    plan.signals = vec![named("told"), named("ready")];
    plan
}

fn read() -> Step {
    on(compute("read", vec![all(1)], vec![all(2)]), 1, &[0])
}

#[test]
fn puts_of_some_ranks() {
    let put = |by: i64| put(all(0), ring(by), all(1), Some(0));
    let told = |by: i64| wait(vec![(0, ring(-by), 1)]);
    let halo = |sends: Condition, waits: Condition| {
        windows(vec![when(sends, vec![put(1)]), when(waits, vec![told(1)]), read()])
    };
    right(&halo(R.lt(N - 1), R.gt(0)));
    wrong(&halo(R.lt(N - 1), R.ge(0)), 2);
    wrong(&halo(R.lt(N - 4), R.gt(0)), 2);
    wrong(&halo(R.lt(30), R.gt(0)), 2);
    let mut later = halo(R.lt(30), R.gt(0));
    later.axes[0].extent = Values::AtLeast(32);
    wrong(&later, 32);
    // A read before the put has come, on one rank alone.
    let early = |some: Condition| {
        windows(vec![
            when(some.clone(), vec![on(compute("read", vec![all(1)], vec![all(2)]), 1, &[])]),
            put(1),
            told(1),
            read(),
        ])
    };
    wrong(&early(R.eq(25)), 26);
    wrong(&early(R.eq(N - 26)), 26);
    wrong(&early((R % 7).eq(6)), 7);
    // Rank r's window is written by r - 3 and by r - 1, in order but for some.
    let two = |least: i64, raises: Condition, waits: Condition| {
        let mut plan = windows(vec![
            put(1),
            told(1),
            when(raises, vec![raise(1, ring(-3))]),
            when(waits, vec![wait(vec![(1, ring(3), 1)])]),
            put(3),
            told(3),
            read(),
        ]);
        plan.axes[0].extent = Values::AtLeast(least);
        plan
    };
    right(&two(7, R.ge(0), R.ge(0)));
    wrong(&two(34, R.lt(30), Condition::Any(vec![R.lt(27), R.ge(N - 3)])), 34);
    wrong(&two(7, R.ne(50), R.ne(47)), 48);
    wrong(&two(60, R.ne(50), R.ne(47)), 60);
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

#[test]
fn across_the_seam() {
    // The last three ranks put into the first three.
    let seam = |waits: Condition| {
        let mut plan = windows(vec![
            when(R.ge(N - 3), vec![put(all(0), ring(3), all(1), Some(0))]),
            when(waits, vec![wait(vec![(0, ring(-3), 1)])]),
            read(),
        ]);
        plan.axes[0].extent = Values::AtLeast(7);
        plan
    };
    right(&seam(R.lt(3)));
    wrong(&seam(R.lt(4)), 7);
    wrong(&seam(R.le(1)), 7);
    wrong(&seam(both(R.lt(3), R.lt(N - 50))), 7);
    let mut far = seam(Condition::Any(vec![R.lt(3), R.eq(N - 90)]));
    far.axes[0].extent = Values::AtLeast(93);
    wrong(&far, 93);
    // The last rank reads early what the first one puts there the other way round.
    let early = |who: Condition| {
        let mut plan = windows(vec![
            when(who, vec![on(compute("early", vec![all(1)], vec![all(2)]), 1, &[])]),
            when(R.lt(2), vec![put(all(0), ring(-2), all(1), Some(0))]),
            when(R.ge(N - 2), vec![wait(vec![(0, ring(2), 1)])]),
            read(),
        ]);
        plan.axes[0].extent = Values::AtLeast(5);
        plan
    };
    right(&early(both(R.ge(2), R.lt(N - 2))));
    wrong(&early(both(R.ge(2), R.lt(N - 1))), 5);
    wrong(&early(R.eq(40)), 41);
    wrong(&early(both(R.eq(N - 2), (R % 9).eq(8))), 10);
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
fn captured_signals_of_some_ranks() {
    let twice = |some: Condition, target: Version| {
        let mut plan = windows(vec![
            raise(1, ring(1)),
            when(some.clone(), vec![raise(1, ring(1))]),
            wait(vec![(1, ring(-1), 1)]),
            when(
                match some {
                    Condition::Compare(_, how, b) => Condition::Compare(R - 1, how, b),
                    other => other,
                },
                vec![wait(vec![(1, ring(-1), 1)])],
            ),
        ]);
        plan.streams.truncate(1);
        plan.launch = Launch::Captured;
        plan.target = target;
        plan
    };
    let old = Version(2, 30, 7);
    // Only the second signal of one rank waits, and its target has waited for the first.
    assert_eq!(says(&twice(R.eq(0), Version(2, 32, 3))), Says::Right);
    assert_eq!(says(&twice(R.eq(0), old)), Says::Right);
    wrong(&twice(R.eq(30), Version(2, 32, 3)), 31);
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

/// What depends on lengths, under conditions on the rank.
mod lengths {
    use super::*;

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
}

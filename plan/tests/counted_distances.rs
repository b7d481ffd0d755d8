//! Distances that count with a loop up to the number of ranks: what is said for all of them is what is found at
//! many of them.

use typed_nccl_plan::build::{Generic, Number, PlanBuilder, Signal, Stream, ring};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::{Plan, Role, Version};
use typed_nccl_plan::verdict::Sizes;

/// The last number of ranks that is looked at.
const LAST: i64 = 64;

fn built(plan: PlanBuilder) -> Plan {
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

fn is_right(plan: &Plan, n: i64) -> bool {
    let params = plan.params.iter().map(|_| vec![2]).collect();
    check_at(plan, &Sizes { extents: vec![n], params, text: format!("n = {n}") }).is_ok()
}

/// A plan that is accepted for every number of ranks, and right at each.
fn accepted(plan: &Plan) {
    let proof = check(plan).unwrap_or_else(|rejected| panic!("{rejected}"));
    assert!(proof.claims[0].contains("above for all at once"), "{:?}", proof.claims);
    for n in (1..=LAST).filter(|n| *n <= 20 || n % 10 < 2 || *n == LAST) {
        assert!(is_right(plan, n), "n = {n}");
    }
}

/// A plan that is wrong from some number of ranks on, which is named if it is small.
fn wrong(plan: &Plan, smallest: i64) {
    for n in 1..smallest {
        assert!(is_right(plan, n), "wrong at {n}");
    }
    assert!(!is_right(plan, smallest), "right at {smallest}");
    let Err(rejected) = check(plan) else { panic!("accepted, and wrong at {smallest}") };
    let named = rejected.problems.iter().find_map(|problem| problem.sizes.as_ref());
    match named {
        Some(sizes) => assert_eq!(sizes.extents, [smallest], "{rejected}"),
        None => assert!(smallest > 16, "{rejected}"),
    }
}

/// A plan that is right at each number of ranks that is looked at, and not decided.
fn refused(plan: &Plan) {
    let Err(rejected) = check(plan) else { panic!("accepted") };
    assert!(!rejected.problems.iter().any(|problem| problem.is_broken()), "{rejected}");
    assert!(rejected.to_string().contains("declare"), "{rejected}");
}

/// Signals in one loop, waits in another: bounds and distances of both.
fn signals(
    raise: impl Fn(Number, Number) -> (i64, Number, Number),
    wait: impl Fn(Number, Number) -> (i64, Number, Number),
) -> Plan {
    signals_of(Version::default(), raise, wait)
}

fn signals_of(
    target: Version,
    raise: impl Fn(Number, Number) -> (i64, Number, Number),
    wait: impl Fn(Number, Number) -> (i64, Number, Number),
) -> Plan {
    let mut plan = PlanBuilder::new("signals");
    let n = plan.ranks(1..);
    let arrived = plan.signal("arrived");
    let net = plan.stream("net");
    let zero = Number::from(0);
    let (from, to, _) = raise(n, zero);
    plan.for_each("k", Number::from(from)..to, |plan, k| {
        plan.on(net).signal(arrived, ring(raise(n, k).2));
    });
    let (from, to, _) = wait(n, zero);
    plan.for_each("k", Number::from(from)..to, |plan, k| {
        plan.on(net).wait([arrived.from(ring(wait(n, k).2))]);
    });
    let mut plan = built(plan);
    plan.target = target;
    plan
}

#[test]
fn barriers_of_all_pairs() {
    for target in [Version::default(), Version(2, 30, 7)] {
        accepted(&signals_of(target, |n, k| (1, n, k), |n, k| (1, n, -k)));
        accepted(&signals_of(target, |n, k| (0, n, k + 3), |n, k| (0, n, -3 - k)));
        accepted(&signals_of(target, |n, k| (1, n, 2 * k), |n, k| (1, n, -2 * k)));
    }
}

#[test]
fn bounds_that_differ() {
    wrong(&signals(|n, k| (1, n, k), |n, k| (2, n, -k)), 2);
    wrong(&signals(|n, k| (1, n, k), |n, k| (0, n, -k)), 1);
    wrong(&signals(|n, k| (1, n, k), |n, k| (1, n - 1, -k)), 2);
    wrong(&signals(|n, k| (1, n, k), |n, k| (1, n / 20 * 20, -k)), 2);
    // Right up to 40, of which 16 are looked at.
    let most = |n: Number| n - n / 41;
    wrong(&signals(|n, k| (1, n, k), |n, k| (1, most(n), -k)), 41);
}

#[test]
fn distances_that_are_not_the_way_back() {
    wrong(&signals(|n, k| (1, n, k), |n, k| (1, n, 1 - k)), 2);
    wrong(&signals(|n, k| (1, n, 2 * k), |n, k| (1, n, -k)), 2);
    // All other ranks are all other ranks, in whichever order: right, but not in one order of places.
    refused(&signals(|n, k| (1, n, k), |n, k| (1, n, k)));
}

#[test]
fn waits_that_come_first() {
    let mut plan = PlanBuilder::new("waits first");
    let n = plan.ranks(1..);
    let arrived = plan.signal("arrived");
    let net = plan.stream("net");
    plan.for_each("k", Number::from(1)..n, |plan, k| {
        plan.on(net).wait([arrived.from(ring(-k))]);
    });
    plan.for_each("k", Number::from(1)..n, |plan, k| plan.on(net).signal(arrived, ring(k)));
    wrong(&built(plan), 2);
}

/// Two rounds of signals, awaited in some order.
fn rounds(target: Version, first: usize) -> Plan {
    let mut plan = PlanBuilder::new("rounds");
    let n = plan.ranks(1..);
    let names: [Signal; 2] = ["a", "b"].map(|name| plan.signal(name));
    let net = plan.stream("net");
    for name in names {
        plan.for_each("k", Number::from(1)..n, |plan, k| plan.on(net).signal(name, ring(k)));
    }
    for name in [names[first], names[1 - first]] {
        plan.for_each("k", Number::from(1)..n, |plan, k| {
            plan.on(net).wait([name.from(ring(-k))]);
        });
    }
    let mut plan = built(plan);
    plan.target = target;
    plan
}

#[test]
fn two_rounds_in_their_order() {
    accepted(&rounds(Version(2, 30, 7), 0));
    accepted(&rounds(Version(2, 32, 3), 0));
    wrong(&rounds(Version(2, 30, 7), 1), 2);
    refused(&rounds(Version(2, 32, 3), 1));
}

/// Pairwise exchange: in iteration k, chunk `from` of `a` goes to the k-th next rank's chunk `to` of `b`.
fn exchange(
    first: i64,
    by: impl Fn(Number) -> Number,
    from: impl Fn(Number, Number, Number) -> Number,
    to: impl Fn(Number, Number, Number) -> Number,
    in_place: bool,
) -> Plan {
    let mut plan = PlanBuilder::new("exchange");
    let n = plan.ranks(1..);
    let h = plan.param("h", 1..);
    let r = plan.rank();
    let a = plan.in_out::<Generic>("a", n * h);
    let b = plan.in_out::<Generic>("b", n * h);
    let net: Stream = plan.stream("net");
    let into = if in_place { a } else { b };
    plan.for_each("k", Number::from(first)..n, |plan, k| {
        let (from, to) = (from(n, r, k), to(n, r, k));
        plan.on(net).transfer(
            a.slice(from * h..(from + 1) * h),
            ring(by(k)),
            into.slice(to * h..(to + 1) * h),
        );
    });
    built(plan)
}

#[test]
fn pairwise_exchanges() {
    // All-to-all: the chunk of the peer into the chunk of the sender.
    accepted(&exchange(1, |k| k, |n, r, k| (r + k) % n, |_, r, _| r, false));
    accepted(&exchange(0, |k| k, |n, r, k| (r + k) % n, |_, r, _| r, false));
    accepted(&exchange(1, |k| -k, |n, r, k| (r - k) % n, |n, r, k| (r + n - k) % n, false));
    accepted(&exchange(1, |k| 2 * k, |n, r, k| (r + k) % n, |n, r, k| (r + k) % n, false));
    // All into one chunk, one after another: the last one stays.
    accepted(&exchange(1, |k| k, |n, r, k| (r + k) % n, |_, _, _| Number::from(0), false));
}

#[test]
fn exchanges_that_go_wrong() {
    wrong(&exchange(1, |k| k, |_, r, k| r + k, |_, r, _| r, false), 2);
    wrong(&exchange(1, |k| k, |n, r, k| (r + k) % n, |_, r, _| r + 1, false), 2);
    // In place, r sends the chunk that it gets.
    wrong(&exchange(1, |k| k, |_, r, _| r, |n, r, k| (r + k) % n, true), 2);
    // Out of bounds from 40 ranks on.
    wrong(&exchange(1, |k| k, |n, r, k| (r + k) % n, |n, r, _| r + n / 40, false), 40);
}

#[test]
fn inputs_are_not_written_anywhere() {
    let mut plan = exchange(1, |k| k, |n, r, k| (r + k) % n, |_, r, _| r, false);
    plan.buffers[1].role = Role::In;
    wrong(&plan, 2);
    plan.buffers[1].role = Role::Out;
    wrong(&plan, 1);
}

/// The same exchange with all messages in one group, or two of each iteration in one: `to` says where.
fn grouped(all: bool, to: impl Fn(Number, Number, Number) -> Number) -> Plan {
    let mut plan = PlanBuilder::new("grouped");
    let n = plan.ranks(1..);
    let h = plan.param("h", 1..);
    let r = plan.rank();
    let [a, b, c] = ["a", "b", "c"].map(|name| plan.in_out::<Generic>(name, n * h));
    let net: Stream = plan.stream("net");
    let each = |plan: &mut PlanBuilder, k: Number| {
        let (from, to) = ((r + k) % n, to(n, r, k));
        let (part, place) = (a.slice(from * h..(from + 1) * h), b.slice(to * h..(to + 1) * h));
        plan.on(net).transfer(part, ring(k), place);
        if !all {
            plan.on(net).transfer(part, ring(-k), c.slice(to * h..(to + 1) * h));
        }
    };
    if all {
        plan.group(|plan| plan.for_each("k", Number::from(0)..n, each));
    } else {
        plan.for_each("k", Number::from(1)..n, |plan, k| plan.group(|plan| each(plan, k)));
    }
    built(plan)
}

#[test]
fn groups() {
    // The whole all-to-all as one group: every rank's chunk has a place of its own.
    accepted(&grouped(true, |_, r, _| r));
    accepted(&grouped(false, |_, r, _| r));
    // All at once into one chunk.
    wrong(&grouped(true, |_, _, _| Number::from(0)), 2);
    wrong(&grouped(true, |n, r, _| r / 2 % n), 2);
    // Right up to 40 ranks.
    wrong(&grouped(true, |n, r, _| r - (r + n / 41) / n * r), 41);
}

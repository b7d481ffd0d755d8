//! Regions of n chunks that are declared as filled, for any number n of ranks: what is said for all of them is what
//! is found at many of them, and what the simulator finds at few.

use plan_simulator::simulate;
use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, ring};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::Sizes;

/// The last number of ranks that is simulated.
const SIMULATED: i64 = 12;
/// Larger numbers of ranks that are looked at: primes, even ones, powers of two and those beside them.
const LARGER: [i64; 9] = [13, 15, 16, 17, 24, 31, 32, 47, 64];

fn sizes(plan: &Plan, n: i64, len: i64) -> Sizes {
    let params = plan.params.iter().map(|_| vec![len]).collect();
    Sizes { extents: vec![n], params, text: format!("n = {n}, h = {len}") }
}

fn first(plan: &Plan) -> i64 {
    plan.axes[0].extent.first().unwrap_or(1)
}

/// Whether the plan is right at this number of ranks, as the checker and the simulator say.
fn is_right(plan: &Plan, n: i64) -> bool {
    let sizes = sizes(plan, n, 2);
    let told = check_at(plan, &sizes);
    if n <= SIMULATED {
        assert_eq!(simulate(plan, &sizes).is_right(), told.is_ok(), "n = {n}: {told:?}");
    }
    told.is_ok()
}

/// A plan that is accepted for every number of ranks, and right at each.
fn accepted(plan: PlanBuilder) {
    let plan = built(plan);
    let proof = check(&plan).unwrap_or_else(|rejected| panic!("{rejected}"));
    assert!(proof.claims[0].contains("above for all at once"), "{:?}", proof.claims);
    let all = (first(&plan)..=SIMULATED).chain(LARGER);
    all.for_each(|n| assert!(is_right(&plan, n), "n = {n}"));
}

/// A plan that is wrong from some number of ranks on, which is named if it is small.
fn wrong(plan: PlanBuilder, smallest: i64) {
    let plan = built(plan);
    (first(&plan)..smallest).for_each(|n| assert!(is_right(&plan, n), "wrong at {n}"));
    assert!(!is_right(&plan, smallest), "right at {smallest}");
    let Err(rejected) = check(&plan) else { panic!("accepted, and wrong at {smallest}") };
    match rejected.problems.iter().find_map(|problem| problem.sizes.as_ref()) {
        Some(sizes) => assert_eq!(sizes.extents, [smallest], "{rejected}"),
        None => assert!(smallest > 16, "{rejected}"),
    }
}

/// A plan that is not decided: right wherever it is looked at, or wrong only far away.
fn refused(plan: PlanBuilder) {
    let Err(rejected) = check(&built(plan)) else { panic!("accepted") };
    assert!(!rejected.problems.iter().any(|problem| problem.is_broken()), "{rejected}");
}

fn built(plan: PlanBuilder) -> Plan {
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

#[derive(Clone, Copy)]
struct Words {
    n: Number,
    r: Number,
    h: Number,
    a: Buffer<Generic>,
    b: Buffer<Generic>,
    net: Stream,
}

impl Words {
    /// Chunk number `from` of `a` to chunk number `to` of `b`, so far around.
    fn send(&self, plan: &mut PlanBuilder, from: Number, by: Number, to: Number) {
        let &Self { n, a, b, net, .. } = self;
        plan.on(net).transfer(a.chunk(n, from), ring(by), b.chunk(n, to));
    }
}

/// A plan that says that all of `b` is filled.
fn filled(least: i64, output: bool, steps: impl FnOnce(&mut PlanBuilder, Words)) -> PlanBuilder {
    let mut plan = PlanBuilder::new("filled");
    let n = plan.ranks(least..);
    let r = plan.rank();
    let h = plan.param("h", 1..);
    let a = plan.input("a", n * h);
    let b = if output { plan.output("b", n * h) } else { plan.in_out("b", n * h) };
    let net = plan.stream("net");
    steps(&mut plan, Words { n, r, h, a, b, net });
    plan.covers(b);
    plan
}

/// All to all by messages over a loop, of which each rank fills this chunk, in one group or one after another.
fn exchange(
    from: i64,
    by: impl Fn(Number) -> Number,
    to: impl Fn(Words, Number) -> Number,
    grouped: bool,
) -> PlanBuilder {
    filled(1, true, |plan, words| {
        let steps = |plan: &mut PlanBuilder| {
            plan.for_each("k", Number::from(from)..words.n, |plan, k| {
                words.send(plan, (words.r + by(k)) % words.n, by(k), to(words, k));
            });
        };
        if grouped { plan.group(steps) } else { steps(plan) }
    })
}

#[test]
fn all_to_all() {
    for grouped in [true, false] {
        accepted(exchange(0, |k| k, |Words { r, .. }, _| r, grouped));
        accepted(exchange(0, |k| -k, |Words { r, .. }, _| r, grouped));
        accepted(exchange(0, |k| k + 3, |Words { r, .. }, _| r, grouped));
    }
    // The sender's number, forwards: its own chunk, the next one's, or as it is counted.
    accepted(exchange(0, |k| k, |Words { n, r, .. }, _| (r + 1) % n, false));
    accepted(exchange(0, |k| k, |Words { n, r, .. }, k| (r + 2 * k) % n, false));
    accepted(exchange(0, |k| k, |_, k| k, false));
    // As many ranks back as the receiver's own number is: seen from there, the chunk is its own number less 2 k.
    accepted(exchange(0, |k| 2 * k, |Words { n, r, .. }, k| (r + k) % n, false));
    accepted(exchange(0, |k| k, |Words { n, r, .. }, _| n - 1 - r, false));
}

#[test]
fn chunks_that_are_not_each_filled_once() {
    for grouped in [true, false] {
        // Only the others' chunks: at one rank nothing writes the output.
        wrong(exchange(1, |k| k, |Words { r, .. }, _| r, grouped), 1);
        // All in one chunk: the receiver's own.
        wrong(exchange(0, |k| k, |Words { n, r, .. }, k| (r + k) % n, grouped), 2);
    }
    // Every second chunk twice, where n is even.
    wrong(exchange(0, |k| 2 * k, |Words { r, .. }, _| r, false), 2);
    wrong(exchange(0, |k| k, |Words { n, r, .. }, k| (r + 3 * k) % n, false), 2);
    wrong(exchange(0, |k| k, |Words { n, r, .. }, k| (r + 4 * k) % n, false), 3);
    wrong(exchange(0, |k| k, |Words { n, .. }, _| Number::from(0) % n, false), 2);
    // Right up to 40 ranks.
    wrong(exchange(0, |k| k, |Words { n, r, .. }, k| (r + k * (n / 41)) % n, false), 41);
    // Twice, or one too few.
    for (from, less, smallest) in [(0, 1, 1), (0, 2, 1), (2, 0, 1)] {
        wrong(
            filled(1, false, |plan, words| {
                let Words { n, r, .. } = words;
                plan.for_each("k", Number::from(from)..n - less, |plan, k| {
                    words.send(plan, (r + k) % n, k, r);
                });
            }),
            smallest,
        );
    }
}

/// The others' chunks in a loop, and one more for oneself: this one.
fn with_own(own: impl Fn(Words) -> Number, before: bool, loops: [i64; 2]) -> PlanBuilder {
    filled(1, true, |plan, words| {
        let Words { n, r, .. } = words;
        let [from, less] = loops;
        let itself = |plan: &mut PlanBuilder| words.send(plan, r, Number::from(0), own(words));
        if before {
            itself(plan);
        }
        plan.for_each("k", Number::from(from)..n - less, |plan, k| {
            words.send(plan, (r + k) % n, k, r);
        });
        if !before {
            itself(plan);
        }
    })
}

#[test]
fn the_own_chunk_beside_the_loop() {
    accepted(with_own(|Words { r, .. }| r, true, [1, 0]));
    accepted(with_own(|Words { r, .. }| r, false, [1, 0]));
    accepted(with_own(|Words { n, r, .. }| (r + n) % n, false, [1, 0]));
    wrong(with_own(|Words { n, r, .. }| (r + 1) % n, true, [1, 0]), 2);
    wrong(with_own(|Words { r, .. }| r, true, [0, 0]), 1);
    wrong(with_own(|Words { r, .. }| r, true, [2, 0]), 2);
    wrong(with_own(|Words { r, .. }| r, true, [1, 1]), 2);
    // Another chunk from 41 ranks on.
    wrong(with_own(|Words { n, r, .. }| (r + n / 41) % n, true, [1, 0]), 41);
}

#[test]
fn two_loops_share_the_chunks() {
    let halves = |first: i64, second: i64| {
        filled(4, true, move |plan, words| {
            let Words { n, r, .. } = words;
            plan.for_each("k", Number::from(0)..Number::from(first), |plan, k| {
                words.send(plan, (r + k) % n, k, r);
            });
            plan.for_each("k", Number::from(second)..n, |plan, k| {
                words.send(plan, (r + k) % n, k, r);
            });
        })
    };
    accepted(halves(3, 3));
    accepted(halves(4, 4));
    wrong(halves(3, 4), 4);
    wrong(halves(4, 3), 4);
}

/// Parts go around a ring, from each rank to the next, `count` times; `own` parts come from oneself.
fn around(least: i64, back: i64, less: i64, own: impl Fn(Words) -> Number) -> PlanBuilder {
    filled(least, false, |plan, words| {
        let Words { n, r, h, a, b, net } = words;
        plan.on(net).transfer(a.slice(Number::from(0)..h), ring(0), b.chunk(n, own(words)));
        plan.for_each("k", Number::from(0)..n - less, |plan, k| {
            let part = b.chunk(n, (r - k * back) % n);
            plan.on(net).transfer(part, ring(back), part);
        });
    })
}

#[test]
fn all_gather_around_a_ring() {
    accepted(around(1, 1, 1, |Words { r, .. }| r));
    accepted(around(1, -1, 1, |Words { r, .. }| r));
    wrong(around(1, 1, 2, |Words { r, .. }| r), 2);
    wrong(around(2, 1, 0, |Words { r, .. }| r), 2);
    wrong(around(1, 1, 1, |Words { n, r, .. }| (r + 1) % n), 2);
    wrong(around(1, 1, 1, |Words { n, r, .. }| (r + n / 41) % n), 41);
}

#[test]
fn lengths_that_do_not_divide() {
    let mut plan = PlanBuilder::new("divided");
    let n = plan.ranks(1..);
    let r = plan.rank();
    let p = plan.param("p", 1..);
    let (a, b) = (plan.input::<Generic>("a", p), plan.in_out::<Generic>("b", p));
    let net = plan.stream("net");
    plan.for_each("k", Number::from(0)..n, |plan, k| {
        plan.on(net).transfer(a.chunk(n, r), ring(k), b.chunk(n, r));
    });
    plan.covers(b);
    let Err(rejected) = check(&built(plan)) else { panic!("accepted") };
    assert!(rejected.to_string().contains("nothing fills"), "{rejected}");
}

#[test]
fn chunks_of_another_length() {
    // Chunks that are shorter by one from a length of 1000 on.
    let plan = filled(1, true, |plan, Words { n, r, h, a, b, net }| {
        let short = h - h / 1000;
        plan.for_each("k", Number::from(0)..n, |plan, k| {
            plan.on(net).transfer(
                a.slice(Number::from(0)..short),
                ring(k),
                b.slice(r * h..r * h + short),
            );
        });
    });
    refused(plan);
}

#[test]
fn a_part_of_a_buffer() {
    // The last n chunks of n + 1, all else left to itself.
    let plan = |more: i64, whole: bool| {
        let mut plan = PlanBuilder::new("part");
        let n = plan.ranks(1..);
        let r = plan.rank();
        let h = plan.param("h", 1..);
        let a = plan.in_out::<Generic>("a", n * h);
        let b = plan.in_out::<Generic>("b", (n + 1) * h);
        let net = plan.stream("net");
        plan.for_each("k", Number::from(0)..n, |plan, k| {
            let to = b.slice((r + more) * h..(r + more + 1) * h);
            plan.on(net).transfer(a.chunk(n, r), ring(k), to);
        });
        if whole {
            plan.covers(b)
        } else {
            plan.covers(b.slice(h..(n + 1) * h))
        };
        plan
    };
    accepted(plan(1, false));
    wrong(plan(0, false), 1);
    wrong(plan(1, true), 1);
}

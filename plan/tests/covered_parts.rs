//! What fills a declared region besides its parts at the first sizes: parts that are empty there, or lie beside it.

use plan_simulator::simulate;
use typed_nccl_plan::build::{Buffer, Generic, Number, PlanBuilder, Stream, ring};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::Sizes;

/// From here on, what is empty at the first sizes is not.
const FAR: i64 = 10_000;

#[derive(Clone, Copy)]
struct Words {
    p: Number,
    a: Buffer<Generic>,
    b: Buffer<Generic>,
    net: Stream,
}

impl Words {
    /// A part of `a` to that of `b`, on the next rank.
    fn send(&self, plan: &mut PlanBuilder, start: impl Into<Number>, end: impl Into<Number>) {
        let &Self { a, b, net, .. } = self;
        let (start, end) = (start.into(), end.into());
        let len = end - start;
        plan.on(net).transfer(a.slice(Number::from(0)..len), ring(1), b.slice(start..end));
    }
}

/// A plan that says that the first p elements of `b` are filled.
fn filled(endless: bool, steps: impl FnOnce(&mut PlanBuilder, Words)) -> Plan {
    let mut plan = PlanBuilder::new("filled");
    if endless {
        plan.ranks(2..);
    } else {
        plan.ranks(3);
    }
    let p = plan.param("p", 1..);
    let a = plan.input::<Generic>("a", 2 * p);
    let b = plan.in_out::<Generic>("b", 2 * p);
    let net = plan.stream("net");
    steps(&mut plan, Words { p, a, b, net });
    plan.covers(b.slice(Number::from(0)..p));
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

fn is_right(plan: &Plan, p: i64) -> bool {
    let sizes = Sizes { extents: vec![3], params: vec![vec![p]], text: format!("p = {p}") };
    let told = check_at(plan, &sizes);
    if p < 100 {
        assert_eq!(simulate(plan, &sizes).is_right(), told.is_ok(), "p = {p}");
    }
    told.is_ok()
}

fn accepted(steps: impl Fn(&mut PlanBuilder, Words)) {
    for endless in [true, false] {
        let plan = filled(endless, &steps);
        check(&plan).unwrap_or_else(|rejected| panic!("{rejected}"));
        assert!((1..40).chain([FAR - 1, FAR, 3 * FAR]).all(|p| is_right(&plan, p)));
    }
}

/// Wrong from far away on: not accepted.
fn wrong_far_away(steps: impl Fn(&mut PlanBuilder, Words)) {
    for endless in [true, false] {
        let plan = filled(endless, &steps);
        assert!((1..40).chain([FAR - 1]).all(|p| is_right(&plan, p)));
        assert!(!is_right(&plan, FAR));
        let Err(rejected) = check(&plan) else { panic!("accepted, and wrong at {FAR}") };
        assert!(rejected.to_string().contains("whether this is filled"), "{rejected}");
    }
}

#[test]
fn one_after_another() {
    accepted(|plan, w| w.send(plan, 0, w.p));
    accepted(|plan, w| {
        w.send(plan, w.p / 2, w.p);
        w.send(plan, 0, w.p / 2);
    });
    // Empty at the first sizes, and at the end.
    accepted(|plan, w| {
        let split = w.p - w.p / FAR;
        w.send(plan, 0, split);
        w.send(plan, split, w.p);
    });
    accepted(|plan, w| {
        let split = w.p / FAR;
        w.send(plan, 0, split);
        w.send(plan, split, w.p);
    });
    // Beside it at every size, and always empty.
    accepted(|plan, w| {
        w.send(plan, 0, w.p);
        w.send(plan, w.p, 2 * w.p);
        w.send(plan, w.p / 2, w.p / 2);
        plan.for_each("k", Number::from(0)..4.into(), |plan, k| {
            w.send(plan, w.p, w.p + w.p * k / 4);
        });
    });
}

#[test]
fn empty_at_the_first_sizes() {
    for start in [0, 1] {
        wrong_far_away(|plan, w| {
            w.send(plan, 0, w.p);
            w.send(plan, start * w.p / 3, start * w.p / 3 + w.p / FAR);
        });
    }
    wrong_far_away(|plan, w| {
        w.send(plan, 0, w.p);
        plan.for_each("k", Number::from(0)..3.into(), |plan, _| w.send(plan, 0, w.p / FAR));
    });
}

#[test]
fn beside_it_at_the_first_sizes() {
    wrong_far_away(|plan, w| {
        w.send(plan, 0, w.p);
        w.send(plan, w.p - w.p / FAR, 2 * w.p - w.p / FAR);
    });
    // The region reaches what lies after it.
    wrong_far_away(|plan, w| {
        w.send(plan, 0, w.p - w.p / FAR);
        w.send(plan, w.p, w.p + w.p / FAR);
    });
}

//! The numbers that compute steps get have values: at every size, on every rank, in every iteration.

use typed_nccl_plan::build::{Number, PlanBuilder};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::{Plan, Values};
use typed_nccl_plan::verdict::{Check, Problem, ProblemKind, Sizes};

/// A plan of one compute step in a loop of three, which gets a number made of n, p, r and the counter.
fn plan(
    ranks: impl Into<Values>,
    params: impl Into<Values>,
    argument: impl Fn(Number, Number, Number, Number) -> Number,
) -> Plan {
    let mut plan = PlanBuilder::new("numbers");
    let n = plan.ranks(ranks);
    let p = plan.param("p", params);
    let r = plan.rank();
    let cmp = plan.stream("cmp");
    plan.for_each("i", 0..3, |plan, i| {
        plan.on(cmp).run("work").argument(argument(n, p, r, i));
    });
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

fn problem(plan: &Plan) -> Problem {
    match check(plan) {
        Err(rejected) => rejected.problems[0].clone(),
        Ok(_) => panic!("accepted"),
    }
}

/// A plan whose argument has no value at these sizes, for the first time there, on a rank in an iteration.
fn broken(plan: &Plan, title: &str, sizes: &str, rank: usize, iteration: &str) {
    let problem = problem(plan);
    assert_eq!(problem.kind, ProblemKind::Broken(Check::Bounds), "{problem:?}");
    assert!(problem.title.contains(title), "{problem:?}");
    assert_eq!(problem.sizes.as_ref().map(|sizes| sizes.text.as_str()), Some(sizes));
    let line = &problem.story[0];
    assert_eq!((line.rank, line.text.as_str()), (Some(rank), iteration));
    assert!(problem.help[0].contains("promise"), "{problem:?}");
}

fn undecided(plan: &Plan, far: &Sizes) {
    let problem = problem(plan);
    assert_eq!(problem.kind, ProblemKind::Undecided(Check::Bounds), "{problem:?}");
    assert!(problem.title.contains("argument"), "{problem:?}");
    assert!(check_at(plan, far).is_err(), "right at {}", far.text);
}

fn sizes(n: i64, p: i64) -> Sizes {
    Sizes { extents: vec![n], params: vec![vec![p]], text: format!("n = {n}, p = {p}") }
}

#[test]
fn division_by_zero_at_listed_sizes() {
    let plan = plan(1..=3, 1..=2, |n, p, r, i| p / (n - r - i));
    broken(&plan, "divides by 0", "n = 1, p = 1", 0, "runs this, with `i` = 1");
}

#[test]
fn overflow_at_one_size() {
    let large = i64::MAX / 4;
    let plan = plan(4..=4, 1..=1, |_, p, r, i| (p + r) * large + 2 * i);
    broken(&plan, "too large", "n = 4, p = 1", 3, "runs this, with `i` = 2");
}

#[test]
fn guarded_numbers_are_not_asked_where_nobody_gets_them() {
    let mut plan = PlanBuilder::new("guarded");
    let n = plan.ranks(1..);
    let (r, cmp) = (plan.rank(), plan.stream("cmp"));
    let x = plan.in_out::<f32>("x", 4);
    plan.when(r.gt(0), |plan| {
        plan.on(cmp).run("work").argument(n / r).reads(x);
    });
    let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
    for n in 1..=9 {
        let sizes = Sizes { extents: vec![n], params: vec![], text: String::new() };
        check_at(&plan, &sizes).unwrap_or_else(|rejected| panic!("{rejected}"));
    }
}

#[test]
fn numbers_that_exist_at_every_size() {
    for plan in [
        plan(1.., 1.., |n, p, r, i| p * r / (n + i)),
        plan(1.., 1.., |n, p, r, i| (r + i) % n / p),
        plan(1..=3, 1.., |n, p, _, i| n / (p + i)),
    ] {
        check(&plan).unwrap_or_else(|rejected| panic!("{rejected}"));
    }
}

#[test]
fn no_value_at_the_first_of_endless_sizes() {
    let plan = plan(1.., 0.., |n, p, _, i| n / (p + i));
    broken(&plan, "divides by 0", "n = 1, p = 0", 0, "runs this, with `i` = 0");
}

#[test]
fn no_value_far_away() {
    undecided(&plan(1.., 1.., |n, _, _, _| n / (Number::from(70) - n)), &sizes(70, 1));
    undecided(&plan(2..=2, 1.., |n, p, _, _| n / (Number::from(700) - p)), &sizes(2, 700));
    undecided(&plan(1.., 1.., |n, _, r, _| n / (Number::from(90) - r)), &sizes(91, 1));
}

#[test]
fn conditions_in_a_sequence_have_values() {
    let mut plan = PlanBuilder::new("sequence");
    plan.ranks(2..=2);
    let (r, cmp) = (plan.rank(), plan.stream("cmp"));
    let x = plan.in_out::<f32>("x", 4);
    plan.sequence(|plan| {
        plan.when((Number::from(4) / r).gt(0), |plan| {
            plan.on(cmp).run("work").reads(x);
        });
    });
    let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
    let problem = problem(&plan);
    assert_eq!(problem.kind, ProblemKind::Broken(Check::Bounds), "{problem:?}");
    assert!(problem.title.contains("divides by 0"), "{problem:?}");
}

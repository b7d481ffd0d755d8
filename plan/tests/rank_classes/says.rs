//! What the checker says of all sizes, beside what it says of each.

use plan_simulator::{make, simulate};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::{Condition, Expr, Plan};
use typed_nccl_plan::verdict::Sizes;

/// What the checker says of all sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Says {
    Right,
    Wrong,
    Refused,
}

pub(crate) fn says(plan: &Plan) -> Says {
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
pub(crate) fn right(plan: &Plan) {
    assert_eq!(says(plan), Says::Right);
    assert_eq!(first_wrong(plan, 70), None);
}

/// Wrong at this number of ranks first, however far it is.
#[track_caller]
pub(crate) fn wrong(plan: &Plan, first: i64) {
    let found = first_wrong(plan, first).map(|sizes| sizes.extents[0]);
    assert_eq!(found, Some(first), "it should be wrong at {first} first");
    assert_eq!(says(plan), Says::Wrong);
}

/// Wrong somewhere, and not accepted.
#[track_caller]
pub(crate) fn not_right(plan: &Plan, somewhere: i64) {
    assert!(first_wrong(plan, somewhere).is_some(), "it is right up to {somewhere}");
    assert_ne!(says(plan), Says::Right);
}

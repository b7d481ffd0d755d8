//! Plans that are right, each with one slip: none that is wrong passes the checker.

use crate::plans;
use plan_simulator::run_variants;

#[test]
fn a_slip_is_refused_or_harmless() {
    let plan = |(name, plan): (&str, typed_nccl_plan::build::PlanBuilder)| {
        let plan = plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"));
        (name.to_owned(), plan)
    };
    let plans: Vec<_> = plans::good().into_iter().map(plan).collect();
    let seen = run_variants(&plans, 1, 60);
    assert!(seen.missed.is_empty(), "{seen}");
}

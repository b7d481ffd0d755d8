//! The simulator, which shares no code with the checker, is of one mind about the catalogue: good
//! plans run, near misses break their rule.

use crate::plans;
use crate::plans::{NearMiss, small};
use plan_simulator::{Outcome, Random, shake, simulate};
use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::Sizes;

/// How many ranks are simulated at most.
const RANKS: i64 = 6;

#[test]
fn good_plans_run() {
    for (name, plan) in plans::good() {
        let plan = unchecked(plan);
        let sizes = few(&plan);
        assert!(!sizes.is_empty(), "{name}: no small sizes");
        for sizes in sizes {
            let outcome = ran(name, &plan, &sizes);
            assert!(outcome.is_right(), "{name} at {}: {:?}", sizes.text, outcome.broken());
            let torn = shake(&plan, &sizes, &mut Random::new(11), 4);
            assert_eq!(torn, None, "{name} at {}: schedules differ", sizes.text);
        }
    }
}

#[test]
fn near_misses_break_their_rule() {
    for (name, near_miss) in plans::near_misses() {
        let NearMiss { plan, breaks, .. } = near_miss;
        let plan = unchecked(plan);
        let first = small::sizes(&plan).into_iter().find_map(|sizes| {
            let broken = ran(name, &plan, &sizes).broken();
            (!broken.is_empty()).then_some((sizes.text, broken))
        });
        let Some((at, broken)) = first else { panic!("{name} breaks nothing") };
        assert!(broken.contains(&breaks), "{name} breaks {broken:?} at {at}, not {breaks}");
    }
}

fn ran(name: &str, plan: &Plan, sizes: &Sizes) -> Outcome {
    let outcome = simulate(plan, sizes);
    assert_eq!(outcome.malformed, None, "{name} at {}", sizes.text);
    outcome
}

fn few(plan: &Plan) -> Vec<Sizes> {
    let ranks = |sizes: &Sizes| sizes.extents.iter().product::<i64>();
    let sizes = small::sizes(plan);
    let smallest = sizes.first().map_or(0, ranks);
    // A torus of three by three is more than the limit already.
    sizes.into_iter().filter(|sizes| ranks(sizes) <= RANKS.max(smallest)).collect()
}

fn unchecked(plan: PlanBuilder) -> Plan {
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

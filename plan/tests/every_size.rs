//! What is said for every size is what is found at each.

use std::collections::BTreeMap;

use plan_simulator::{Random, random_plan, sizes};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::{ProblemKind, Sizes};

/// How many random plans are asked.
const PLANS: u64 = 1500;

/// The instance of a plan of one axis.
fn at(plan: &Plan, ranks: i64, params: &[Vec<i64>]) -> Sizes {
    let text = format!("{} = {ranks}", plan.axes[0].name);
    Sizes { extents: vec![ranks], params: params.to_vec(), text }
}

#[test]
fn verdicts_for_every_size_agree_with_those_of_each() {
    let (mut accepted, mut broken, mut undecided) = (0, 0, BTreeMap::new());
    for seed in 0..PLANS {
        let plan = random_plan(&mut Random::new(seed), true);
        if plan.axes.len() != 1 || !plan.validate().is_empty() {
            continue;
        }
        let first = plan.axes[0].extent.first().unwrap_or(1);
        // The parameters of its smallest sizes, at every number of ranks.
        let mut params: Vec<_> = sizes(&plan, first).into_iter().map(|of| of.params).collect();
        params.truncate(3);
        match check(&plan) {
            Ok(_) => {
                accepted += 1;
                let last = if accepted % 16 == 0 { 64 } else { 14 };
                for ranks in first..=last {
                    for params in &params {
                        let instance = at(&plan, ranks, params);
                        if let Err(rejected) = check_at(&plan, &instance) {
                            panic!("seed {seed}, {}: accepted for all\n{rejected}", instance.text);
                        }
                    }
                }
            }
            Err(rejected) => match rejected.problems.iter().find(|problem| problem.is_broken()) {
                Some(problem) => {
                    broken += 1;
                    let Some(named) = &problem.sizes else { panic!("no size:\n{rejected}") };
                    assert!(check_at(&plan, named).is_err(), "{}: accepted", named.text);
                    // The smallest: what is below is right.
                    for ranks in first..named.extents[0] {
                        let smaller = at(&plan, ranks, &named.params);
                        let below = check_at(&plan, &smaller);
                        assert!(below.is_ok(), "seed {seed}: {ranks} is smaller\n{rejected}");
                    }
                }
                None => {
                    let kinds = rejected.problems.iter().map(|problem| match problem.kind {
                        ProblemKind::Undecided(check) => check.to_string(),
                        kind => format!("{kind:?}"),
                    });
                    for kind in kinds {
                        *undecided.entry(kind).or_insert(0) += 1;
                    }
                }
            },
        }
    }
    println!("{accepted} accepted, {broken} broken, undecided: {undecided:?}");
    assert!(accepted > 200 && broken > 200, "too few of one kind");
}

//! What is said for every size is what is found at each.

use std::collections::BTreeMap;

use plan_simulator::{Random, random_plan, sizes};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::verdict::ProblemKind;

/// How many random plans are asked.
const PLANS: u64 = 1500;

#[test]
fn verdicts_for_every_size_agree_with_those_of_each() {
    let (mut accepted, mut broken, mut undecided) = (0, 0, BTreeMap::new());
    for seed in 0..PLANS {
        let plan = random_plan(&mut Random::new(seed), true);
        if plan.axes.len() != 1 || !plan.validate().is_empty() {
            continue;
        }
        match check(&plan) {
            Ok(_) => {
                accepted += 1;
                let last = if accepted % 16 == 0 { 64 } else { 14 };
                for of in sizes(&plan, last) {
                    if let Err(rejected) = check_at(&plan, &of) {
                        panic!("seed {seed}, {}: accepted for all\n{rejected}", of.text);
                    }
                }
            }
            Err(rejected) => match rejected.problems.iter().find(|problem| problem.is_broken()) {
                Some(problem) => {
                    broken += 1;
                    let Some(named) = &problem.sizes else { panic!("no size:\n{rejected}") };
                    assert!(check_at(&plan, named).is_err(), "{}: accepted", named.text);
                    // The smallest: what is below is right.
                    let below = sizes(&plan, named.extents[0] - 1);
                    for of in below.iter().filter(|of| of.params == named.params) {
                        let told = check_at(&plan, of);
                        assert!(told.is_ok(), "seed {seed}: {} is smaller\n{rejected}", of.text);
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

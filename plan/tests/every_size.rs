//! What is said for every size is what is found at each.

use std::collections::BTreeMap;

use plan_simulator::{Random, random_guarded, random_plan, simulate, sizes};
use typed_nccl_plan::check::{check_at, check_counted};
use typed_nccl_plan::verdict::{ProblemKind, Sizes};

/// Which part of the work is done for a plan, at most. Those that take most of it stay undecided, and nothing is
/// asked of them; so where nothing is inlined it is done whole only for these, which are accepted after much work.
fn share(seed: u64, long: &[u64]) -> u64 {
    if cfg!(debug_assertions) && !long.contains(&seed) { 80 } else { 1 }
}

/// Whether so many ranks are looked at: all few, and of the larger ones primes, even ones, powers of two and
/// those beside them.
fn is_asked(sizes: &Sizes) -> bool {
    let ranks = sizes.extents.iter().product();
    ranks <= 12 || [14, 16, 17, 21, 24, 31, 32, 36, 47, 63, 64, 72, 96].contains(&ranks)
}

/// How many random plans are asked.
const PLANS: u64 = 1500;
/// Those that are accepted after much work.
const LONG: [u64; 2] = [366, 629];

#[test]
fn verdicts_for_every_size_agree_with_those_of_each() {
    let (mut accepted, mut broken, mut undecided) = (0, 0, BTreeMap::new());
    for seed in 0..PLANS {
        let plan = random_plan(&mut Random::new(seed), true);
        if plan.axes.len() != 1 || !plan.validate().is_empty() {
            continue;
        }
        match check_counted(&plan, share(seed, &LONG)).0 {
            Ok(_) => {
                accepted += 1;
                let last = if accepted % 16 == 0 { 64 } else { 14 };
                for of in sizes(&plan, last).into_iter().filter(is_asked) {
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

/// How many plans in which not all ranks do the same are asked; more, if the environment says so.
const GUARDED: u64 = 250;
/// Those that are accepted after much work.
const GUARDED_LONG: [u64; 9] = [16, 21, 55, 94, 122, 212, 214, 234, 240];

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn conditions_on_the_rank_agree_with_each_size() {
    let (first, count) = (number("GUARDED_FROM", 0), number("GUARDED", GUARDED));
    let (mut accepted, mut broken, mut refused, mut late) = (0, 0, BTreeMap::new(), 0);
    for seed in first..first + count {
        let plan = random_guarded(&mut Random::new(seed));
        if !plan.validate().is_empty() {
            continue;
        }
        let share = if count > GUARDED { 1 } else { share(seed, &GUARDED_LONG) };
        match check_counted(&plan, share).0 {
            Ok(_) => {
                accepted += 1;
                let few = if plan.axes.len() == 1 { 64 } else { 96 };
                let last = if count > GUARDED { few } else { few / 3 };
                for of in sizes(&plan, last).into_iter().filter(is_asked) {
                    if let Err(rejected) = check_at(&plan, &of) {
                        panic!("seed {seed}, {}: accepted for all\n{rejected}", of.text);
                    }
                    let size: i64 = of.extents.iter().product();
                    if size <= 12 || (size <= 40 && accepted % 16 == 0) {
                        let outcome = simulate(&plan, &of);
                        assert!(outcome.is_right(), "seed {seed}, {}: {outcome}", of.text);
                    }
                }
            }
            Err(rejected) => match rejected.problems.iter().find(|problem| problem.is_broken()) {
                Some(problem) => {
                    broken += 1;
                    let Some(named) = &problem.sizes else { panic!("no size:\n{rejected}") };
                    late += u64::from(named.extents[0] > 8);
                    assert!(check_at(&plan, named).is_err(), "{}: accepted", named.text);
                    if named.extents.iter().product::<i64>() <= 24 {
                        let outcome = simulate(&plan, named);
                        assert!(!outcome.is_right(), "seed {seed}, {}: {rejected}", named.text);
                    }
                }
                None => {
                    // Refused, though it may be right everywhere.
                    for problem in &rejected.problems {
                        *refused.entry(problem.title.clone()).or_insert(0) += 1;
                    }
                }
            },
        }
    }
    println!("{accepted} accepted, {broken} broken ({late} above 8), refused: {refused:#?}");
    assert!(accepted > count / 20 && broken > count / 4, "too few of one kind");
}

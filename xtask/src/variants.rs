//! Runs plans that are right with one slip each through the checker and the simulator: those of the
//! library, published schedules, and those of the tests of `typed-nccl-plan`.

use plan_simulator::run_variants;
use typed_nccl::plan::Plan;

use crate::{Check, Failure, pictures};

#[path = "../../plan/tests/plans/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "the tests of plans want more")]
mod plans;

#[path = "../../tests/published/plans/mod.rs"]
mod published;

/// Prints what becomes of so many variants.
pub(crate) fn run(seed: &str, count: &str) -> Check {
    let number = |text: &str| {
        let number = text.parse::<u64>();
        number.map_err(|_| Failure::NotMade(format!("`{text}`: expected a number")))
    };
    let (seed, count) = (number(seed)?, number(count)?);
    let library = pictures::subjects().into_iter().map(|one| one.plan.clone());
    let all = library.chain(published::all().into_iter().cloned());
    let mut all: Vec<(String, Plan)> = all.map(|plan| (plan.name.clone(), plan)).collect();
    for (name, plan) in plans::good() {
        let plan = plan.unchecked().map_err(|refused| Failure::NotMade(refused.to_string()))?;
        all.push((name.to_owned(), plan));
    }
    let seen = run_variants(&all, seed, usize::try_from(count).unwrap_or(usize::MAX));
    print!("{seen}");
    match seen.missed.len() {
        0 => Ok(()),
        many => Err(Failure::Broken(format!("{many} variants are wrong, and pass the checker"))),
    }
}

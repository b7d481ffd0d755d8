//! What the checker says of all sizes of a plan, beside what the simulator says of the small ones.
//!
//! Of an accepted plan, the simulator accepts every size; the sizes that a rejected one names are broken in
//! the simulator, by that rule. What the checker leaves undecided is counted.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use typed_nccl_plan::check::check;
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::{Check, ProblemKind, Rejected, Sizes};

use crate::differ::{Difference, against, in_threads};
use crate::dump::dump;
use crate::generate;
use crate::outcome::Outcome;
use crate::random::Random;
use crate::shrink::shrink;
use crate::simulate;

/// More ranks than this are not simulated.
const MOST: i64 = 40;

/// What was seen of plans for all of their sizes.
#[derive(Clone, Debug, Default)]
pub struct Every {
    /// Plans accepted for all sizes.
    pub accepted: usize,
    /// Plans with a broken rule.
    pub broken: usize,
    /// Plans that were not decided, by the rule that was not.
    pub undecided: BTreeMap<String, usize>,
    /// Instances that the simulator ran.
    pub instances: usize,
    /// The first difference of each kind, with the smallest plan that shows it.
    pub differences: BTreeMap<Difference, String>,
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, broken, undecided, instances, .. } = self;
        let open: usize = undecided.values().sum();
        writeln!(
            f,
            "plans for all sizes: {accepted} accepted, {broken} broken, {open} undecided;"
        )?;
        writeln!(f, "{instances} instances run; undecided by rule: {undecided:?}")
    }
}

/// What the checker says, in short.
enum Verdict {
    Accepted,
    Rejected(Rejected),
    Panicked(String),
}

fn verdict(plan: &Plan) -> Verdict {
    match catch_unwind(AssertUnwindSafe(|| check(plan))) {
        Ok(Ok(_)) => Verdict::Accepted,
        Ok(Err(rejected)) => Verdict::Rejected(rejected),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Verdict::Panicked(text.unwrap_or("without a word").to_owned())
        }
    }
}

/// A rejected plan, and the sizes at which it is wrong: a difference if it is not, there.
fn named(plan: &Plan, rejected: &Rejected) -> Option<(Difference, Sizes)> {
    for problem in &rejected.problems {
        if let (ProblemKind::Broken(_), Some(sizes)) = (problem.kind, &problem.sizes)
            && sizes.extents.iter().product::<i64>() <= MOST
        {
            let outcome = simulate(plan, sizes);
            if outcome.malformed.is_some() {
                continue;
            }
            let one = Rejected { problems: vec![problem.clone()], ..rejected.clone() };
            if let Some(difference) = against(&one, &outcome) {
                return Some((difference, sizes.clone()));
            }
        }
    }
    None
}

/// The first rule that is broken. A number without a value counts as a place outside.
fn wrong(outcome: &Outcome) -> Option<Check> {
    let outside = outcome.malformed.as_ref().map(|_| Check::Bounds);
    outside.or_else(|| outcome.notes.keys().next().copied())
}

/// Compares so many random plans, for all of their sizes: those up to `most` ranks are simulated.
pub fn run_every(seed: u64, count: usize, threads: usize, most: i64) -> Every {
    let mut all = Every::default();
    let work = |thread: usize| {
        let mut seen = Every::default();
        for at in (thread..count).step_by(threads) {
            let seed = seed.wrapping_add((at as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
            plan(seed, most, &mut seen);
        }
        seen
    };
    for seen in in_threads(threads, &work) {
        all.accepted += seen.accepted;
        all.broken += seen.broken;
        all.instances += seen.instances;
        for (rule, times) in seen.undecided {
            *all.undecided.entry(rule).or_default() += times;
        }
        for (difference, text) in seen.differences {
            all.differences.entry(difference).or_insert(text);
        }
    }
    all
}

fn plan(seed: u64, most: i64, seen: &mut Every) {
    let mut random = Random::new(seed);
    let plan = generate::plan(&mut random, true);
    if !plan.validate().is_empty() {
        return;
    }
    let tell = |difference: Difference, sizes: &Sizes, seen: &mut Every| {
        let text = |difference: &Difference| story(&plan, sizes, difference);
        seen.differences.entry(difference).or_insert_with_key(text);
    };
    match verdict(&plan) {
        Verdict::Accepted => {
            seen.accepted += 1;
            // A few plans are looked at further up.
            let most = if random.chance(1, 20) { 3 * most } else { most };
            for sizes in generate::sizes(&plan, most.min(MOST)) {
                seen.instances += 1;
                let outcome = simulate(&plan, &sizes);
                if let Some(rule) = wrong(&outcome) {
                    return tell(Difference::Accepted(rule), &sizes, seen);
                }
            }
        }
        Verdict::Rejected(rejected) => {
            let undecided = rejected.problems.iter().find(|problem| !problem.is_broken());
            match undecided {
                Some(problem) => {
                    let rule = problem.check().map_or_else(
                        || format!("{:?}", problem.kind),
                        |rule: Check| rule.to_string(),
                    );
                    *seen.undecided.entry(rule).or_default() += 1;
                }
                None => seen.broken += 1,
            }
            if let Some((difference, sizes)) = named(&plan, &rejected) {
                tell(difference, &sizes, seen);
            }
        }
        Verdict::Panicked(_) => {
            let sizes = generate::sizes(&plan, most).into_iter().next().unwrap_or_default();
            tell(Difference::Panicked, &sizes, seen);
        }
    }
}

/// Whether a plan still shows a difference at these sizes.
fn shows(plan: &Plan, sizes: &Sizes, difference: &Difference) -> bool {
    let outcome = simulate(plan, sizes);
    if !plan.validate().is_empty() {
        return false;
    }
    match (verdict(plan), difference) {
        (Verdict::Accepted, Difference::Accepted(rule)) => wrong(&outcome) == Some(*rule),
        (Verdict::Rejected(rejected), _) => {
            named(plan, &rejected).is_some_and(|(found, _)| found == *difference)
        }
        (Verdict::Panicked(_), Difference::Panicked) => true,
        _ => false,
    }
}

fn story(plan: &Plan, sizes: &Sizes, difference: &Difference) -> String {
    let (plan, sizes) = shrink(plan, sizes, &mut |plan, sizes| shows(plan, sizes, difference));
    let (sizes, checker) = match verdict(&plan) {
        Verdict::Accepted => (sizes, "accepted\n".to_owned()),
        Verdict::Panicked(text) => (sizes, format!("panicked: {text}\n")),
        Verdict::Rejected(rejected) => {
            let sizes = named(&plan, &rejected).map_or(sizes, |(_, sizes)| sizes);
            (sizes, rejected.to_string())
        }
    };
    let mut text = format!("for all sizes: {difference:?} for {}\n{}", sizes.text, dump(&plan));
    text += &format!("checker: {checker}simulator: {}", simulate(&plan, &sizes));
    text
}

//! What the checker says of a plan while it compiles, beside what the simulator says of its sizes.
//!
//! The sizes that a refused plan names are broken in the simulator, by that rule. Of an accepted
//! plan, the simulator accepts every size that was checked. At others it may find something: how
//! many plans that happens to says what the choice of sizes misses, and each of them must be
//! refused when it is bound.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use typed_nccl_plan::check::{Accepted, check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::{Check, ProblemKind, Rejected, Sizes};

use crate::differ::{Difference, against, in_threads};
use crate::dump::dump;
use crate::generate;
use crate::outcome::Outcome;
use crate::random::Random;
use crate::shrink::shrink;
use crate::simulate;

/// More ranks than this are not simulated, but for a few plans.
const MOST: i64 = 40;
/// More ranks than this are never simulated.
const EVER: i64 = 97;

/// What was seen of plans while they compile.
#[derive(Clone, Debug, Default)]
pub struct Every {
    /// Plans that were accepted.
    pub accepted: usize,
    /// Plans that were refused.
    pub refused: usize,
    /// Instances that the simulator ran.
    pub instances: usize,
    /// Those of them whose sizes were not checked while the plan compiles.
    pub beyond: usize,
    /// Accepted plans that are wrong at sizes that were not checked: where they come from, and
    /// those sizes.
    pub missed: Vec<(u64, String)>,
    /// The first difference of each kind, with the smallest plan that shows it.
    pub differences: BTreeMap<Difference, String>,
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, refused, instances, beyond, missed, .. } = self;
        writeln!(f, "while compiling: {accepted} plans accepted, {refused} refused;")?;
        writeln!(f, "{instances} instances run, {beyond} of them at sizes that were not checked;")?;
        writeln!(f, "{} accepted plans are wrong there, and are refused when bound", missed.len())?;
        for (seed, sizes) in missed.iter().take(8) {
            writeln!(f, "  seed {seed}: {sizes}")?;
        }
        Ok(())
    }
}

/// What the checker says, in short.
enum Verdict {
    Accepted(Accepted),
    Rejected(Rejected),
    Panicked(String),
}

fn verdict(plan: &Plan) -> Verdict {
    match catch_unwind(AssertUnwindSafe(|| check(plan))) {
        Ok(Ok(accepted)) => Verdict::Accepted(accepted),
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
        // Conditions that nothing fulfils.
        let (ProblemKind::Broken(_), Some(sizes)) = (problem.kind, problem.sizes.clone()) else {
            continue;
        };
        if sizes.extents.iter().product::<i64>() > MOST {
            continue;
        }
        let outcome = simulate(plan, &sizes);
        // What is refused for all sizes together, a message that is read at none, is not judged
        // here.
        if outcome.is_right() && check_at(plan, &sizes).is_ok() {
            continue;
        }
        let one = Rejected { problems: vec![problem.clone()], ..rejected.clone() };
        if outcome.malformed.is_none()
            && let Some(difference) = against(&one, &outcome)
        {
            return Some((difference, sizes));
        }
    }
    None
}

/// The first rule that is broken. A number without a value counts as a place outside.
fn wrong(outcome: &Outcome) -> Option<Check> {
    let outside = outcome.malformed.as_ref().map(|_| Check::Bounds);
    outside.or_else(|| outcome.notes.keys().next().copied())
}

/// Compares so many random plans; those that are accepted are simulated at all sizes up to `most`
/// ranks, and at some larger ones.
pub fn run_every(seed: u64, count: usize, threads: usize, most: i64) -> Every {
    let mut all = Every::default();
    let work = |thread: usize| {
        let mut seen = Every::default();
        for at in (thread..count).step_by(threads) {
            let seed = seed.wrapping_add((at as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
            one(seed, most, &mut seen);
        }
        seen
    };
    for seen in in_threads(threads, &work) {
        all.accepted += seen.accepted;
        all.refused += seen.refused;
        all.instances += seen.instances;
        all.beyond += seen.beyond;
        all.missed.extend(seen.missed);
        for (difference, text) in seen.differences {
            all.differences.entry(difference).or_insert(text);
        }
    }
    all
}

/// The plan of a seed, as [`run_every`] makes it: in a third of them not all ranks do the same.
pub fn plan_of(random: &mut Random) -> Plan {
    if random.chance(1, 3) { generate::guarded(random) } else { generate::plan(random, true) }
}

fn one(seed: u64, most: i64, seen: &mut Every) {
    let mut random = Random::new(seed);
    let plan = plan_of(&mut random);
    if !plan.validate().is_empty() {
        return;
    }
    let tell = |difference: Difference, sizes: &Sizes, seen: &mut Every| {
        let text = |difference: &Difference| story(&plan, sizes, difference);
        seen.differences.entry(difference).or_insert_with_key(text);
    };
    match verdict(&plan) {
        Verdict::Accepted(accepted) => {
            seen.accepted += 1;
            for sizes in looked_at(&plan, &mut random, most) {
                let was_checked = accepted.contains(&sizes);
                seen.instances += 1;
                seen.beyond += usize::from(!was_checked);
                let outcome = simulate(&plan, &sizes);
                let Some(rule) = wrong(&outcome) else { continue };
                if was_checked || check_at(&plan, &sizes).is_ok() {
                    return tell(Difference::Accepted(rule), &sizes, seen);
                }
                return seen.missed.push((seed, sizes.text));
            }
        }
        Verdict::Rejected(rejected) => {
            seen.refused += 1;
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

/// All sizes up to `most` ranks, and some larger ones.
fn looked_at(plan: &Plan, random: &mut Random, most: i64) -> Vec<Sizes> {
    let mut all = generate::sizes(plan, most);
    let last = if random.chance(1, 20) { EVER } else { MOST };
    let mut larger = generate::sizes(plan, last);
    larger.retain(|sizes| sizes.extents.iter().product::<i64>() > most);
    for _ in 0..4 {
        if !larger.is_empty() {
            all.push(larger.swap_remove(random.below(larger.len())));
        }
    }
    all
}

/// Whether a plan still shows a difference at these sizes.
fn shows(plan: &Plan, sizes: &Sizes, difference: &Difference) -> bool {
    let outcome = simulate(plan, sizes);
    if !plan.validate().is_empty() {
        return false;
    }
    match (verdict(plan), difference) {
        (Verdict::Accepted(_), Difference::Accepted(rule)) => {
            wrong(&outcome) == Some(*rule) && check_at(plan, sizes).is_ok()
        }
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
        Verdict::Accepted(_) => (sizes, "accepted\n".to_owned()),
        Verdict::Panicked(text) => (sizes, format!("panicked: {text}\n")),
        Verdict::Rejected(rejected) => {
            let sizes = named(&plan, &rejected).map_or(sizes, |(_, sizes)| sizes);
            (sizes, rejected.to_string())
        }
    };
    let mut text = format!("while compiling: {difference:?} for {}\n{}", sizes.text, dump(&plan));
    text += &format!("checker: {checker}simulator: {}", simulate(&plan, &sizes));
    text
}

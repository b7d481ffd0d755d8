//! Plans that are right, each with one small change: what the checker says of them, beside what the
//! simulator says.

use std::collections::BTreeMap;
use std::fmt;

use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::{Plan, StepKind};
use typed_nccl_plan::verdict::{Check, ProblemKind, Rejected, Sizes};

use crate::dump::dump;
use crate::generate::{self, Change};
use crate::make;
use crate::random::Random;
use crate::simulate;

/// More ranks than this are not simulated.
const MOST: i64 = 8;

/// At how many sizes an accepted variant is simulated at most.
const SIMULATED: usize = 24;

/// How many of each are listed.
const LISTED: usize = 12;

/// What was seen of variants.
#[derive(Default)]
pub struct Variants {
    rows: BTreeMap<Change, Row>,
    /// Accepted, and wrong at a size that was checked, or that would be bound.
    pub missed: Vec<String>,
    /// Refused by a rule that the simulator does not find broken at those sizes.
    pub stricter: BTreeMap<Check, (usize, String)>,
}

/// One kind of change.
#[derive(Clone, Copy, Default)]
struct Row {
    refused: usize,
    /// Refused at sizes that are too large to simulate, or for no size in particular.
    unjudged: usize,
    right: usize,
    /// Accepted, wrong at a size that was not checked, and refused when it is bound there.
    when_bound: usize,
    stricter: usize,
    missed: usize,
}

/// What becomes of a variant.
enum Verdict {
    Refused,
    Unjudged,
    Right,
    WhenBound,
    Stricter(Check, String),
    Missed(Sizes),
}

/// Makes so many variants of the plans, which are right, and judges them.
pub fn run_variants(plans: &[(String, Plan)], seed: u64, count: usize) -> Variants {
    let mut seen = Variants::default();
    for at in 0..count {
        let seed = seed.wrapping_add((at as u64).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut random = Random::new(seed);
        let (name, plan) = random.pick(plans);
        let mut plan = plan.clone();
        // The simulator does not judge claims between statements.
        make::lists(&mut plan.steps, &mut |list| {
            list.retain(|step| !matches!(step.kind, StepKind::Here(_)));
        });
        let mut variant = plan.clone();
        let change = generate::change(&mut variant, &mut random);
        if variant == plan {
            continue;
        }
        let verdict = judge(&variant, &mut random);
        let row = seen.rows.entry(change).or_default();
        match verdict {
            Verdict::Refused => row.refused += 1,
            Verdict::Unjudged => row.unjudged += 1,
            Verdict::Right => row.right += 1,
            Verdict::WhenBound => row.when_bound += 1,
            Verdict::Stricter(check, text) => {
                row.stricter += 1;
                let text = format!("{name}, {change}:\n{text}");
                seen.stricter.entry(check).or_insert((0, text)).0 += 1;
            }
            Verdict::Missed(sizes) => {
                row.missed += 1;
                let found = simulate(&variant, &sizes);
                let text = dump(&variant);
                let of = format!("{name}, {change}, for {}: {found}{text}", sizes.text);
                seen.missed.push(of);
            }
        }
    }
    seen
}

/// Some of the sizes.
fn some(mut sizes: Vec<Sizes>, random: &mut Random) -> Vec<Sizes> {
    while sizes.len() > SIMULATED {
        sizes.swap_remove(random.below(sizes.len()));
    }
    sizes
}

fn judge(plan: &Plan, random: &mut Random) -> Verdict {
    match check(plan) {
        Err(rejected) => refused(plan, &rejected),
        Ok(accepted) => {
            let mut verdict = Verdict::Right;
            for sizes in some(generate::sizes(plan, MOST), random) {
                if simulate(plan, &sizes).is_right() {
                    continue;
                }
                if accepted.contains(&sizes) || check_at(plan, &sizes).is_ok() {
                    return Verdict::Missed(sizes);
                }
                verdict = Verdict::WhenBound;
            }
            verdict
        }
    }
}

fn refused(plan: &Plan, rejected: &Rejected) -> Verdict {
    let problem = &rejected.problems[0];
    match (problem.kind, &problem.sizes) {
        (ProblemKind::Broken(check), Some(sizes)) => {
            if sizes.extents.iter().product::<i64>() > MOST {
                return Verdict::Unjudged;
            }
            match simulate(plan, sizes).is_right() {
                true => Verdict::Stricter(check, rejected.to_string()),
                false => Verdict::Refused,
            }
        }
        (ProblemKind::Malformed, _) => Verdict::Refused,
        _ => Verdict::Unjudged,
    }
}

impl fmt::Display for Variants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["refused", "right", "when bound", "stricter", "not judged", "missed"];
        write!(f, "{:<28}", "change")?;
        heads.iter().try_for_each(|head| write!(f, "{head:>12}"))?;
        writeln!(f)?;
        let mut all = Row::default();
        let line = |f: &mut fmt::Formatter<'_>, name: &str, row: &Row| {
            let of =
                [row.refused, row.right, row.when_bound, row.stricter, row.unjudged, row.missed];
            write!(f, "{name:<28}")?;
            of.iter().try_for_each(|many| write!(f, "{many:>12}"))?;
            writeln!(f)
        };
        for (change, row) in &self.rows {
            line(f, &change.to_string(), row)?;
            all.refused += row.refused;
            all.right += row.right;
            all.when_bound += row.when_bound;
            all.stricter += row.stricter;
            all.unjudged += row.unjudged;
            all.missed += row.missed;
        }
        line(f, "all", &all)?;
        let wrong = all.refused + all.when_bound + all.missed;
        let found = 100.0 * (wrong - all.missed) as f64 / wrong.max(1) as f64;
        writeln!(f, "of {wrong} variants that are wrong, {found:.2} % are refused by name")?;
        for (check, (many, first)) in &self.stricter {
            writeln!(f, "\nstricter than the simulator, {many} times, by {check}; first {first}")?;
        }
        for missed in self.missed.iter().take(LISTED) {
            writeln!(f, "\nmissed: {missed}")?;
        }
        Ok(())
    }
}

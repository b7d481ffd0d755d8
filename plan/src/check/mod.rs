//! The checks: of one instance, and of the instances that show what a plan does.
//!
//! An instance is checked exactly: it is written out (`program`), and each rule has a file here.

mod accepted;
mod alike;
mod collectives;
mod coverage;
mod deadlock;
mod device_order;
mod does;
mod equations;
mod grouped;
mod hazards;
mod initialised;
mod instance;
mod links;
mod local;
mod messages;
mod orders;
mod postcondition;
mod promise;
mod ranges;
mod report;
mod shares;
mod signals;
mod steps;
mod units;
mod unread;
mod warnings;
mod written;

pub use accepted::Accepted;

use crate::ir::{Location, Plan};
use crate::program::{
    Budget, DOES_NOT_FIT, MOST_WORK, Program, Statements, Until, declared, expand, fits,
};
use crate::sizes::{self, Chosen};
use crate::verdict::{Problem, ProblemKind, Rejected, Sizes};
pub(crate) use instance::Instance;
use unread::Unread;
use warnings::Warnings;

pub(crate) use links::Links;
pub(crate) use local::{Clocks, Local, Reason as LocalReason, reasons as local_reasons};
pub(crate) use ranges::Ranges;

/// Checks a plan exactly at many sizes: small ones, and those that the plan itself makes special.
/// Returns the sizes at which it was checked.
///
/// # Errors
///
/// What is wrong at the smallest of these sizes at which something is.
pub fn check(plan: &Plan) -> Result<Accepted, Rejected> {
    let malformed = malformed(plan);
    if !malformed.is_empty() {
        return Err(rejected(plan, malformed));
    }
    Checker::new(plan).check().map_err(|problems| rejected(plan, problems))
}

/// Checks one instance of a plan exactly: the sizes need not be among those that it claims.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn check_at(plan: &Plan, sizes: &Sizes) -> Result<(), Rejected> {
    crate::lower::Instance::new(plan, sizes, None)?.check()
}

/// An instance, written out.
pub(crate) fn written(plan: &Plan, sizes: &Sizes, until: Until) -> Result<Program, Rejected> {
    let mut problems = malformed(plan);
    if problems.is_empty() {
        problems.extend(sizes::misfit(plan, sizes));
    }
    if problems.is_empty() {
        let (statements, mut budget) = (Statements::new(plan), Budget::until(MOST_WORK, until));
        let expanded = expand(plan, &statements, sizes, &mut budget);
        in_time(plan, until)?;
        match expanded {
            Ok(program) => return Ok(program),
            Err(found) => problems = found,
        }
    }
    Err(rejected(plan, problems))
}

/// Fails when it is too late.
pub(crate) fn in_time(plan: &Plan, until: Until) -> Result<(), Rejected> {
    if !until.is_past() {
        return Ok(());
    }
    let title = "there was no time to look at all that the ranks do";
    let (at, help) = (declared(plan), "choose smaller sizes, or allow more time");
    Err(rejected(plan, vec![Problem::new(ProblemKind::OutOfTime, title, at, help)]))
}

pub(crate) fn rejected(plan: &Plan, problems: Vec<Problem>) -> Rejected {
    Rejected { plan: plan.name.clone(), files: plan.files.clone(), problems }
}

/// Why this is no plan.
fn malformed(plan: &Plan) -> Vec<Problem> {
    let problems = plan.validate();
    if !problems.is_empty() || fits(plan) {
        return problems;
    }
    let help = "declare fewer: values of one kind can be one list";
    vec![Problem::new(ProblemKind::TooLarge, DOES_NOT_FIT, Location::default(), help)]
}

/// How much work the chosen sizes of a plan take together at most.
const CHOSEN_WORK: u64 = 120_000;

/// What an instance takes however little it does.
const EACH: u64 = 64;

/// What is judged when all sizes were looked at.
struct Seen {
    unread: Unread,
    warnings: Warnings,
}

impl Seen {
    fn new(plan: &Plan) -> Self {
        Self { unread: Unread::new(plan), warnings: Warnings::new(plan) }
    }
}

/// A plan that is checked at many sizes.
struct Checker<'a> {
    plan: &'a Plan,
    statements: Statements<'a>,
}

impl<'a> Checker<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self { plan, statements: Statements::new(plan) }
    }

    fn check(&self) -> Result<Accepted, Vec<Problem>> {
        let asked = sizes::asked(self.plan).map_err(|at| {
            let title = "the plan is not for the sizes that are to be checked";
            let help = "ask for sizes that the plan claims";
            vec![Problem::new(ProblemKind::Malformed, title, self.plan.checks[at].at, help)]
        })?;
        let chosen = match sizes::chosen(self.plan) {
            Chosen::Sizes(chosen) => chosen,
            Chosen::TooMany => Vec::new(),
            Chosen::Unfulfilled if !asked.is_empty() => Vec::new(),
            Chosen::Unfulfilled => return Err(vec![self.unfulfilled()]),
        };
        let mut seen = Seen::new(self.plan);
        let mut accepted = self.chosen(chosen, &mut seen)?;
        for sizes in asked {
            let problems = self.looked(&sizes, &mut Budget::new(MOST_WORK), Some(&mut seen));
            match problems.first() {
                None => accepted.push(sizes),
                // It is checked again when it is bound, which warns.
                Some(problem) if problem.kind == ProblemKind::NotFollowed => {}
                Some(_) => return Err(problems),
            }
        }
        let problems = seen.unread.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Accepted::new(self.plan, accepted, seen.warnings.finish()))
    }

    /// Checks the sizes; what is wrong is told at the smallest, with what would make it right.
    fn chosen(&self, mut chosen: Vec<Sizes>, seen: &mut Seen) -> Result<Vec<Sizes>, Vec<Problem>> {
        match self.right(&chosen, seen) {
            Ok(count) => {
                chosen.truncate(count);
                Ok(chosen)
            }
            Err((at, problems)) => {
                let problems = self.smallest(&chosen[at..], problems);
                Err(promise::with_condition(self, &chosen, problems))
            }
        }
    }

    /// Checks the sizes in order, as many as the work allows. Returns their number, or the first
    /// size at which the plan is wrong.
    fn right(&self, chosen: &[Sizes], seen: &mut Seen) -> Result<usize, (usize, Vec<Problem>)> {
        let mut budget = Budget::new(CHOSEN_WORK);
        for (at, sizes) in chosen.iter().enumerate() {
            // The first one is looked at, however much it is.
            let problems = match at {
                0 => self.looked(sizes, &mut Budget::new(MOST_WORK), Some(seen)),
                _ if budget.take(EACH) => self.looked(sizes, &mut budget, Some(seen)),
                _ => return Ok(at),
            };
            if too_large(&problems) {
                return Ok(at);
            }
            if !problems.is_empty() {
                return Err((at, problems));
            }
        }
        Ok(chosen.len())
    }

    /// Whether the plan is right at these sizes, if there is work left to see it.
    fn is_right(&self, sizes: &Sizes, budget: &mut Budget) -> Option<bool> {
        let problems =
            if budget.take(EACH) { self.looked(sizes, budget, None) } else { return None };
        (!too_large(&problems)).then_some(problems.is_empty())
    }

    /// The problems of the smallest sizes, where smaller ones are looked at later than the first.
    fn smallest(&self, chosen: &[Sizes], problems: Vec<Problem>) -> Vec<Problem> {
        let weight = |sizes: &Sizes| {
            let params = sizes.params.iter().flatten();
            let sum = params.fold(0_i64, |sum, value| sum.saturating_add(*value));
            (sizes.extents.iter().product::<i64>(), sum)
        };
        let mut smaller: Vec<&Sizes> =
            chosen[1..].iter().filter(|sizes| weight(sizes) < weight(&chosen[0])).collect();
        smaller.sort_by_key(|sizes| weight(sizes));
        let mut budget = Budget::new(CHOSEN_WORK);
        for sizes in smaller {
            let found = self.looked(sizes, &mut budget, None);
            if too_large(&found) {
                break;
            }
            if !found.is_empty() {
                return found;
            }
        }
        problems
    }

    /// Everything that is wrong at these sizes. If nothing is, records what was seen.
    fn looked(&self, sizes: &Sizes, budget: &mut Budget, seen: Option<&mut Seen>) -> Vec<Problem> {
        match expand(self.plan, &self.statements, sizes, budget) {
            Err(problems) => problems,
            Ok(program) => {
                let instance =
                    Instance { plan: self.plan, program: &program, sizes, until: Until::NEVER };
                let problems = instance::problems(&instance, budget);
                let is_right = problems.iter().all(|one| one.kind == ProblemKind::NotFollowed);
                if let Some(seen) = seen.filter(|_| is_right) {
                    seen.unread.look(&instance);
                    seen.warnings.look(&instance);
                }
                problems
            }
        }
    }

    fn unfulfilled(&self) -> Problem {
        let title = "no sizes that were tried fulfil the plan's conditions";
        let at = self.plan.promises.first().map(|promise| promise.at).unwrap_or_default();
        let help =
            "change the conditions, or name sizes that fulfil them, as in `#[check(n in [6])]`";
        Problem::new(ProblemKind::Malformed, title, at, help)
    }
}

/// Whether the work ran out before anything was found.
fn too_large(problems: &[Problem]) -> bool {
    let is_limit = |problem: &Problem| {
        matches!(problem.kind, ProblemKind::TooLarge | ProblemKind::NotFollowed)
    };
    !problems.is_empty() && problems.iter().all(is_limit)
}

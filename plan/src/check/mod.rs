//! The checks: for one instance, and for every size that a plan claims.

mod classes;
mod collectives;
mod coverage;
mod deadlock;
mod does;
mod domain;
mod evenness;
mod every;
mod graph;
mod guards;
mod hazards;
mod initialised;
mod instance;
mod lengths;
mod links;
mod local;
mod messages;
mod models;
mod order;
mod orders;
mod parts;
mod postcondition;
mod regions;
mod report;
mod scale;
mod shape;
mod signals;
mod symmetry;
mod unbounded;
mod units;
mod whitelist;
mod written;

use crate::ir::{Location, Plan};
use crate::program::{Budget, DOES_NOT_FIT, Program, Statements, expand, fits};
use crate::verdict::{Problem, ProblemKind, Rejected, Sizes};
pub(crate) use domain::sizes as named_sizes;
use instance::{Depth, Instance};
pub(crate) use links::Links;

pub(crate) use local::{Clocks, Local, Reason as LocalReason, reasons as local_reasons};

/// What was proved of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// For which sizes, and how: sentences for people.
    pub claims: Vec<String>,
}

/// Checks a plan for every size that it claims.
///
/// # Errors
///
/// Everything that is wrong with it, or that could not be decided.
pub fn check(plan: &Plan) -> Result<Proof, Rejected> {
    let malformed = plan.validate();
    if !malformed.is_empty() {
        return Err(rejected(plan, malformed));
    }
    if !fits(plan) {
        return Err(rejected(plan, vec![too_wide()]));
    }
    every::check(plan, 1).0.map_err(|problems| rejected(plan, problems))
}

/// The same with a part of the work: a `share`-th of what it may be at most. With how much it was: about so many
/// units were written out or compared, or steps of proofs made. For tests: what the numbers count may change.
#[doc(hidden)]
pub fn check_counted(plan: &Plan, share: u64) -> (Result<Proof, Rejected>, u64) {
    let malformed = plan.validate();
    if !malformed.is_empty() || !fits(plan) {
        return (check(plan), 0);
    }
    let (verdict, work) = every::check(plan, share);
    (verdict.map_err(|problems| rejected(plan, problems)), work)
}

/// The most that [`check_counted`] counts, for a share of one.
#[doc(hidden)]
pub const MOST_WORK: u64 = UNITS + STEPS;

fn too_wide() -> Problem {
    Problem {
        kind: ProblemKind::TooLarge,
        title: DOES_NOT_FIT.to_owned(),
        at: Location::default(),
        sizes: None,
        story: Vec::new(),
        help: vec!["declare fewer: values of one kind can be one list".to_owned()],
    }
}

/// Checks one instance of a plan: the sizes need not be among those that it claims.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn check_at(plan: &Plan, sizes: &Sizes) -> Result<(), Rejected> {
    let mut problems = plan.validate();
    if problems.is_empty() && !fits(plan) {
        problems = vec![too_wide()];
    }
    if problems.is_empty() {
        problems = domain::misfit(plan, sizes);
    }
    if problems.is_empty() {
        let statements = Statements::new(plan);
        let mut budget = Budget::new(UNITS);
        problems = problems_at(plan, &statements, sizes, Depth::All, &mut budget);
    }
    if problems.is_empty() { Ok(()) } else { Err(rejected(plan, problems)) }
}

/// An instance that has passed the checks, written out.
pub(crate) fn checked(plan: &Plan, sizes: &Sizes) -> Result<Program, Rejected> {
    check_at(plan, sizes)?;
    let (statements, mut budget) = (Statements::new(plan), Budget::new(UNITS));
    expand(plan, &statements, sizes, &mut budget).map_err(|problems| rejected(plan, problems))
}

/// Everything that is wrong with an instance that is written out already.
pub(crate) fn problems_of(plan: &Plan, program: &Program, sizes: &Sizes) -> Vec<Problem> {
    instance::problems(&Instance { plan, program, sizes }, Depth::All, &mut Budget::new(UNITS))
}

/// What belongs together across the ranks of an instance that has passed the checks.
pub(crate) fn links_of(plan: &Plan, program: &Program, sizes: &Sizes) -> Links {
    let instance = Instance { plan, program, sizes };
    let mut report = report::Report::new(&instance);
    Links {
        messages: messages::check(&instance, &mut report),
        collectives: collectives::check(&instance, &mut report),
        signals: signals::check(&instance, &mut report),
    }
}

/// How much work a check does at most: about this many units are written out or compared.
const UNITS: u64 = 8_000_000;

/// Steps of proofs at most, for every size: about as long as the units take.
const STEPS: u64 = 1_000_000;

pub(crate) fn rejected(plan: &Plan, problems: Vec<Problem>) -> Rejected {
    Rejected { plan: plan.name.clone(), files: plan.files.clone(), problems }
}

/// Everything that is wrong with an instance.
fn problems_at(
    plan: &Plan,
    statements: &Statements<'_>,
    sizes: &Sizes,
    depth: Depth<'_>,
    budget: &mut Budget,
) -> Vec<Problem> {
    match expand(plan, statements, sizes, budget) {
        Err(problems) => problems,
        Ok(program) => {
            instance::problems(&Instance { plan, program: &program, sizes }, depth, budget)
        }
    }
}

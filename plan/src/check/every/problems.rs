//! What is not decided, in words.

use super::Every;
use crate::check::domain;
use crate::check::unbounded::Unbounded;
use crate::check::whitelist::Doubt;
use crate::ir::{Condition, Expr, Location, Plan, Step, StepKind};
use crate::verdict::{Check, Problem, ProblemKind};

impl Every<'_> {
    /// What makes every number of ranks decidable.
    pub(super) fn ranks(&self) -> String {
        Unbounded::ranks(self.plan).declare()
    }
}

impl Every<'_> {
    /// That a loop's iterations are not known to be alike. What is in doubt within it is of no account then.
    pub(super) fn uneven(
        &self,
        at: Location,
        what: &Unbounded<'_>,
        doubts: &mut Vec<Doubt>,
    ) -> Problem {
        doubts.retain(|doubt| doubt.at != at);
        let name = what.named();
        let around = Step::all(&self.plan.steps).find_map(|step| match &step.kind {
            StepKind::Loop(this) if step.at == at => Some(this),
            _ => None,
        });
        let inside = around.into_iter().flat_map(|around| Step::all(&around.body));
        let conditions: Vec<(Location, &Condition)> = inside
            .filter_map(|step| match &step.kind {
                StepKind::When(this) => Some((step.at, &this.condition)),
                _ => None,
            })
            .collect();
        doubts.retain(|doubt| !conditions.iter().any(|(at, _)| *at == doubt.at));
        let of = |part: fn(&Expr) -> bool| {
            conditions.iter().any(|(_, condition)| condition.any(&mut |one| part(one)))
        };
        let turns = of(|part| matches!(part, Expr::Loop(_)));
        let ranks = of(|part| matches!(part, Expr::Rank | Expr::Coordinate(_)));
        // On listed ranks every rank is counted, whatever tells it apart.
        let endless = self.plan.axes.iter().any(|axis| domain::all(&axis.extent).is_none());
        let (why, help) = match (turns, ranks && endless) {
            (true, _) => (
                "a condition in it tells its iterations apart",
                (!ranks).then_some(
                    "write the first or the last iteration outside the loop, without a condition",
                ),
            ),
            (false, true) => (
                "a condition in it tells ranks apart",
                Some(
                    "take a condition away that only leaves out the ends of a chain: what has no peer there is \
                     left out anyway",
                ),
            ),
            (false, false) => (
                "its iterations are not each complete: what is sent in one, or before, is received in another",
                None,
            ),
        };
        let title = format!("how often this loop runs depends on {name}, and {why}");
        let mut problem = refused(Check::Deadlock, at, title, what.declare());
        if let Some(help) = help {
            problem.help.insert(0, help.to_owned());
        }
        problem
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
            "of the ranks and the parameters more than {} sizes would have to be looked at",
            domain::MOST
        ),
        at: plan.axes.first().map(|axis| axis.at).unwrap_or_default(),
        sizes: None,
        story: Vec::new(),
        help: vec![Unbounded::ranks(plan).declare_few()],
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

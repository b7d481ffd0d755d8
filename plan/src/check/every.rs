//! A plan for every size that it claims.

use super::instance::Depth;
use super::{Proof, UNITS, domain, problems_at};
use crate::ir::Plan;
use crate::program::{Budget, Statements};
use crate::verdict::{Problem, ProblemKind};

pub(super) fn check(plan: &Plan) -> Result<Proof, Vec<Problem>> {
    let statements = Statements::new(plan);
    let mut budget = Budget::new(UNITS);
    let axes: Option<Vec<_>> = plan.axes.iter().map(|axis| domain::all(&axis.extent)).collect();
    let params: Option<Vec<_>> =
        plan.params.iter().map(|param| domain::all(&param.values)).collect();
    let listed =
        axes.zip(params).and_then(|(axes, params)| domain::instances(plan, &axes, &params));
    let Some(instances) = listed else {
        return Err(Vec::new());
    };
    if instances.is_empty() {
        return Err(vec![nothing(plan)]);
    }
    for sizes in &instances {
        let problems = problems_at(plan, &statements, sizes, Depth::All, &mut budget);
        if !problems.is_empty() {
            return Err(problems);
        }
    }
    Ok(Proof { claims: vec![format!("each of {} instances", instances.len())] })
}

fn nothing(plan: &Plan) -> Problem {
    Problem {
        kind: ProblemKind::Malformed,
        title: "no sizes fulfil what the plan promises".to_owned(),
        at: plan.promises.first().map(|promise| promise.at).unwrap_or_default(),
        sizes: None,
        story: Vec::new(),
        help: vec!["change the promises, or what the parameters may be".to_owned()],
    }
}

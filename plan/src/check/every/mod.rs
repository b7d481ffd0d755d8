//! A plan for every size that it claims.
//!
//! What is finite is checked one by one. Of an axis or a parameter without bound, the first values are: they
//! find the smallest size at which something is wrong. For the rest, one instance that is large enough stands
//! for all larger ones: around a ring, from where distances lead to different ranks; on an axis with ends,
//! from where every neighbourhood of a larger one is in it. [`classes`](super::classes) proves that none of
//! them waits in a circle, [`lengths`](super::lengths) proves what depends on lengths.

mod distances;
mod instances;
mod kinds;
mod positions;
mod problems;
mod prove;
mod reach;
mod samples;
mod scaled;
mod values;

use crate::arith::Fuel;
use crate::check::instance::Depth;
use crate::check::shape::Shape;
use crate::check::unbounded::few;
use crate::check::{Proof, STEPS, UNITS, domain, problems_at};
use crate::ir::{Param, Plan, Values};
use crate::program::{Budget, Statements};
use crate::verdict::{Problem, Sizes};
use problems::{nothing, too_many};
use reach::Reach;
use values::{lengths, promised, structural};

/// Ranks from which on one number of them stands for all.
const MANY: i64 = 64;
/// Ranks along an axis that are looked at, at most, to stand for larger numbers.
const LARGEST: i64 = 512;
/// Ranks up to which a counterexample is looked for where there is no proof.
const SEARCHED: i64 = 16;

/// The verdict, with a share of the work at most, and how much it was.
pub(super) fn check(plan: &Plan, share: u64) -> (Result<Proof, Vec<Problem>>, u64) {
    let (budget, fuel) = (Budget::new(UNITS / share.max(1)), Fuel::new(STEPS / share.max(1)));
    let statements = Statements::new(plan);
    let mut every = Every { plan, statements, budget, fuel };
    let verdict = every.check();
    (verdict, every.budget.spent() + every.fuel.spent())
}

struct Every<'a> {
    plan: &'a Plan,
    statements: Statements<'a>,
    budget: Budget,
    /// What proofs may still take.
    fuel: Fuel,
}

impl Every<'_> {
    fn check(&mut self) -> Result<Proof, Vec<Problem>> {
        let plan = self.plan;
        let axes: Vec<Option<Vec<i64>>> = plan.axes.iter().map(|axis| few(&axis.extent)).collect();
        let params: Vec<Option<Vec<i64>>> = plan.params.iter().map(few_of).collect();
        let is_list = plan.params.iter().any(|param| param.count.is_some());
        if !is_list && axes.iter().all(Option::is_some) && params.iter().all(Option::is_some) {
            let axes: Vec<_> = axes.iter().flatten().cloned().collect();
            let params: Vec<_> = params.iter().flatten().cloned().collect();
            if let Some(instances) = domain::instances(plan, &axes, &params) {
                return self.one_by_one(&instances, None);
            }
        }
        let scaled = self.scaled(&axes, &params).map(|(all, name)| (all, name.to_owned()));
        if let Some((instances, name)) = scaled {
            return self.one_by_one(&instances, Some(&name));
        }
        self.unbounded(&axes, &params)
    }

    /// Every instance there is, or those that stand for all values of a parameter.
    fn one_by_one(
        &mut self,
        instances: &[Sizes],
        scale: Option<&str>,
    ) -> Result<Proof, Vec<Problem>> {
        if instances.is_empty() {
            return Err(vec![nothing(self.plan)]);
        }
        let unbounded = vec![false; self.plan.axes.len()];
        let axes: Vec<_> = self.plan.axes.iter().map(|axis| few(&axis.extent)).collect();
        let fewer = self.on_fewer(&axes, &Shape::of(self.plan, &unbounded));
        for sizes in instances {
            self.at(sizes, if fewer { Depth::WithoutHazards } else { Depth::All })?;
        }
        let claim = match (instances, scale) {
            ([one], None) => one.text.clone(),
            (all, None) => format!("each of {} instances, one by one", all.len()),
            (all, Some(name)) => {
                format!(
                    "each of {} instances, for every `{name}`, of which all lengths are multiples",
                    all.len()
                )
            }
        };
        Ok(Proof { claims: vec![claim] })
    }

    fn at(&mut self, sizes: &Sizes, depth: Depth<'_>) -> Result<(), Vec<Problem>> {
        let problems = problems_at(self.plan, &self.statements, sizes, depth, &mut self.budget);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    fn unbounded(
        &mut self,
        axes: &[Option<Vec<i64>>],
        params: &[Option<Vec<i64>>],
    ) -> Result<Proof, Vec<Problem>> {
        let plan = self.plan;
        let unbounded: Vec<bool> = axes.iter().map(Option::is_none).collect();
        let shape = Shape::of(plan, &unbounded);
        let fewer = self.on_fewer(axes, &shape);
        let reach = self.reach(&shape, axes, params);
        // The values that are looked at.
        let mut seen_axes = Vec::new();
        for (at, axis) in plan.axes.iter().enumerate() {
            let values = match (&axes[at], &reach[at]) {
                (Some(all), _) => all.clone(),
                (None, Reach { stands_for: Some(large), apart, every, .. }) => {
                    let first = axis.extent.first().unwrap_or(1);
                    let last = axis.extent.last().unwrap_or(i64::MAX);
                    let mut values: Vec<i64> = (first..=(*apart).max(first)).collect();
                    // Where a promise or a loop depends on the extent, one may not do; where remainders
                    // decide, each has its own.
                    let more = if shape.axes[at] || promised(plan, at) { 4 } else { 1 };
                    let stands = (*large).max(first);
                    values.extend(stands..stands.saturating_add(every.saturating_mul(more)));
                    values.retain(|value| *value <= last);
                    values.sort_unstable();
                    values.dedup();
                    values
                }
                (None, Reach { .. }) => {
                    let first = axis.extent.first().unwrap_or(1);
                    let last = axis.extent.last().unwrap_or(i64::MAX);
                    (first..=last.min(SEARCHED.max(first.saturating_add(4)))).collect()
                }
            };
            seen_axes.push(values);
        }
        let most = seen_axes.iter().flatten().copied().max().unwrap_or(1);
        let seen_params: Vec<Vec<i64>> = plan
            .params
            .iter()
            .enumerate()
            .map(|(at, param)| match &params[at] {
                Some(all) => all.clone(),
                None if shape.params[at] => structural(&param.values, most),
                None => lengths(&param.values, &seen_axes),
            })
            .collect();
        // Lengths are proved; a few are looked at, so that what is wrong is found at a size.
        let statements = self.statements.places.len() as i64;
        let few = |ranks: i64| if statements.saturating_mul(ranks) <= 512 { 3 } else { 1 };
        let Some(instances) = self.samples(&shape, &seen_axes, &seen_params, params, few) else {
            return Err(vec![too_many(plan)]);
        };
        if instances.is_empty() {
            return Err(vec![nothing(plan)]);
        }
        let unbounded: Vec<usize> = (0..axes.len()).filter(|&at| axes[at].is_none()).collect();
        // Those that stand for larger ones are checked with them, below.
        let stands = |sizes: &Sizes| {
            !unbounded.is_empty()
                && unbounded
                    .iter()
                    .all(|&at| reach[at].stands_for.is_some_and(|large| sizes.extents[at] >= large))
        };
        for sizes in instances.iter().filter(|sizes| !stands(sizes)) {
            // Of very many ranks, what they do to each other's windows is looked at on fewer.
            let depth = if fewer { Depth::WithoutHazards } else { Depth::All };
            if let Err(problems) = self.at(sizes, depth) {
                return Err(self.smallest(sizes, axes, problems));
            }
        }
        self.prove(&shape, axes, params, &reach, &instances, fewer)
    }

    /// Whether what ranks do to each other's windows is proved for any number of ranks, where a plan claims very
    /// many: then it need not be compared on all of them.
    fn on_fewer(&mut self, axes: &[Option<Vec<i64>>], shape: &Shape) -> bool {
        let is_many = |values: &Option<Vec<i64>>| {
            values.as_ref().is_some_and(|values| values.iter().all(|value| *value > MANY))
        };
        if !shape.puts || !axes.iter().any(is_many) {
            return false;
        }
        let mut plan = self.plan.clone();
        for (axis, values) in plan.axes.iter_mut().zip(axes) {
            if is_many(values) {
                axis.extent = Values::AtLeast(MANY);
            }
        }
        let (statements, fuel) = (Statements::new(&plan), self.fuel.clone());
        let mut every = Every { plan: &plan, statements, budget: self.budget.clone(), fuel };
        let verdict = every.check();
        self.budget = every.budget;
        verdict.is_ok()
    }
}

/// The values of a parameter, where they are few. Of a list, only some are ever looked at.
fn few_of(param: &Param) -> Option<Vec<i64>> {
    if param.count.is_some() { None } else { few(&param.values) }
}

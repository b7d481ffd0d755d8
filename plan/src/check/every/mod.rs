//! A plan for every size that it claims.
//!
//! What is finite is checked one by one. Of an axis or a parameter without bound, the first values are: they
//! find the smallest size at which something is wrong. For the rest, one instance that is large enough stands
//! for all larger ones: around a ring, from where distances lead to different ranks; on an axis with ends,
//! from where every neighbourhood of a larger one is in it. [`classes`](super::classes) proves that none of
//! them waits in a circle, [`lengths`](super::lengths) proves what depends on lengths.

mod distances;
mod kinds;
mod positions;
mod values;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::classes::Large;
use super::coverage::Parts;
use super::guards::{Classes, Guards, least_common_multiple};
use super::hazards::Regions;
use super::instance::{Beyond, Depth, Instance};
use super::lengths::Lengths;
use super::orders::Near;
use super::report::Report;
use super::shape::Shape;
use super::whitelist::Names;
use super::{Proof, STEPS, UNITS, domain, problems_at};
use super::{collectives, messages};
use crate::arith::Fuel;
use crate::ir::{AxisId, Param, Plan, Step, StepKind, Values};
use crate::program::{Budget, Op, OpKind, Program, Statements};
use crate::verdict::{Check, Problem, ProblemKind, Sizes};
use kinds::Kinds;
use values::{few, lengths, promised, size_guard, structural};

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
                return self.one_by_one(&instances);
            }
        }
        self.unbounded(&axes, &params)
    }

    /// Every instance there is.
    fn one_by_one(&mut self, instances: &[Sizes]) -> Result<Proof, Vec<Problem>> {
        if instances.is_empty() {
            return Err(vec![nothing(self.plan)]);
        }
        let unbounded = vec![false; self.plan.axes.len()];
        let axes: Vec<_> = self.plan.axes.iter().map(|axis| few(&axis.extent)).collect();
        let fewer = self.on_fewer(&axes, &Shape::of(self.plan, &unbounded));
        for sizes in instances {
            self.at(sizes, if fewer { Depth::WithoutHazards } else { Depth::All })?;
        }
        let claim = match instances {
            [one] => one.text.clone(),
            all => format!("each of {} instances, one by one", all.len()),
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

    /// For each axis: how far peers are apart on it.
    fn reach(
        &mut self,
        shape: &Shape,
        axes: &[Option<Vec<i64>>],
        params: &[Option<Vec<i64>>],
    ) -> Vec<Reach> {
        let plan = self.plan;
        if axes.iter().all(Option::is_some) {
            return axes.iter().map(|_| Reach::NONE).collect();
        }
        let endless: Vec<bool> = axes.iter().map(Option::is_none).collect();
        let guards = Guards::new(plan, &endless);
        let (promised, classes) = (guards.promised(), guards.classes());
        let has_classes = classes.iter().any(Option::is_some);
        // Where ranks are told apart, samples show the roots as well.
        if !(has_classes && shape.rooted)
            && let Some(found) = distances::written(plan)
        {
            let seen = Seen { found, roots: 0, any: true };
            return self.reach_of(shape, axes, &seen, &guards);
        }
        // Distances are numbers that do not depend on the extents; a few instances name them all.
        let probes: Vec<Vec<i64>> = plan
            .axes
            .iter()
            .enumerate()
            .map(|(at, axis)| match &axes[at] {
                Some(all) => all.iter().take(2).copied().collect(),
                None => {
                    let first = axis.extent.first().unwrap_or(1);
                    let last = axis.extent.last().unwrap_or(i64::MAX);
                    let second = first.saturating_add(5).min(last);
                    let mut some = if second > first { vec![first, second] } else { vec![first] };
                    // Some of which the promises leave one.
                    let Classes { near, every } = promised[at];
                    if (near, every) != (0, 1) && near <= LARGEST && every <= LARGEST {
                        some.extend((first.max(near)..).take(every as usize));
                        some.retain(|value| *value <= last);
                        some.sort_unstable();
                        some.dedup();
                    }
                    some
                }
            })
            .collect();
        let most = probes.iter().flatten().copied().max().unwrap_or(1);
        let values: Vec<Vec<i64>> = plan
            .params
            .iter()
            .enumerate()
            .map(|(at, param)| match &params[at] {
                Some(all) if shape.params[at] => all.clone(),
                Some(all) => all.iter().take(4).copied().collect(),
                None if shape.params[at] => structural(&param.values, most),
                None => lengths(&param.values, &probes),
            })
            .collect();
        let samples = self.samples(shape, &probes, &values, params, |_| 1).unwrap_or_default();
        let mut found: Vec<HashMap<i64, (i64, i64)>> = vec![HashMap::new(); plan.axes.len()];
        // A root is like no other rank.
        let mut roots = 0;
        for sizes in &samples {
            let expanded = crate::program::expand(plan, &self.statements, sizes, &mut self.budget);
            // What is wrong with an instance is told when it is checked.
            let Ok(program) = expanded else { continue };
            for shift in &program.shifts {
                for &(axis, by, _) in &shift.hops {
                    let of = found[axis as usize].entry(sizes.extents[axis as usize]);
                    let (least, most) = of.or_insert((0, 0));
                    (*least, *most) = ((*least).min(by), (*most).max(by));
                }
            }
            if shape.rooted && has_classes {
                roots = roots.max(past_roots(&program));
            }
        }
        let found = found.into_iter().map(|of| of.into_values().collect()).collect();
        self.reach_of(shape, axes, &Seen { found, roots, any: !samples.is_empty() }, &guards)
    }

    /// The same, of what was seen of the plan.
    fn reach_of(
        &self,
        shape: &Shape,
        axes: &[Option<Vec<i64>>],
        &Seen { ref found, roots, any }: &Seen,
        guards: &Guards<'_>,
    ) -> Vec<Reach> {
        let plan = self.plan;
        let (promised, classes) = (guards.promised(), guards.classes());
        let reach = |axis: usize| {
            let all = &found[axis];
            let (least, most) =
                all.iter().fold((0, 0), |(least, most), (a, b)| (least.min(*a), most.max(*b)));
            // Distances that grow with the extent have no bound.
            let grows = all.iter().any(|found| *found != (least, most)) && axes[axis].is_none();
            let far = most.max(least.saturating_neg());
            let around = far.saturating_mul(2).saturating_add(1);
            let ends = shape.opens[axis];
            // What conditions tell apart near an end, whoever is looked at from there, and who those look at.
            let looks = if shape.puts || asks_for_order(plan) { around } else { 0 };
            let classes = classes[axis].map(|Classes { near, every }| Classes {
                near: (near.max(far).max(roots).saturating_add(looks))
                    .saturating_add(far.saturating_mul(2))
                    // A whole period, so that what goes round meets each remainder once at least.
                    .saturating_add(if every > 1 { every } else { 0 }),
                every: least_common_multiple(every, promised[axis].every).unwrap_or(i64::MAX),
            });
            let large = match (classes, shape.puts, ends) {
                // Between those near the ends, each class with its neighbours.
                (Some(Classes { near, every }), ..) => {
                    near.saturating_mul(2).saturating_add(every).saturating_add(far + 1)
                }
                // Three ranks at least: members that differ from a first one and from each other.
                (None, false, false) => most.saturating_sub(least).saturating_add(1).max(3),
                (None, false, true) => far.saturating_mul(4).saturating_add(2),
                (None, true, _) => around.saturating_mul(3).saturating_add(1),
            };
            let large = large.max(promised[axis].near);
            let first = plan.axes[axis].extent.first().unwrap_or(1);
            let last = plan.axes[axis].extent.last().unwrap_or(i64::MAX);
            let every = classes.unwrap_or(promised[axis]).every;
            let fits =
                any && !grows && far <= 64 && large <= LARGEST && large <= last && every <= 64;
            Reach {
                apart: if ends || classes.is_some() {
                    large.max(first)
                } else {
                    most.saturating_sub(least).clamp(2, 64)
                },
                stands_for: (axes[axis].is_none() && fits).then_some(large),
                around,
                every,
                classes,
            }
        };
        (0..plan.axes.len()).map(reach).collect()
    }

    /// Instances of these values: all extents and structural parameters, and of lengths the first few that
    /// fulfil the promises.
    fn samples(
        &self,
        shape: &Shape,
        axes: &[Vec<i64>],
        params: &[Vec<i64>],
        bounded: &[Option<Vec<i64>>],
        most: impl Fn(i64) -> usize,
    ) -> Option<Vec<Sizes>> {
        let all = domain::instances(self.plan, axes, params).or_else(|| {
            // Too many together: of lengths, which are proved, fewer.
            let fewer = params.iter().zip(bounded).zip(&shape.params);
            let fewer: Vec<Vec<i64>> = fewer
                .map(|((values, bounded), structural)| match (bounded, structural) {
                    (None, false) => values.iter().take(6).copied().collect(),
                    _ => values.clone(),
                })
                .collect();
            domain::instances(self.plan, axes, &fewer)
        })?;
        let mut taken: HashMap<(Vec<i64>, Vec<i64>), usize> = HashMap::new();
        let structure = |sizes: &Sizes| {
            let params = sizes.params.iter().zip(shape.params.iter().zip(bounded));
            let kept = params.filter(|(_, (structural, _))| **structural);
            (sizes.extents.clone(), kept.flat_map(|(values, _)| values.clone()).collect::<Vec<_>>())
        };
        let few = all.into_iter().filter(|sizes| {
            let taken = taken.entry(structure(sizes)).or_default();
            *taken += 1;
            *taken
                <= most(sizes.extents.iter().fold(1, |ranks, extent| ranks.saturating_mul(*extent)))
        });
        Some(few.collect())
    }

    /// A problem of an instance may be one of a smaller one that was not looked at.
    fn smallest(
        &mut self,
        sizes: &Sizes,
        axes: &[Option<Vec<i64>>],
        problems: Vec<Problem>,
    ) -> Vec<Problem> {
        for (at, axis) in self.plan.axes.iter().enumerate() {
            if axes[at].is_some() {
                continue;
            }
            let first = axis.extent.first().unwrap_or(1);
            for extent in first..sizes.extents[at] {
                let mut extents = sizes.extents.clone();
                extents[at] = extent;
                if !domain::holds(self.plan, &extents, &sizes.params) {
                    continue;
                }
                let smaller = domain::sizes(self.plan, &extents, &sizes.params);
                if let Err(problems) = self.at(&smaller, Depth::All)
                    && problems.iter().any(Problem::is_broken)
                {
                    return problems;
                }
            }
        }
        problems
    }

    fn prove(
        &mut self,
        shape: &Shape,
        axes: &[Option<Vec<i64>>],
        params: &[Option<Vec<i64>>],
        reach: &[Reach],
        instances: &[Sizes],
        fewer: bool,
    ) -> Result<Proof, Vec<Problem>> {
        let plan = self.plan;
        if let [None] = axes
            && positions::are_common(plan)
        {
            return self.by_positions(instances);
        }
        let unbounded: Vec<usize> = (0..axes.len()).filter(|&at| axes[at].is_none()).collect();
        let endless: Vec<bool> = axes.iter().map(Option::is_none).collect();
        let guards = Guards::new(plan, &endless);
        let mut undecided = Vec::new();
        let is_large = |at: usize, sizes: &Sizes| {
            reach[at].stands_for.is_some_and(|large| sizes.extents[at] >= large)
        };
        let stands = |sizes: &Sizes| unbounded.iter().all(|&at| is_large(at, sizes));
        if let Some((at, what)) = shape.by_rank
            && !unbounded.is_empty()
        {
            undecided.push(refused(
                Check::Deadlock,
                at,
                format!("{what}, and the number of ranks has no bound"),
                self.ranks(),
            ));
        }
        let structural_param =
            (0..params.len()).find(|&at| shape.params[at] && params[at].is_none());
        let structural_axis = unbounded.iter().copied().find(|&at| shape.axes[at]);
        if structural_param.is_some() || structural_axis.is_some() {
            let name = structural_param.map_or_else(
                || structural_axis.map_or("", |at| plan.axes[at].name.as_str()),
                |at| plan.params[at].name.as_str(),
            );
            if let Some(at) = shape.uneven {
                let title = format!(
                    "how often this loop runs depends on `{name}`, which has no bound, and its iterations are \
                     not each complete: what is sent in one is received in another"
                );
                undecided.push(refused(
                    Check::Deadlock,
                    at,
                    title,
                    format!("declare the values of `{name}` as a list or a range"),
                ));
            } else if let Some(at) = size_guard(plan, &guards, &plan.steps) {
                let title = format!("this condition depends on `{name}`, which has no bound");
                undecided.push(refused(
                    Check::Deadlock,
                    at,
                    title,
                    format!("declare the values of `{name}` as a list or a range"),
                ));
            } else if let Some(at) = shape.guarded.filter(|_| !shape.loops.is_empty()) {
                let title = format!(
                    "this condition tells ranks apart and guards communication, and how often a loop runs \
                     depends on `{name}`, which has no bound"
                );
                undecided.push(refused(
                    Check::Deadlock,
                    at,
                    title,
                    format!("declare the values of `{name}` as a list or a range"),
                ));
            }
        }
        if let Some(&at) = unbounded.iter().find(|&&at| reach[at].stands_for.is_none()) {
            let axis = &plan.axes[at];
            let told_apart = reach[at]
                .classes
                .is_some_and(|Classes { near, every }| near > LARGEST / 4 || every > 64);
            let title = match told_apart {
                true => format!("conditions tell very many ranks along `{}` apart", axis.name),
                false => format!(
                    "how far peers are apart along `{}` grows with it, or is far",
                    axis.name
                ),
            };
            undecided.push(refused(Check::Matching, axis.at, title, self.ranks()));
        }
        let free = |bounded: &Option<Vec<i64>>| bounded.is_none();
        let (free_axes, free_params): (Vec<bool>, Vec<bool>) =
            (axes.iter().map(free).collect(), params.iter().map(free).collect());
        let names = Names { plan, axes: &free_axes, params: &free_params };
        let declare =
            "declare the ranks and the parameters as lists or ranges: then each is checked";
        // What is said in the words of the statement is said of it alone.
        let mut in_words = Vec::new();
        for doubt in names.doubts() {
            if doubt.help.is_some() && !in_words.contains(&doubt.at) {
                in_words.push(doubt.at);
                undecided.retain(|other| other.at != doubt.at);
            } else if in_words.contains(&doubt.at) {
                continue;
            }
            let help = doubt.help.unwrap_or_else(|| declare.to_owned());
            undecided.push(refused(doubt.check, doubt.at, doubt.title, help));
        }
        if !instances.iter().any(stands) {
            let at = plan.axes.first().map(|axis| axis.at).unwrap_or_default();
            let title =
                "no number of ranks that is looked at stands for the larger ones".to_owned();
            undecided.push(refused(Check::Deadlock, at, title, self.ranks()));
        }
        let looked_at = |bounded: &Option<Vec<i64>>| bounded.is_some();
        let proof = Lengths::prove(
            plan,
            axes.iter().map(looked_at).collect(),
            params.iter().map(looked_at).collect(),
            &self.fuel,
        );
        let proofs = proof.problems().iter().filter(|one| !in_words.contains(&one.at));
        undecided.extend(proofs.cloned());
        if !undecided.is_empty() {
            for sizes in instances.iter().filter(|sizes| stands(sizes)) {
                if let Err(problems) = self.at(sizes, Depth::All) {
                    return Err(self.smallest(sizes, axes, problems));
                }
            }
            return Err(undecided);
        }
        // One instance for each structure stands for the larger ones.
        let kinds = RefCell::new(Kinds::default());
        let region = |op: &Op, is_target: bool| -> u32 {
            let part = if op.kind.is_access() { op.part } else { u16::from(is_target) };
            let is_put = op.kind == OpKind::Put && is_target;
            kinds.borrow_mut().number(&proof, (op.statement, part), is_put)
        };
        let memo = RefCell::new(HashMap::new());
        let may_overlap = |put: u32, other: u32| {
            *memo.borrow_mut().entry((put, other)).or_insert_with(|| {
                let kinds = kinds.borrow();
                let ((put, _), (other, is_put)) =
                    (kinds.first[put as usize], kinds.first[other as usize]);
                proof.may_overlap(put, other, is_put)
            })
        };
        self.issued(instances, &proof.may_be_empty)?;
        self.covered(instances, &proof)?;
        for sizes in instances {
            if shape.guards_collectives || shape.views == (true, true) {
                self.meetings(sizes, &proof)?;
            }
        }
        for sizes in instances {
            let beyond: Vec<usize> =
                unbounded.iter().copied().filter(|&axis| is_large(axis, sizes)).collect();
            // Of several endless axes, one may be large and another small.
            let is_asked = stands(sizes) || !beyond.is_empty();
            if !is_asked || fewer || (unbounded.is_empty() && !shape.puts) {
                continue;
            }
            let larges = beyond.iter().map(|&axis| Large {
                axis,
                middle: sizes.extents[axis] / 2,
                wraps: shape.wraps[axis] || !shape.opens[axis],
                ends: reach[axis].classes,
            });
            let near = beyond.iter().map(|&axis| {
                let ends = shape.opens[axis] && reach[axis].classes.is_none();
                (axis as u32, (!ends).then_some(reach[axis].around))
            });
            let larges: Vec<Large> = larges.collect();
            let is_alike =
                |large: &Large| large.wraps && !shape.opens[large.axis] && large.ends.is_none();
            let all_wrap = !shape.rooted && larges.iter().all(is_alike);
            let middles = larges.clone();
            let is_asked = move |program: &Program, rank: u32| {
                let at =
                    |axis: usize| program.layout.coordinate(rank as usize, AxisId(axis as u32));
                !all_wrap || middles.iter().all(|large| at(large.axis) == large.middle)
            };
            let beyond = Beyond {
                larges,
                near: Near { axes: near.collect() },
                regions: Regions {
                    is_asked: &is_asked,
                    region: &region,
                    may_overlap: &may_overlap,
                },
            };
            if let Err(problems) = self.at(sizes, Depth::Beyond(&beyond)) {
                // What is wrong here is told as such; what is only not proved for more, as that.
                if let Err(problems) = self.at(sizes, Depth::All) {
                    return Err(self.smallest(sizes, axes, problems));
                }
                return Err(problems
                    .into_iter()
                    .map(|problem| unproved(problem, self.ranks()))
                    .collect());
            }
        }
        Ok(Proof { claims: self.claims(axes, params, reach) })
    }

    /// Every number of ranks, where places in the program are common to them: the first ones are looked at.
    fn by_positions(&mut self, instances: &[Sizes]) -> Result<Proof, Vec<Problem>> {
        let first = self.plan.axes.first().and_then(|axis| axis.extent.first()).unwrap_or(1);
        let mut params: Vec<&Vec<Vec<i64>>> = instances.iter().map(|sizes| &sizes.params).collect();
        params.sort_unstable();
        params.dedup();
        for extent in first..=SEARCHED {
            for params in params.iter().take(3) {
                self.at(&domain::sizes(self.plan, &[extent], params), Depth::All)?;
            }
        }
        let none = vec![false; self.plan.params.len()];
        let proof = Lengths::prove(self.plan, vec![false], none, &self.fuel);
        if !proof.problems().is_empty() {
            return Err(proof.problems().to_vec());
        }
        self.covered(instances, &proof)?;
        let axes = self.plan.axes.iter().map(|axis| {
            let first = axis.extent.first().unwrap_or(1);
            format!("{} >= {first}: up to {SEARCHED} one by one, above for all at once", axis.name)
        });
        let params = self.plan.params.iter();
        let params = params.map(|param| format!("{}: for all values at once", param.name));
        Ok(Proof { claims: axes.chain(params).collect() })
    }

    /// Proves that the regions that are declared as filled are, at every size, as they are at these.
    fn covered(&mut self, instances: &[Sizes], proof: &Lengths<'_>) -> Result<(), Vec<Problem>> {
        for covered in &self.plan.covers {
            if proof.covers_by_chunks(covered) {
                continue;
            }
            // Instances have most of what they show in common.
            let mut proved = HashSet::new();
            for sizes in instances {
                let budget = &mut self.budget;
                let program = crate::program::expand(self.plan, &self.statements, sizes, budget)?;
                let all = super::coverage::parts(self.plan, &program, sizes, covered);
                let covers = |parts: Parts| {
                    proved.contains(&parts)
                        || (proof.covers(covered, &parts) && proved.insert(parts))
                };
                if !all.is_some_and(|all| all.into_iter().all(covers)) {
                    let title = "whether this is filled cannot be decided for every size";
                    let (at, help) = (covered.at, self.ranks());
                    return Err(vec![refused(Check::Coverage, at, title.to_owned(), help)]);
                }
            }
        }
        Ok(())
    }

    /// Refuses a collective that has no length at any size that is looked at, and may have one at others.
    fn issued(
        &mut self,
        instances: &[Sizes],
        may_be_empty: &HashSet<u32>,
    ) -> Result<(), Vec<Problem>> {
        let mut left = may_be_empty.clone();
        for sizes in instances {
            if left.is_empty() {
                return Ok(());
            }
            let budget = &mut self.budget;
            let program = crate::program::expand(self.plan, &self.statements, sizes, budget)?;
            program.ops.iter().for_each(|op| _ = left.remove(&op.statement));
        }
        let Some(&first) = left.iter().min() else { return Ok(()) };
        let at = self.statements.places[first as usize];
        let title = "this collective has no length at all sizes that are looked at, and may have one at others";
        Err(vec![refused(Check::CollectiveOrder, at, title.to_owned(), self.ranks())])
    }

    /// Proves that members of one collective that are at different statements give it one length, and that no
    /// half of a transfer meets another's: both halves of one were proved to be of one length.
    fn meetings(&mut self, sizes: &Sizes, proof: &Lengths<'_>) -> Result<(), Vec<Problem>> {
        let plan = self.plan;
        let program = crate::program::expand(plan, &self.statements, sizes, &mut self.budget)?;
        let instance = Instance { plan, program: &program, sizes };
        let mut report = Report::new(&instance);
        for message in messages::check(&instance, &mut report) {
            let at = |op: u32| program.ops[op as usize].statement;
            let (send, receive) = (at(message.send_op), at(message.receive_op));
            let is_transfer = |statement: u32| {
                let step = Step::nth(&plan.steps, statement);
                step.is_some_and(|step| matches!(step.kind, StepKind::Transfer(_)))
            };
            if send != receive && (is_transfer(send) || is_transfer(receive)) {
                let title = "this half of a transfer meets one of another statement: whether both have one \
                             length cannot be decided for every size";
                let (at, help) = (program.place(send), self.ranks());
                return Err(vec![refused(Check::Agreement, at, title.to_owned(), help)]);
            }
        }
        let meetings = collectives::check(&instance, &mut report);
        for meeting in meetings {
            let mut statements: Vec<u32> =
                meeting.members.iter().map(|(_, op)| program.ops[*op as usize].statement).collect();
            statements.dedup();
            let first = statements[0];
            if let Some(&other) = statements.iter().find(|&&other| !proof.meet(first, other)) {
                let title = "whether the members of this collective, which are at different statements, \
                             give it one length cannot be decided for every size";
                let (at, help) = (program.place(other), self.ranks());
                return Err(vec![refused(Check::Agreement, at, title.to_owned(), help)]);
            }
        }
        Ok(())
    }

    fn ranks(&self) -> String {
        match self.plan.axes.as_slice() {
            [axis] => format!("declare `{}` as a list or a range: then each is checked", axis.name),
            _ => "declare the axes as lists or ranges: then each is checked".to_owned(),
        }
    }

    fn claims(
        &self,
        axes: &[Option<Vec<i64>>],
        params: &[Option<Vec<i64>>],
        reach: &[Reach],
    ) -> Vec<String> {
        let plan = self.plan;
        let axes = plan.axes.iter().zip(axes).zip(reach).map(|((axis, few), reach)| {
            let name = &axis.name;
            match (few, axis.extent.first()) {
                (Some(_), _) => format!("{name}: each value, one by one"),
                (None, Some(first)) if first <= reach.apart => format!(
                    "{name} >= {first}: up to {} one by one, above for all at once",
                    reach.apart
                ),
                (None, first) => format!("{name} >= {}: for all at once", first.unwrap_or(1)),
            }
        });
        let params = plan.params.iter().zip(params).map(|(param, few)| match few {
            Some(_) => format!("{}: each value, one by one", param.name),
            None => format!("{}: for all values at once", param.name),
        });
        axes.chain(params).collect()
    }
}

/// What is known of a plan's distances and roots.
struct Seen {
    /// The least and the largest distances along each axis, at some of its extents.
    found: Vec<Vec<(i64, i64)>>,
    /// How many ranks from either end the roots are.
    roots: i64,
    /// Whether there was anything to see.
    any: bool,
}

/// How far the peers along an axis are apart, and what that means.
struct Reach {
    /// Up to here, two distances can lead to one rank, or an end be near.
    apart: i64,
    /// The extent that stands for all larger ones, if there is one.
    stands_for: Option<i64>,
    /// How far around a rank reasons are looked for.
    around: i64,
    /// So many numbers of ranks, one after another, differ in what their remainders decide.
    every: i64,
    /// Where conditions tell ranks apart: those near an end, each for itself, and the others.
    classes: Option<Classes>,
}

impl Reach {
    const NONE: Self = Self { apart: 0, stands_for: None, around: 0, every: 1, classes: None };
}

/// Whether the order of operations of several communicators is asked for.
fn asks_for_order(plan: &Plan) -> bool {
    plan.communicators.len() > 1 && plan.streams.len() > 1
}

/// The smallest number above those of all roots in their communicators.
fn past_roots(program: &Program) -> i64 {
    let rooted = program
        .ops
        .iter()
        .filter(|op| matches!(op.kind, OpKind::Collective(_)) && op.peer != crate::program::NONE);
    let index = |op: &Op| program.layout.index(op.communicator.into(), op.peer as usize);
    rooted.map(|op| index(op) as i64 + 1).max().unwrap_or(0)
}

/// The values of a parameter, where they are few. Of a list, only some are ever looked at.
fn few_of(param: &Param) -> Option<Vec<i64>> {
    if param.count.is_some() { None } else { few(&param.values) }
}

fn refused(check: Check, at: crate::ir::Location, title: String, help: String) -> Problem {
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
fn unproved(problem: Problem, help: String) -> Problem {
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

fn too_many(plan: &Plan) -> Problem {
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

//! How far peers are apart along each axis, and which number of ranks stands for all larger ones.

use std::collections::HashMap;

use super::values::{lengths, structural};
use super::{Every, LARGEST, distances};
use crate::check::guards::{Classes, Guards, least_common_multiple};
use crate::check::shape::Shape;
use crate::ir::Plan;
use crate::program::{NONE, Op, OpKind, Program, expand};

/// How far the peers along an axis are apart, and what that means.
pub(super) struct Reach {
    /// Up to here, two distances can lead to one rank, or an end be near.
    pub(super) apart: i64,
    /// The extent that stands for all larger ones, if there is one.
    pub(super) stands_for: Option<i64>,
    /// How far around a rank reasons are looked for.
    pub(super) around: i64,
    /// So many numbers of ranks, one after another, differ in what their remainders decide.
    pub(super) every: i64,
    /// Where conditions tell ranks apart: those near an end, each for itself, and the others.
    pub(super) classes: Option<Classes>,
}

impl Reach {
    const NONE: Self = Self { apart: 0, stands_for: None, around: 0, every: 1, classes: None };
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

impl Every<'_> {
    /// For each axis: how far peers are apart on it.
    pub(super) fn reach(
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
            let expanded = expand(plan, &self.statements, sizes, &mut self.budget);
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
}

/// Whether the order of operations of several communicators is asked for.
fn asks_for_order(plan: &Plan) -> bool {
    plan.communicators.len() > 1 && plan.streams.len() > 1
}

/// The smallest number above those of all roots in their communicators.
fn past_roots(program: &Program) -> i64 {
    let rooted =
        program.ops.iter().filter(|op| matches!(op.kind, OpKind::Collective(_)) && op.peer != NONE);
    let index = |op: &Op| program.layout.index(op.communicator.into(), op.peer as usize);
    rooted.map(|op| index(op) as i64 + 1).max().unwrap_or(0)
}

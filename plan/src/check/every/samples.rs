//! Which instances are looked at, of very many.

use std::collections::HashMap;

use super::Every;
use crate::check::domain;
use crate::check::instance::Depth;
use crate::check::shape::Shape;
use crate::verdict::{Problem, Sizes};

impl Every<'_> {
    /// Instances of these values: all extents and structural parameters, and of lengths the first few that
    /// fulfil the promises.
    pub(super) fn samples(
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
    pub(super) fn smallest(
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
}

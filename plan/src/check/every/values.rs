//! Which values of extents and parameters are looked at.

use crate::check::guards::Guards;
use crate::ir::{Expr, Location, Plan, Step, StepKind, Values};

/// The first values of a parameter that decides what runs, and the first ones from the number of ranks on.
pub(super) fn structural(values: &Values, ranks: i64) -> Vec<i64> {
    let first = values.first().unwrap_or(0);
    let mut some: Vec<i64> = (0..4).map(|more| first.saturating_add(more)).collect();
    some.extend((0..2).map(|more| ranks.saturating_add(more)));
    kept(some, values)
}

/// Some values of a length: small ones, and multiples of the extents.
pub(super) fn lengths(values: &Values, axes: &[Vec<i64>]) -> Vec<i64> {
    let first = values.first().unwrap_or(0);
    let mut some: Vec<i64> =
        [0, 1, 2, 3, 4, 7, 11, 15, 23].map(|more| first.saturating_add(more)).to_vec();
    let ranks: Vec<i64> = axes.iter().flatten().copied().filter(|extent| *extent <= 64).collect();
    for extent in ranks {
        some.extend([extent, 2 * extent, 4 * extent]);
    }
    kept(some, values)
}

pub(super) fn kept(mut some: Vec<i64>, values: &Values) -> Vec<i64> {
    some.retain(|value| values.contains(*value));
    some.sort_unstable();
    some.dedup();
    some.truncate(48);
    some
}

/// Whether a promise speaks of an axis.
pub(super) fn promised(plan: &Plan, axis: usize) -> bool {
    plan.promises.iter().any(|promise| {
        promise.condition.any(&mut |part| match part {
            Expr::Size => true,
            Expr::Extent(of) => of.index() == axis,
            _ => false,
        })
    })
}

/// A condition on sizes alone.
pub(super) fn size_guard(plan: &Plan, guards: &Guards<'_>, steps: &[Step]) -> Option<Location> {
    steps.iter().find_map(|step| match &step.kind {
        StepKind::When(this) => {
            let mut depends = |part: &Expr| match part {
                Expr::Param(id) | Expr::Element(id, _) => {
                    !matches!(plan.params[id.index()].values, Values::Exactly(_))
                }
                Expr::Size | Expr::Extent(_) => true,
                _ => false,
            };
            let of_sizes = guards.any_other(&this.condition, &mut depends);
            if of_sizes { Some(step.at) } else { size_guard(plan, guards, &this.body) }
        }
        StepKind::Loop(this) => size_guard(plan, guards, &this.body),
        StepKind::Group(body) | StepKind::Sequence(body) => size_guard(plan, guards, body),
        _ => None,
    })
}

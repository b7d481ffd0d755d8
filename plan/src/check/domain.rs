//! The sizes that a plan claims.

use crate::ir::{Condition, Expr, Location, Plan, Values};
use crate::program::Env;
use crate::verdict::{Problem, ProblemKind, Sizes};

/// How many instances are checked one by one at most.
pub(crate) const MOST: usize = 4096;

/// The instances of a plan with these values for its extents and parameters: those that fulfil its promises,
/// smallest first. `None` where they are not finite, or too many.
pub(crate) fn instances(plan: &Plan, axes: &[Vec<i64>], params: &[Vec<i64>]) -> Option<Vec<Sizes>> {
    let mut found = Vec::new();
    let mut extents = Vec::new();
    let promises = plan.promises.iter().map(|promise| promise.condition.size());
    let mut left = Left { visits: 64 * MOST, each: 1 + promises.sum::<usize>() / 64 };
    walk(plan, axes, params, &mut extents, &mut Vec::new(), &mut found, &mut left)?;
    let weight =
        |sizes: &Sizes| sizes.extents.iter().map(|&extent| i128::from(extent)).product::<i128>();
    found.sort_by_cached_key(|sizes| {
        let rest: i128 = sizes.params.iter().flatten().map(|&value| i128::from(value)).sum();
        (weight(sizes), sizes.extents.clone(), rest)
    });
    Some(found)
}

/// How much is left of what trying values may take.
struct Left {
    visits: usize,
    /// What asking all promises takes, once.
    each: usize,
}

/// The values, where they are finite and few.
pub(crate) fn all(values: &Values) -> Option<Vec<i64>> {
    let few = MOST as i64;
    match values {
        Values::Exactly(only) => Some(vec![*only]),
        Values::OneOf(list) => {
            let mut list = list.clone();
            list.sort_unstable();
            list.dedup();
            Some(list)
        }
        Values::Range(first, last) if last.checked_sub(*first)? < few => {
            Some((*first..=*last).collect())
        }
        Values::Range(..) | Values::AtLeast(_) => None,
    }
}

fn walk(
    plan: &Plan,
    axes: &[Vec<i64>],
    values: &[Vec<i64>],
    extents: &mut Vec<i64>,
    params: &mut Vec<Vec<i64>>,
    found: &mut Vec<Sizes>,
    left: &mut Left,
) -> Option<()> {
    left.visits = left.visits.checked_sub(left.each)?;
    if extents.len() < axes.len() {
        for &extent in &axes[extents.len()] {
            extents.push(extent);
            walk(plan, axes, values, extents, params, found, left)?;
            extents.pop();
        }
        return Some(());
    }
    if params.len() < plan.params.len() {
        let at = params.len();
        match &plan.params[at].count {
            None => {
                for &value in &values[at] {
                    params.push(vec![value]);
                    // A promise that fails already fails for all that follows.
                    if may_hold(plan, extents, params) {
                        walk(plan, axes, values, extents, params, found, left)?;
                    }
                    params.pop();
                }
            }
            Some(count) => {
                let env = env(extents, params);
                let count =
                    env.eval(count).ok().filter(|count| (0..=MOST as i64).contains(count))?;
                // Lists are tried with elements that differ, or all alike where there is one value.
                let list = (0..count as usize).map(|at_list| {
                    let choices = &values[at];
                    choices[at_list % choices.len().max(1)]
                });
                if count > 0 && values[at].is_empty() {
                    return Some(());
                }
                params.push(list.collect());
                walk(plan, axes, values, extents, params, found, left)?;
                params.pop();
            }
        }
        return Some(());
    }
    if holds(plan, extents, params) {
        if found.len() == MOST {
            return None;
        }
        let sizes = sizes(plan, extents, params);
        let parts = sizes.params.iter().map(|values| 1 + values.len()).sum::<usize>();
        left.visits = left.visits.checked_sub((parts + sizes.text.len() / 16) / 16)?;
        found.push(sizes);
    }
    Some(())
}

fn env<'a>(extents: &'a [i64], params: &'a [Vec<i64>]) -> Env<'a> {
    Env {
        extents,
        size: extents.iter().fold(1, |size: i64, extent| size.saturating_mul(*extent)),
        params,
        counters: &[],
        rank: 0,
    }
}

/// Whether all promises hold.
pub(crate) fn holds(plan: &Plan, extents: &[i64], params: &[Vec<i64>]) -> bool {
    let env = env(extents, params);
    plan.promises.iter().all(|promise| env.holds(&promise.condition).unwrap_or(false))
}

/// Whether no promise about the parameters so far is broken.
fn may_hold(plan: &Plan, extents: &[i64], params: &[Vec<i64>]) -> bool {
    let env = env(extents, params);
    let known = |condition: &Condition| {
        !condition.any(&mut |part| match part {
            Expr::Param(id) | Expr::Element(id, _) => id.index() >= params.len(),
            _ => false,
        })
    };
    plan.promises
        .iter()
        .filter(|promise| known(&promise.condition))
        .all(|promise| env.holds(&promise.condition).unwrap_or(false))
}

/// Sizes with their names.
pub(crate) fn sizes(plan: &Plan, extents: &[i64], params: &[Vec<i64>]) -> Sizes {
    let mut text: Vec<String> = plan
        .axes
        .iter()
        .zip(extents)
        .map(|(axis, extent)| format!("{} = {extent}", axis.name))
        .collect();
    for (param, values) in plan.params.iter().zip(params) {
        match (&param.count, values.as_slice()) {
            (None, [value]) => text.push(format!("{} = {value}", param.name)),
            (_, values) => text.push(format!("{} = {values:?}", param.name)),
        }
    }
    Sizes { extents: extents.to_vec(), params: params.to_vec(), text: text.join(", ") }
}

/// Why these sizes are no sizes of the plan's shape.
pub(crate) fn misfit(plan: &Plan, sizes: &Sizes) -> Vec<Problem> {
    let title = if sizes.extents.len() != plan.axes.len() {
        format!(
            "{} extents are given, and the plan has {} axes",
            sizes.extents.len(),
            plan.axes.len()
        )
    } else if let Some(extent) = sizes.extents.iter().find(|&&extent| extent < 1) {
        format!("an axis of {extent} ranks")
    } else if sizes.params.len() != plan.params.len() {
        format!(
            "{} parameters are given, and the plan has {}",
            sizes.params.len(),
            plan.params.len()
        )
    } else if let Some((param, _)) = plan
        .params
        .iter()
        .zip(&sizes.params)
        .find(|(param, values)| param.count.is_none() && values.len() != 1)
    {
        format!("parameter `{}` is one number", param.name)
    } else {
        return Vec::new();
    };
    vec![Problem {
        kind: ProblemKind::Malformed,
        title,
        at: Location::default(),
        sizes: Some(sizes.clone()),
        story: Vec::new(),
        help: vec!["give one extent for each axis, and the values of each parameter".to_owned()],
    }]
}

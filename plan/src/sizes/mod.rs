//! Sizes of a plan: those that it claims, and those at which it is checked at compile time.

mod chosen;
mod claimed;
mod written;

pub use claimed::NotClaimed;

pub(crate) use chosen::{Chosen, asked, chosen};

use crate::ir::{Location, Plan};
use crate::verdict::{Problem, ProblemKind, Sizes};

/// Sizes with their names.
pub(crate) fn named(plan: &Plan, extents: &[i64], params: &[Vec<i64>]) -> Sizes {
    let axes = plan.axes.iter().zip(extents);
    let mut text: Vec<String> =
        axes.map(|(axis, extent)| format!("{} = {extent}", axis.name)).collect();
    for (param, values) in plan.params.iter().zip(params) {
        match (&param.count, values.as_slice()) {
            (None, [value]) => text.push(format!("{} = {value}", param.name)),
            (_, values) => text.push(format!("{} = {values:?}", param.name)),
        }
    }
    Sizes { extents: extents.to_vec(), params: params.to_vec(), text: text.join(", ") }
}

/// Why these sizes do not fit the plan's shape.
pub(crate) fn misfit(plan: &Plan, sizes: &Sizes) -> Option<Problem> {
    let (extents, params) = (&sizes.extents, &sizes.params);
    let mut single = plan.params.iter().zip(params).filter(|(param, _)| param.count.is_none());
    let title = if extents.len() != plan.axes.len() {
        format!("{} extents are given, and the plan has {} axes", extents.len(), plan.axes.len())
    } else if let Some(extent) = extents.iter().find(|&&extent| extent < 1) {
        format!("an axis has {extent} ranks")
    } else if params.len() != plan.params.len() {
        format!("{} parameters are given, and the plan has {}", params.len(), plan.params.len())
    } else if let Some((param, _)) = single.find(|(_, values)| values.len() != 1) {
        format!("parameter `{}` is one number", param.name)
    } else {
        return None;
    };
    let help = "give one extent for each axis, and the values of each parameter";
    let problem = Problem::new(ProblemKind::Malformed, title, Location::default(), help);
    Some(problem.at_sizes(sizes))
}

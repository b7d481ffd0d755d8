//! All checks of one instance.

use super::report::Report;
use super::{
    collectives, coverage, deadlock, hazards, initialised, messages, order, postcondition,
};
use super::{signals, units};
use crate::ir::Plan;
use crate::program::{Budget, Program};
use crate::verdict::{Problem, Sizes};

/// What the checks of an instance share.
pub(crate) struct Instance<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) program: &'a Program,
    pub(crate) sizes: &'a Sizes,
}

/// Which checks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All of them.
    All,
    /// All but those that compare every access with every other: A9 and A10.
    WithoutHazards,
}

/// Everything that is wrong with an instance.
///
/// The later checks rest on the earlier ones: what cannot be matched is not asked whether it ends, and what
/// does not end is not asked whether it races.
pub(crate) fn problems(instance: &Instance<'_>, depth: Depth, budget: &mut Budget) -> Vec<Problem> {
    let mut report = Report::new(instance);
    units::check(instance, &mut report);
    let messages = messages::check(instance, &mut report);
    let collectives = collectives::check(instance, &mut report);
    let signals = signals::check(instance, &mut report);
    initialised::check(instance, &signals, &mut report);
    coverage::check(instance, &mut report);
    if report.is_unmatched() {
        return report.finish();
    }
    let links = super::links::Links { messages, collectives, signals };
    deadlock::check(instance, &links, &mut report);
    if report.hangs() {
        return report.finish();
    }
    let needs_order = order::is_asked(instance);
    let needs_hazards = depth == Depth::All && hazards::is_asked(instance);
    if needs_order || needs_hazards {
        let runs = if needs_hazards { hazards::runs(instance) } else { 1 };
        let work = instance.program.units.len() as u64 * runs as u64;
        if !budget.take(work) {
            report.too_large("comparing the accesses of all ranks");
            return report.finish();
        }
        let orders = super::orders::Orders::new(instance, &links, runs);
        if needs_order {
            order::check(instance, &orders, budget, &mut report);
        }
        if needs_hazards {
            hazards::check(instance, &links, &orders, budget, &mut report);
        }
    }
    postcondition::check(instance, &links, budget, &mut report);
    report.finish()
}

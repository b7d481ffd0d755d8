//! All checks of one instance.

use super::classes::{self, Large};
use super::hazards::Regions;
use super::links::Links;
use super::orders::{Near, Orders};
use super::report::Report;
use super::{
    collectives, coverage, deadlock, hazards, initialised, messages, order, postcondition, signals,
    symmetry, units,
};
use crate::ir::Plan;
use crate::program::{Budget, Program};
use crate::verdict::{Check, Problem, Sizes};

/// What the checks of an instance share.
pub(crate) struct Instance<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) program: &'a Program,
    pub(crate) sizes: &'a Sizes,
}

/// How much of an instance is checked.
#[derive(Clone, Copy)]
pub(crate) enum Depth<'a> {
    /// All of it, as it is.
    All,
    /// All but those that compare every access with every other: A9 and A10.
    WithoutHazards,
    /// All of it, and for every larger number of ranks too.
    Beyond(&'a Beyond<'a>),
}

/// How an instance stands for larger ones.
pub(crate) struct Beyond<'a> {
    pub(crate) larges: Vec<Large>,
    pub(crate) near: Near,
    pub(crate) regions: Regions<'a>,
}

/// Units of all runs times streams, at most: what bounds the memory that orders take.
const MOST_WAITS: u64 = 1 << 24;

/// Everything that is wrong with an instance.
///
/// The later checks rest on the earlier ones: what cannot be matched is not asked whether it ends, and what
/// does not end is not asked whether it races.
pub(crate) fn problems(
    instance: &Instance<'_>,
    depth: Depth<'_>,
    budget: &mut Budget,
) -> Vec<Problem> {
    let mut report = Report::new(instance);
    units::check(instance, &mut report);
    let messages = messages::check(instance, &mut report);
    let collectives = collectives::check(instance, &mut report);
    let signals = signals::check(instance, &mut report);
    let symmetric = symmetry::is_symmetric(instance.program);
    initialised::check(instance, &signals, symmetric, &mut report);
    let program = instance.program;
    let regions = instance.plan.covers.len() as u64;
    if budget.take(regions.saturating_mul((program.ops.len() + program.ranks()) as u64 / 8)) {
        coverage::check(instance, &mut report);
    } else {
        report.too_large("what fills so many regions");
    }
    if report.is_unmatched() {
        return report.finish();
    }
    let links = Links { messages, collectives, signals };
    if !fits(instance.program, 1) {
        report.too_large("what waits for what on all ranks");
        return report.finish();
    }
    deadlock::check(instance, &links, &mut report);
    if report.hangs() {
        return report.finish();
    }
    let needs_order = order::is_asked(instance);
    if let Depth::Beyond(beyond) = depth {
        let larges = &beyond.larges;
        let credit = !links.signals.credits.is_empty();
        if !classes::never_waits_in_a_circle(instance, &links, larges, false) {
            report.undecided(Check::Deadlock);
        } else if credit && !classes::never_waits_in_a_circle(instance, &links, larges, true) {
            report.undecided(Check::CapturedCredit);
        }
    }
    let needs_hazards = !matches!(depth, Depth::WithoutHazards) && hazards::is_asked(instance);
    if needs_order || needs_hazards {
        let ordered = if instance.plan.replayed { 2 } else { 1 };
        let runs = if needs_hazards { hazards::runs(instance) } else { ordered };
        let work = instance.program.units.len() as u64 * runs as u64;
        if !fits(instance.program, runs) || !budget.take(work) {
            report.too_large("comparing the accesses of all ranks");
            return report.finish();
        }
        let (near, regions) = match depth {
            Depth::Beyond(beyond) => (beyond.near.clone(), Some(&beyond.regions)),
            _ => (Near::default(), None),
        };
        let orders = Orders::new(instance, &links, runs, near);
        if needs_order {
            order::check(instance, &orders, ordered, budget, &mut report);
        }
        if needs_hazards {
            hazards::check(instance, &links, &orders, (regions, symmetric), budget, &mut report);
        }
    }
    postcondition::check(instance, &links, budget, &mut report);
    report.finish()
}

/// Whether there is room for what each unit waits for on each stream of its rank, over so many runs.
fn fits(program: &Program, runs: usize) -> bool {
    let units = program.units.len() as u64 * runs as u64;
    units.saturating_mul(program.streams.max(1) as u64) <= MOST_WAITS
}

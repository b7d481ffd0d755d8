//! All checks of one instance.

use super::links::Links;
use super::orders::Orders;
use super::report::Report;
use super::{
    collectives, coverage, deadlock, device_order, equations, grouped, hazards, initialised,
    messages, postcondition, signals, steps, units,
};
use crate::ir::Plan;
use crate::program::{Budget, Env, MOST_WORK, Program, Until};
use crate::verdict::{Problem, ProblemKind, Rejected, Sizes};

/// An instance that is written out, and until when there is time for it.
#[derive(Clone, Copy)]
pub(crate) struct Instance<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) program: &'a Program,
    pub(crate) sizes: &'a Sizes,
    pub(crate) until: Until,
}

impl<'a> Instance<'a> {
    /// What the names of a declaration stand for on a rank.
    pub(crate) fn env(&self, rank: usize) -> Env<'a> {
        Env::new(&self.sizes.extents, &self.sizes.params).on(rank)
    }

    /// Everything that is wrong with it.
    ///
    /// # Errors
    ///
    /// It takes too long.
    pub(crate) fn problems(&self) -> Result<Vec<Problem>, Rejected> {
        let mut problems = self.problems_or_warning()?;
        problems.retain(|problem| problem.kind != ProblemKind::NotFollowed);
        Ok(problems)
    }

    /// Everything that is wrong with it; if nothing is, perhaps a warning.
    ///
    /// # Errors
    ///
    /// It takes too long.
    pub(crate) fn problems_or_warning(&self) -> Result<Vec<Problem>, Rejected> {
        let problems = problems(self, &mut Budget::until(MOST_WORK, self.until));
        self.in_time().map(|()| problems)
    }

    /// What belongs together across the ranks, if it has passed the checks.
    ///
    /// # Errors
    ///
    /// It takes too long.
    pub(crate) fn links(&self) -> Result<Links, Rejected> {
        let mut report = Report::new(self);
        let messages = messages::check(self, &mut report);
        self.in_time()?;
        let collectives = collectives::check(self, &mut report);
        self.in_time()?;
        let signals = signals::check(self, &mut report);
        self.in_time()?;
        Ok(Links { messages, collectives, signals })
    }

    /// Fails when it is too late.
    pub(crate) fn in_time(&self) -> Result<(), Rejected> {
        super::in_time(self.plan, self.until)
    }
}

/// Units of all runs times streams, at most: what bounds the memory that orders take.
const MOST_WAITS: u64 = 1 << 24;

/// Everything that is wrong with an instance.
///
/// Later checks rely on earlier ones: only matched operations are checked for deadlocks, and only
/// plans without deadlocks for races. Once the budget's time is over, the rest is not checked.
pub(crate) fn problems(instance: &Instance<'_>, budget: &mut Budget) -> Vec<Problem> {
    let mut report = Report::new(instance);
    if !budget.take(instance.program.ops.len() as u64) {
        report.too_large("what all ranks do");
        return report.finish();
    }
    let Some(links) = matched(instance, budget, &mut report) else { return report.finish() };
    if report.is_unmatched() {
        return report.finish();
    }
    if !fits(instance.program, 1) {
        report.too_large("what waits for what on all ranks");
        return report.finish();
    }
    deadlock::check(instance, &links, &mut report);
    if report.hangs() || !budget.has_time() {
        return report.finish();
    }
    if !ordered(instance, &links, budget, &mut report) {
        report.too_large("comparing the accesses of all ranks");
        return report.finish();
    }
    if budget.has_time() {
        postcondition::check(instance, &links, budget, &mut report);
    }
    report.finish()
}

/// Matches operations across ranks, and checks what is read and written. `None` if time runs out.
fn matched(instance: &Instance<'_>, budget: &mut Budget, report: &mut Report<'_>) -> Option<Links> {
    let mut in_time = || budget.has_time().then_some(());
    units::check(instance, report);
    in_time()?;
    steps::check(instance, report);
    equations::check(instance, report);
    in_time()?;
    let messages = messages::check(instance, report);
    in_time()?;
    let collectives = collectives::check(instance, report);
    grouped::check(instance.program, &messages, &collectives, report);
    in_time()?;
    let signals = signals::check(instance, report);
    in_time()?;
    initialised::check(instance, &signals, report);
    in_time()?;
    let program = instance.program;
    let regions = instance.plan.covers.len() as u64;
    if budget.take(regions.saturating_mul((program.ops.len() + program.ranks()) as u64 / 8)) {
        coverage::check(instance, report);
    } else {
        report.too_large("what fills so many regions");
    }
    Some(Links { messages, collectives, signals })
}

/// The rules about what surely comes before what. `false` where that is more than what is checked.
fn ordered(
    instance: &Instance<'_>,
    links: &Links,
    budget: &mut Budget,
    report: &mut Report<'_>,
) -> bool {
    let needs_order = device_order::is_asked(instance);
    let needs_hazards = hazards::is_asked(instance);
    if !needs_order && !needs_hazards {
        return true;
    }
    let once = if instance.plan.replayed { 2 } else { 1 };
    let runs = if needs_hazards { hazards::runs(instance.plan) } else { once };
    let work = instance.program.units.len() as u64 * runs as u64;
    if !fits(instance.program, runs) || !budget.take(work) {
        return false;
    }
    let orders = Orders::new(instance, links, runs);
    if needs_order && budget.has_time() {
        device_order::check(instance, &orders, once, budget, report);
    }
    if needs_hazards && budget.has_time() {
        hazards::check(instance, links, &orders, budget, report);
    }
    true
}

/// Whether the waits of every unit for every stream of its rank, over this many runs, fit in
/// memory.
fn fits(program: &Program, runs: usize) -> bool {
    let units = program.units.len() as u64 * runs as u64;
    units.saturating_mul(program.streams.max(1) as u64) <= MOST_WAITS
}

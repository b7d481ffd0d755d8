//! Plans for listed ranks whose lengths are all multiples of one parameter: the smallest of them shows what
//! happens at all.
//!
//! What runs, on whom, and who waits for whom does not depend on such a parameter, and every region begins and
//! ends at some number of times it: two of them overlap, follow one another or are of one length at one value
//! as at every other.

use std::collections::HashSet;

use super::Every;
use super::values::lengths;
use crate::check::{domain, scale};
use crate::ir::{Expr, ParamId, Peer, Plan, Step, StepKind};
use crate::verdict::Sizes;

/// Values that are tried until one fulfils the promises.
const TRIED: i64 = 64;

/// An instance but for the parameter.
type Rest = (Vec<i64>, Vec<Vec<i64>>);

impl Every<'_> {
    /// The instances that stand for all, each with the smallest value, and that parameter's name. `None` where
    /// the plan is no such plan, or where some number of ranks has no value that fulfils the promises among
    /// those that are tried.
    pub(super) fn scaled(
        &self,
        axes: &[Option<Vec<i64>>],
        params: &[Option<Vec<i64>>],
    ) -> Option<(Vec<Sizes>, &str)> {
        let plan = self.plan;
        let listed: Vec<bool> = params.iter().map(Option::is_some).collect();
        let axes: Vec<Vec<i64>> = axes.iter().cloned().collect::<Option<_>>()?;
        if plan.params.iter().any(|param| param.count.is_some()) {
            return None;
        }
        let param = scale::by_one(plan, &listed)?;
        let declared = &plan.params[param.index()];
        let first = declared.values.first().filter(|first| *first >= 1)?;
        if decides_what_runs(plan, param) {
            return None;
        }
        let values = |tried: Vec<i64>| -> Vec<Vec<i64>> {
            let values =
                params.iter().map(|values| values.clone().unwrap_or_else(|| tried.clone()));
            values.collect()
        };
        let mentions = |part: &Expr| *part == Expr::Param(param);
        let mut without = plan.clone();
        without.promises.retain(|promise| !promise.condition.any(&mut |part| mentions(part)));
        let all = domain::instances(&without, &axes, &values(vec![first]))?;
        if without.promises.len() == plan.promises.len() {
            return Some((all, &declared.name));
        }
        let mut tried: Vec<i64> = (0..TRIED).map(|more| first.saturating_add(more)).collect();
        tried.extend(lengths(&declared.values, &axes));
        tried.retain(|value| declared.values.contains(*value));
        tried.sort_unstable();
        tried.dedup();
        let rest = |sizes: &Sizes| -> Rest {
            let mut params = sizes.params.clone();
            params[param.index()].clear();
            (sizes.extents.clone(), params)
        };
        // The smaller ones come first.
        let mut found = HashSet::new();
        let mut instances = domain::instances(plan, &axes, &values(tried))?;
        instances.retain(|sizes| found.insert(rest(sizes)));
        all.iter().all(|sizes| found.contains(&rest(sizes))).then_some((instances, &declared.name))
    }
}

/// Whether which statements run, towards whom, or whether numbers exist, depends on a parameter.
fn decides_what_runs(plan: &Plan, param: ParamId) -> bool {
    let mentions = |number: &Expr| number.any(|part| *part == Expr::Param(param));
    let towards = |peer: &Peer| match peer {
        Peer::Shift(hops) => hops.iter().any(|hop| mentions(&hop.by)),
        Peer::Rank(number) => mentions(number),
    };
    let counts = plan.buffers.iter().filter_map(|buffer| buffer.array.as_ref());
    counts.into_iter().any(|array| mentions(&array.count))
        || Step::all(&plan.steps).any(|step| match &step.kind {
            StepKind::Loop(this) => mentions(&this.from) || mentions(&this.to),
            StepKind::When(this) => this.condition.any(&mut |part| *part == Expr::Param(param)),
            StepKind::Collective(this) => this.kind.root().is_some_and(mentions),
            StepKind::Transfer(this) => towards(&this.peer),
            StepKind::Send(this) => towards(&this.peer),
            StepKind::Receive(this) => towards(&this.peer),
            StepKind::Put(this) => towards(&this.peer),
            StepKind::Signal(this) => towards(&this.peer),
            StepKind::Wait(this) => {
                this.signals.iter().any(|one| mentions(&one.times) || towards(&one.peer))
            }
            // A number for the user's own work may be divided by zero at one value.
            StepKind::Compute(this) => this.arguments.iter().any(|number| {
                let divides = |part: &Expr| matches!(part, Expr::Div(..) | Expr::Rem(..));
                mentions(number) && number.any(divides)
            }),
            StepKind::Group(_) | StepKind::Sequence(_) => false,
        })
}

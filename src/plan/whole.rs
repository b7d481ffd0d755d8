//! Redirects one-sided operations through the communicator that the plan is bound to.
//!
//! The caller's windows are registered there. So puts and signals that the plan sends through a
//! communicator of a subset of the ranks are issued through the whole one, to the same peer. NCCL
//! then imposes more order, since operations of one communicator follow each other and signals
//! share counters. So the resulting plan is the one that is checked, lowered and shown.

use std::sync::Arc;

use typed_nccl_plan::ir::{AxisId, Communicator, CommunicatorId, Plan, Step, StepKind};

/// A plan whose one-sided operations go through all ranks.
pub(super) struct Whole {
    pub(super) plan: Arc<Plan>,
    /// The original plan, and the communicator that some of them used.
    pub(super) before: Option<(Arc<Plan>, String)>,
}

/// The plan with its one-sided operations through all ranks; unchanged if they are already.
pub(super) fn through_all(plan: Arc<Plan>) -> Whole {
    let is_whole = |among: &Communicator| among.axes.len() == plan.axes.len();
    let whole = plan.communicators.iter().position(is_whole);
    let at = whole.unwrap_or(plan.communicators.len());
    // The checks refuse a plan with more communicators than fit in the number.
    let all = CommunicatorId(u32::try_from(at).unwrap_or(u32::MAX));
    let mut through = None;
    let mut changed = plan.steps.clone();
    let parts: Vec<bool> = plan.communicators.iter().map(|among| !is_whole(among)).collect();
    redirect(&mut changed, all, &mut |among| {
        let is_part = parts.get(among.index()).copied().unwrap_or(false);
        if is_part {
            through.get_or_insert(among);
        }
        is_part
    });
    let Some(through) = through else { return Whole { plan, before: None } };
    let name = plan.communicators[through.index()].name.clone();
    let mut bound = Plan { steps: changed, ..(*plan).clone() };
    if whole.is_none() {
        let axes = (0..).map(AxisId).take(bound.axes.len()).collect();
        let name = "all ranks".to_owned();
        bound.communicators.push(Communicator { name, axes, at: Default::default() });
    }
    Whole { plan: Arc::new(bound), before: Some((plan, name)) }
}

/// Redirects through `all` the one-sided operations of communicators for which `is_part` holds.
fn redirect(
    steps: &mut [Step],
    all: CommunicatorId,
    is_part: &mut impl FnMut(CommunicatorId) -> bool,
) {
    for step in steps {
        let among = match &mut step.kind {
            StepKind::Put(put) => &mut put.among,
            StepKind::Signal(signal) => &mut signal.among,
            StepKind::Wait(wait) => &mut wait.among,
            StepKind::Group(body) | StepKind::Sequence(body) => {
                redirect(body, all, is_part);
                continue;
            }
            StepKind::Loop(this) => {
                redirect(&mut this.body, all, is_part);
                continue;
            }
            StepKind::When(this) => {
                redirect(&mut this.body, all, is_part);
                continue;
            }
            StepKind::Compute(_)
            | StepKind::Assign(_)
            | StepKind::Here(_)
            | StepKind::Collective(_)
            | StepKind::Transfer(_)
            | StepKind::Send(_)
            | StepKind::Receive(_) => continue,
        };
        if is_part(*among) {
            *among = all;
        }
    }
}

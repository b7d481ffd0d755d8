//! One-sided operations go through the communicator that the plan is bound to.
//!
//! The caller's windows are registered there, so puts and signals that the plan sends through a communicator
//! of some of the ranks are issued through all of them: the peer is the same rank. NCCL orders more then,
//! since operations of one communicator follow each other, and signals share counters. So the plan that
//! results is what is checked, lowered and shown.

use std::sync::Arc;

use typed_nccl_plan::check::check_at;
use typed_nccl_plan::ir::{AxisId, Communicator, CommunicatorId, Plan, Step, StepKind};
use typed_nccl_plan::verdict::Sizes;

/// The plan with its one-sided operations through all ranks; itself, where they are.
pub(super) fn through_all(mut plan: Arc<Plan>, sizes: &Sizes) -> Result<Arc<Plan>, String> {
    let is_whole = |among: &Communicator| among.axes.len() == plan.axes.len();
    let whole = plan.communicators.iter().position(is_whole);
    let at = whole.unwrap_or(plan.communicators.len());
    // A plan of more communicators than a number holds was never checked.
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
    let Some(through) = through else {
        return Ok(plan);
    };
    // What is wrong with the plan itself comes first.
    check_at(&plan, sizes).map_err(|rejected| format!("\n{rejected}"))?;
    let name = plan.communicators[through.index()].name.clone();
    let bound = Arc::make_mut(&mut plan);
    bound.steps = changed;
    if whole.is_none() {
        let axes = (0..).map(AxisId).take(bound.axes.len()).collect();
        bound.communicators.push(Communicator {
            name: "all ranks".to_owned(),
            axes,
            at: Default::default(),
        });
    }
    check_at(bound, sizes).map_err(|rejected| {
        format!(
            "its windows belong to the communicator that it is bound to, so its puts and signals through `{name}` go through all ranks, where operations follow each other; that would be wrong:\n{rejected}"
        )
    })?;
    Ok(plan)
}

/// Sends the one-sided operations through `all` whose communicator `is_part` says so of.
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

//! Determines which of a plan's communicators have this library's kernels.

use std::fmt::Write;

use typed_nccl_plan::cost::Topology;
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::lower::{Schedule, Work};

use super::children::{Child, Children, children};
use crate::communicator::{CanEnqueue, State};
use crate::error::{Error, Site};
use crate::{AnyDevice, Communicator, DType, Device, Host, Result, World};

/// The kernels' resources, on those of a plan's communicators that can use them.
pub(super) struct KernelSupport<W: World> {
    /// The plan's communicators, if they had to be created for this.
    pub(super) children: Option<Children<W>>,
    /// For each rank, its communicators with kernels, by index in the plan.
    offered: Vec<Vec<bool>>,
    /// The text of `describe` about this rank's communicators without kernels.
    pub(super) told: String,
}

impl<W: World> KernelSupport<W> {
    /// Creates them, if the plan can use them. All ranks call it with the same plan: the host waits
    /// for them.
    pub(super) fn new<S: State + CanEnqueue>(
        comm: &mut Communicator<W, S>,
        plan: &Plan,
        lowered: Option<&Schedule>,
        site: Site,
    ) -> Result<Self> {
        let mut kernel_support = Self { children: None, offered: Vec::new(), told: String::new() };
        // The host has none, and need not ask the others.
        let lowered = lowered.filter(|_| W::Device::KIND != Host::<AnyDevice>::KIND);
        let Some(lowered) = lowered else { return Ok(kernel_support) };
        let uses = uses(plan, lowered);
        let is_part = |at: usize| plan.communicators[at].axes.len() < plan.axes.len();
        let of_part = |of: &Vec<bool>| of.iter().enumerate().any(|(at, has)| *has && is_part(at));
        if uses.iter().any(of_part) {
            kernel_support.children = Some(children(comm, plan, &lowered.sizes.extents)?);
        }
        let mut own = uses[comm.rank().index()].clone();
        let mut failed = Ok(());
        for at in (0..own.len()).filter(|&at| uses[comm.rank().index()][at]) {
            let child = kernel_support.children.as_ref().map(|children| &children[at]);
            let kernel_offer = match child {
                Some(Child::Part(part)) => part.here().core.kernel_offer("bind", site),
                Some(Child::Whole) | None => comm.here().core.kernel_offer("bind", site),
            };
            own[at] = matches!(kernel_offer, Ok(Some(_)));
            match kernel_offer {
                Ok(_) => {}
                Err(error @ Error::Unsupported(_)) => kernel_support.lacks(plan, at, &error),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        kernel_support.offered = match &kernel_support.children {
            Some(_) => comm.gather_as("bind", &own, site)?,
            None => vec![own; comm.size()],
        };
        failed.map(|()| kernel_support)
    }

    fn lacks(&mut self, plan: &Plan, at: usize, why: &Error) {
        let of = match &plan.communicators[..] {
            [_] => String::new(),
            several => format!(" on `{}`", several[at].name),
        };
        // Writing to a string does not fail.
        let _ = write!(self.told, "\nNo kernels of this library{of}: {why}");
    }

    /// Chooses the launches that use kernels.
    pub(super) fn choose(&self, plan: &Plan, dtypes: &[DType], lowered: Schedule) -> Schedule {
        if !self.offered.iter().flatten().any(|has| *has) {
            return lowered;
        }
        let mut plan = plan.clone();
        for (buffer, dtype) in plan.buffers.iter_mut().zip(dtypes) {
            buffer.element = dtype.in_plans();
        }
        lowered.with_kernels_of(&plan, &Topology::h200_node(), |among, first| {
            self.offered.get(first as usize).is_some_and(|of| of[among.index()])
        })
    }
}

/// For each rank, the plan's communicators on which it could use kernels. The ranks have not
/// compared element types yet, so those do not count here.
fn uses(plan: &Plan, lowered: &Schedule) -> Vec<Vec<bool>> {
    let with = lowered.clone().with_kernels(plan, &Topology::h200_node());
    let of = |rank: &typed_nccl_plan::lower::RankSchedule| {
        let mut uses = vec![false; plan.communicators.len()];
        for call in &rank.calls {
            if let Work::Kernel { operations, .. } = &call.work {
                operations.iter().for_each(|one| uses[one.among().index()] = true);
            }
        }
        uses
    };
    with.ranks.iter().map(of).collect()
}

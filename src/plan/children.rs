//! The communicators of a plan.

use std::marker::PhantomData;

use typed_nccl_plan::ir::{self, Plan};

use super::prepare::rank_in;
use crate::communicator::{CanEnqueue, State};
use crate::error::Site;
use crate::{CommConfig, Communicator, Device, Host, Label, Result, Transfers, World};

/// The world of a communicator of some of a plan's ranks.
pub(super) struct SomeRanks<D = Host>(PhantomData<fn() -> D>);

impl<D: Device> World for SomeRanks<D> {
    type Device = D;
    const NAME: &'static str = "part of a plan";
}

impl Label for SomeRanks {
    type On<D: Device> = SomeRanks<D>;
}

/// The communicators of a plan.
pub(super) type Children<W> = Vec<Child<W>>;

/// A communicator of a plan.
pub(super) enum Child<W: World> {
    /// The one that the plan is bound to.
    Whole,
    /// One of some of its ranks, created by the plan.
    Part(Communicator<SomeRanks<<W as World>::Device>>),
}

/// The communicators of a plan, some with a subset of the ranks.
pub(super) fn children<W: World, S: State + CanEnqueue>(
    comm: &mut Communicator<W, S>,
    plan: &Plan,
    extents: &[i64],
) -> Result<Children<W>> {
    let rank = comm.rank().index();
    let mut children = Children::new();
    for communicator in &plan.communicators {
        if communicator.axes.len() == plan.axes.len() {
            children.push(Child::Whole);
            continue;
        }
        let place = rank_in(communicator, extents, rank);
        // Identified by their common position along all other axes.
        let others = (0..).map(ir::AxisId).take(plan.axes.len());
        let others = others.filter(|axis| !communicator.axes.contains(axis)).collect();
        let others = ir::Communicator { axes: others, ..communicator.clone() };
        let color = rank_in(&others, extents, rank);
        // The program cannot register memory with a communicator that it does not see.
        let config = &comm.here().core.config;
        let any = (config.transfers == Transfers::Registered).then(|| CommConfig {
            transfers: Transfers::Any,
            watch: None,
            ..config.clone()
        });
        let child = comm.split_at::<SomeRanks>(color as u64, place as i128, any, Site::caller())?;
        children.push(Child::Part(child));
    }
    Ok(children)
}

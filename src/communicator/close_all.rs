//! Ends everything that was made with a communicator, which stays usable.

use super::{CanEnqueue, Communicator, Core, State};
use crate::backend::Backend;
use crate::control::Topic;
use crate::error::{Error, Site};
use crate::{Result, World, wait};

/// ## The end of what it made
impl<W: World, S: State> Communicator<W, S> {
    /// Ends all windows, registered buffers, operators and device communicators that were made with
    /// this communicator, which stays usable. All ranks must call it; the host waits for this
    /// rank's work, then for the other ranks. Values that name them are not valid afterwards:
    /// [`close`](Self::close) of such a window is local and gives its memory back, and other uses
    /// fail with [`Error::Stale`], also runs of a plan that has a window of its own.
    ///
    /// NCCL: `ncclCommWindowDeregister`, `ncclCommDeregister`, `ncclRedOpDestroy`,
    /// `ncclDevCommDestroy`.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier); an error of this rank's work. Nothing is ended then.
    #[track_caller]
    pub fn close_all(&mut self) -> Result<()>
    where
        S: CanEnqueue,
    {
        const TOPIC: Topic = "close_all";

        let site = Site::caller();
        let live = S::live_mut(&mut self.body);
        live.core.may_call(TOPIC, site)?;
        let report = live.idle(site)?;
        let over = report.map_or(Ok(()), Err).and_then(|()| {
            wait::until(&live.core.resources.uses()?, Some(live.core.within()), TOPIC, site)
        });
        if let Err(error) = over {
            live.core.control()?.refuse("a close_all that was refused", site);
            return Err(error);
        }
        live.core.barrier(TOPIC, site)?;
        let core = &mut live.core;
        for window in core.resources.windows() {
            core.graphs.lose_naming("window", window.id, site);
        }
        for id in core.resources.device_comms() {
            core.graphs.lose_naming("device communicator", id, site);
        }
        core.release_all(&format!("all resources of its communicator were closed (at {site})"))
    }
}

impl<B: Backend> Core<B> {
    /// Ends all resources with the backend, windows in one order on all ranks, whose work is over.
    pub(super) fn release_all(&mut self, why: &str) -> Result<()> {
        let held = self.resources.take_all(why);
        let comm = self.comm()?;
        for shared in held.device_comms {
            shared.end(why);
            B::unmake(comm, shared.id);
        }
        for window in held.windows {
            B::unregister(comm, window.id, window.handle);
            window.allocation.order.leave_window();
        }
        for operator in held.operators {
            B::drop_operator(comm, operator);
        }
        let end =
            |buffer: super::Held<B>| B::deregister_buffer(comm, &buffer.lease, buffer.handle.get());
        // Each of them ends, whatever becomes of the others.
        let ended: Vec<Result<()>> = held.buffers.into_iter().map(end).collect();
        ended.into_iter().collect::<Result<(), Error>>()
    }
}

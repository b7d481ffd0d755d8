//! What a communicator can do.

use super::{Back, CanEnqueue, Communicator, Properties, State};
use crate::backend::Lifecycle;
use crate::{Result, World};

/// ## What it can do
impl<W: World, S: State> Communicator<W, S> {
    /// Returns what it supports. Local; never waits. On the host every property is known, and there
    /// is no network. NCCL: `ncclCommQueryProperties`, 2.29.2.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported): an older NCCL; an NCCL failure; a
    /// poisoned communicator.
    pub fn properties(&self) -> Result<Properties>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        let known = Properties::of_host(self.rank(), core.size, core.ordinal);
        Back::<W>::properties(core.comm()?, known)
    }
}

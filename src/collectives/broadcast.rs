//! `broadcast`: every rank gets the root's elements.

use super::Draft;
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::{CollectiveName, Site};
use crate::group::Group;
use crate::{AsRank, Communicator, RecordWrite, Result, World, Writable};

/// ## From one rank to all
impl<W: World, S: State> Communicator<W, S> {
    /// [`broadcast`](Self::broadcast) in one buffer: read on the root, written elsewhere.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn broadcast_in_place<B: Writable<W::Device> + ?Sized>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().broadcast_in_place(buf, root)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::broadcast_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn broadcast_in_place<B: Writable<W::Device> + ?Sized>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()> {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        let op = draft.in_place(CollectiveName::Broadcast, buf.span(), None, Some(root));
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records a [`broadcast_in_place`](Communicator::broadcast_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn broadcast_in_place<B: RecordWrite<'e, W::Device>>(
        &mut self,
        buf: B,
        root: impl AsRank,
    ) -> Result<()> {
        let buf = buf.recorded();
        let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
        let op = draft.in_place(CollectiveName::Broadcast, buf.span(), None, Some(root));
        self.record(Refusal::Collective, op)
    }
}

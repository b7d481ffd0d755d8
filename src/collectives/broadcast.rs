//! broadcast: every rank gets the root's elements.

use super::{Draft, Root};
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::{Holds, Recorded};
use crate::{AsRank, Communicator, Readable, RecordRead, RecordWrite, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Copies the root's `send` into `recv` on every rank, the root included. Every rank calls it;
    /// all lengths are equal. The host does not wait. NCCL: `ncclBroadcast`, 2.3.
    ///
    /// # Errors
    /// Refusals: lengths that differ, a root that the communicator does not have, a view past its
    /// buffer, memory of another device; a poisoned communicator.
    #[track_caller]
    pub fn broadcast<A, B, E>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        self.here().broadcast(send, recv)
    }

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
    /// See [`Communicator::broadcast`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn broadcast<A, B, E>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let draft = Draft::new(self.core, recv.dtype(), Site::caller());
        let (send, root) = send.split(self.core.own());
        let draft = draft.against(send.map(|send| send.dtype()));
        let op = draft.broadcast(send.map(|send| send.span()), recv.span(), root);
        self.run(Refusal::Collective, op)
    }

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
        let op = draft.broadcast_in_place(buf.span(), root);
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records a [`broadcast`](Communicator::broadcast).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn broadcast<A, B, E>(&mut self, send: Root<A>, recv: B) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, root) = send.split(self.rank());
        let (send, recv) = (send.map(A::recorded), recv.recorded());
        let draft = Draft::new(self.on.core, recv.dtype(), Site::caller());
        let draft = draft.against(send.as_ref().map(Recorded::dtype));
        let op = draft.broadcast(send.map(|send| send.span()), recv.span(), root);
        self.record(Refusal::Collective, op)
    }

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
        let op = draft.broadcast_in_place(buf.span(), root);
        self.record(Refusal::Collective, op)
    }
}

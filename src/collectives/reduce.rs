//! reduce: the root gets the reduction of all ranks' elements.

use super::{Draft, Root};
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::{Holds, Recorded};
use crate::{
    AsRank, Buffer, Communicator, Element, Readable, RecordRead, RecordWrite, ReduceOp, Result,
    World, Writable,
};

impl<W: World, S: State> Communicator<W, S> {
    /// Reduces the ranks' `send` elementwise into a new buffer on the root; `None` elsewhere. Every
    /// rank calls it with one length. The host does not wait. NCCL: `ncclReduce`, 2.3.
    ///
    /// # Errors
    /// Refusals: a root that the communicator does not have, a view past its buffer, memory of
    /// another device, no memory for the result; a poisoned communicator.
    #[track_caller]
    pub fn reduce<A: Readable<W::Device, Elem = E> + ?Sized, E: Element>(
        &self,
        send: &A,
        op: impl ReduceOp<E, W>,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>>
    where
        S: CanEnqueue,
    {
        self.here().reduce(send, op, root)
    }

    /// [`reduce`](Self::reduce) into a buffer of the root's own, of the same length.
    ///
    /// # Errors
    /// As there; lengths that differ.
    #[track_caller]
    pub fn reduce_into<A, B, E>(
        &self,
        send: &A,
        recv: Root<&mut B>,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        self.here().reduce_into(send, recv, op)
    }

    /// [`reduce`](Self::reduce) in one buffer: read everywhere, overwritten on the root.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_in_place<B: Writable<W::Device, Elem = E> + ?Sized, E>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<E, W>,
        root: impl AsRank,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().reduce_in_place(buf, op, root)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::reduce`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce<A: Readable<W::Device, Elem = E> + ?Sized, E: Element>(
        &self,
        send: &A,
        op: impl ReduceOp<E, W>,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>> {
        let mut out = self.on_root(root, send.len())?;
        self.reduce_into(send, Root::here_or_at(out.as_mut(), root), op)?;
        Ok(out)
    }

    /// See [`Communicator::reduce_into`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_into<A, B, E>(
        &self,
        send: &A,
        recv: Root<&mut B>,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let draft = Draft::new(self.core, send.dtype(), Site::caller());
        let (recv, root) = recv.split(self.core.own());
        let draft = draft.against(recv.as_ref().map(|recv| recv.dtype()));
        let (to, op) = (recv.as_ref().map(|recv| recv.span()), op.resolve(&self.core.resources));
        let op = draft.reduce(send.span(), to, op, root);
        self.run(Refusal::Collective, op)
    }

    /// See [`Communicator::reduce_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_in_place<B: Writable<W::Device, Elem = E> + ?Sized, E>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<E, W>,
        root: impl AsRank,
    ) -> Result<()> {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        let op = draft.reduce_in_place(buf.span(), op.resolve(&self.core.resources), root);
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records a [`reduce_into`](Communicator::reduce_into).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn reduce_into<A, B, E>(
        &mut self,
        send: A,
        recv: Root<B>,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (recv, root) = recv.split(self.rank());
        let (send, recv) = (send.recorded(), recv.map(B::recorded));
        let draft = Draft::new(self.on.core, send.dtype(), Site::caller());
        let draft = draft.against(recv.as_ref().map(Recorded::dtype));
        let (to, op) = (recv.map(|recv| recv.span()), op.resolve(&self.on.core.resources));
        let op = draft.reduce(send.span(), to, op, root);
        self.record(Refusal::Collective, op)
    }

    /// Records a [`reduce_in_place`](Communicator::reduce_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn reduce_in_place<B: RecordWrite<'e, W::Device, Elem = E>, E>(
        &mut self,
        buf: B,
        op: impl ReduceOp<E, W>,
        root: impl AsRank,
    ) -> Result<()> {
        let buf = buf.recorded();
        let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
        let op = draft.reduce_in_place(buf.span(), op.resolve(&self.on.core.resources), root);
        self.record(Refusal::Collective, op)
    }
}

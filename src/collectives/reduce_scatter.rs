//! reduce_scatter: every rank gets its block of the reduction.

use super::Draft;
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::Holds;
use crate::{Communicator, Readable, RecordRead, RecordWrite, ReduceOp, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Reduces the ranks' `send` elementwise and gives block r of the result to rank r. Every rank
    /// calls it; `recv` has one length on all ranks, `send` is `size` times as long. The host does
    /// not wait. NCCL: `ncclReduceScatter`, 2.3.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a view past its buffer, memory of another device; a
    /// poisoned communicator.
    #[inline]
    #[track_caller]
    pub fn reduce_scatter<A, B, E>(
        &self,
        send: &A,
        recv: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        self.here().reduce_scatter(send, recv, op)
    }

    /// [`reduce_scatter`](Self::reduce_scatter) in one buffer of `size` equal blocks: all are read,
    /// this rank's block is overwritten with its result.
    ///
    /// # Errors
    /// As there; a length that `size` does not divide.
    #[inline]
    #[track_caller]
    pub fn reduce_scatter_in_place<B: Writable<W::Device, Elem = E> + ?Sized, E>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().reduce_scatter_in_place(buf, op)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::reduce_scatter`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn reduce_scatter<A, B, E>(
        &self,
        send: &A,
        recv: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let draft = Draft::new(self.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = draft.reduce_scatter(send.span(), recv.span(), op.resolve(&self.core.resources));
        self.run(Refusal::Collective, op)
    }

    /// See [`Communicator::reduce_scatter_in_place`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn reduce_scatter_in_place<B: Writable<W::Device, Elem = E> + ?Sized, E>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()> {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        let op = draft.reduce_scatter_in_place(buf.span(), op.resolve(&self.core.resources));
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records a [`reduce_scatter`](Communicator::reduce_scatter).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn reduce_scatter<A, B, E>(
        &mut self,
        send: A,
        recv: B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, recv) = (send.recorded(), recv.recorded());
        let draft = Draft::new(self.on.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = op.resolve(&self.on.core.resources);
        let op = draft.reduce_scatter(send.span(), recv.span(), op);
        self.record(Refusal::Collective, op)
    }

    /// Records a [`reduce_scatter_in_place`](Communicator::reduce_scatter_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn reduce_scatter_in_place<B: RecordWrite<'e, W::Device, Elem = E>, E>(
        &mut self,
        buf: B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()> {
        let buf = buf.recorded();
        let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
        let op = draft.reduce_scatter_in_place(buf.span(), op.resolve(&self.on.core.resources));
        self.record(Refusal::Collective, op)
    }
}

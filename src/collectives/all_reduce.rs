//! `all_reduce`: every rank gets the reduction of all ranks' elements.

use super::Draft;
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::Holds;
use crate::{Communicator, RecordRead, RecordWrite, ReduceOp, Result, World, Writable};

/// # Collectives
///
/// All ranks call them, in the same order, with matching lengths and types. The host does not wait,
/// except in those on values of the host and, on GPUs, in the first of a kind: NCCL connects the
/// ranks there, and holds each until the others have made it too (2.22 and later; 2.22 to 2.28.6
/// connect for collectives in `connect`).
impl<W: World, S: State> Communicator<W, S> {
    /// Reduces the ranks' `send` elementwise into `recv` on every rank. Every rank calls it; `send`
    /// and `recv` have one length, the same on all ranks. The host does not wait. NCCL:
    /// `ncclAllReduce`, 2.3.
    ///
    /// On the host, `f16`, `bf16` and the 8-bit floats accumulate in `f32` in rank order and round
    /// once, so every rank gets the same bits; NCCL adds in its own order and may round at each
    /// step. Rounding to an 8-bit float saturates: an infinity becomes its largest number.
    ///
    /// # Errors
    /// Refusals: lengths that differ, a view past its buffer, memory of another device; a poisoned
    /// communicator.
    #[inline]
    #[track_caller]
    pub fn all_reduce<'a, A, B, E>(
        &self,
        send: A,
        recv: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
        A: RecordRead<'a, W::Device, Elem = E>,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        self.here().all_reduce(send, recv, op)
    }

    /// [`all_reduce`](Self::all_reduce) in one buffer.
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_reduce_in_place<B: Writable<W::Device, Elem = E> + ?Sized, E>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().all_reduce_in_place(buf, op)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::all_reduce`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_reduce<'a, A, B, E>(
        &self,
        send: A,
        recv: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()>
    where
        A: RecordRead<'a, W::Device, Elem = E>,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let send = send.recorded();
        let draft = Draft::new(self.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = draft.all_reduce(send.span(), recv.span(), op.resolve(&self.core.resources));
        self.run(Refusal::Collective, op)
    }

    /// See [`Communicator::all_reduce_in_place`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_reduce_in_place<B: Writable<W::Device, Elem = E> + ?Sized, E>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()> {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        let op = draft.all_reduce_in_place(buf.span(), op.resolve(&self.core.resources));
        self.run_in_place(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records an [`all_reduce`](Communicator::all_reduce).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_reduce<A, B, E>(&mut self, send: A, recv: B, op: impl ReduceOp<E, W>) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, recv) = (send.recorded(), recv.recorded());
        let draft = Draft::new(self.on.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = op.resolve(&self.on.core.resources);
        let op = draft.all_reduce(send.span(), recv.span(), op);
        self.record(Refusal::Collective, op)
    }

    /// Records an [`all_reduce_in_place`](Communicator::all_reduce_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_reduce_in_place<B: RecordWrite<'e, W::Device, Elem = E>, E>(
        &mut self,
        buf: B,
        op: impl ReduceOp<E, W>,
    ) -> Result<()> {
        let buf = buf.recorded();
        let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
        let op = draft.all_reduce_in_place(buf.span(), op.resolve(&self.on.core.resources));
        self.record(Refusal::Collective, op)
    }
}

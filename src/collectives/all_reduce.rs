//! all_reduce: every rank gets the reduction of all ranks' elements.

use std::panic::Location;

use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{Communicator, Element, Readable, ReduceOp, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Reduces the ranks' `send` elementwise into `recv` on every rank. Every rank calls it; `send`
    /// and `recv` have one length, the same on all ranks. The host does not wait. NCCL:
    /// `ncclAllReduce`, 2.3.
    ///
    /// On the host, `f16`, `bf16` and the 8-bit floats accumulate in `f32` in rank order and round
    /// once, so every rank gets the same bits; NCCL adds in its own order and may round at each
    /// step.
    ///
    /// # Errors
    /// Refusals: lengths that differ, a view past its buffer, memory of another device; a poisoned
    /// communicator.
    #[inline]
    #[track_caller]
    pub fn all_reduce<A, B>(
        &self,
        send: &A,
        recv: &mut B,
        op: impl ReduceOp<A::Elem, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        self.here().all_reduce(send, recv, op)
    }

    /// [`all_reduce`](Self::all_reduce) in one buffer.
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_reduce_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<B::Elem, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().all_reduce_in_place(buf, op)
    }
}

impl<W: World> On<'_, W> {
    /// See [`Communicator::all_reduce`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_reduce<A, B>(
        &self,
        send: &A,
        recv: &mut B,
        op: impl ReduceOp<A::Elem, W>,
    ) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let (from, to) = (self.span(send)?, self.span(recv)?);
        let mut call =
            Call::new(Operation::AllReduce, A::Elem::DTYPE, from.len(), Location::caller());
        self.holds(&call, "receive", to.len(), 1)?;
        let op = self.resolve(op)?;
        call.reduction = Some(op.name());
        self.submit(call, Some(op), Some(from), Some(to))
    }

    /// See [`Communicator::all_reduce_in_place`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_reduce_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<B::Elem, W>,
    ) -> Result<()> {
        let span = self.span(buf)?;
        let mut call =
            Call::new(Operation::AllReduce, B::Elem::DTYPE, span.len(), Location::caller());
        let op = self.resolve(op)?;
        call.reduction = Some(op.name());
        self.submit(call, Some(op), Some(span), Some(span))
    }
}

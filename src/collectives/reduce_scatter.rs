//! reduce_scatter: every rank gets its block of the reduction.

use std::panic::Location;

use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{Communicator, Element, Readable, ReduceOp, Result, World, Writable};

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
    pub fn reduce_scatter<A, B>(
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
        self.here().reduce_scatter(send, recv, op)
    }

    /// [`reduce_scatter`](Self::reduce_scatter) in one buffer of `size` equal blocks: all are read,
    /// this rank's block is overwritten with its result.
    ///
    /// # Errors
    /// As there; a length that `size` does not divide.
    #[inline]
    #[track_caller]
    pub fn reduce_scatter_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<B::Elem, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().reduce_scatter_in_place(buf, op)
    }
}

impl<W: World> On<'_, W> {
    /// See [`Communicator::reduce_scatter`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn reduce_scatter<A, B>(
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
            Call::new(Operation::ReduceScatter, A::Elem::DTYPE, to.len(), Location::caller());
        self.holds(&call, "send", from.len(), self.core.size)?;
        let op = self.resolve(op)?;
        call.reduction = Some(op.name());
        self.submit(call, Some(op), Some(from), Some(to))
    }

    /// See [`Communicator::reduce_scatter_in_place`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn reduce_scatter_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<B::Elem, W>,
    ) -> Result<()> {
        let site = Location::caller();
        let all = self.span(buf)?;
        let count = self.block(Operation::ReduceScatter, B::Elem::DTYPE, all.len(), site)?;
        let mut call = Call::new(Operation::ReduceScatter, B::Elem::DTYPE, count, site);
        let op = self.resolve(op)?;
        call.reduction = Some(op.name());
        let own = all.nth(self.core.rank, count, B::Elem::DTYPE.size());
        self.submit(call, Some(op), Some(all), Some(own))
    }
}

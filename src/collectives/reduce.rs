//! reduce: the root gets the reduction of all ranks' elements.

use std::panic::Location;

use super::Root;
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{AsRank, Buffer, Communicator, Element, Readable, ReduceOp, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Reduces the ranks' `send` elementwise into a new buffer on the root; `None` elsewhere. Every
    /// rank calls it with one length. The host does not wait. NCCL: `ncclReduce`, 2.3.
    ///
    /// # Errors
    /// Refusals: a root that the communicator does not have, a view past its buffer, memory of
    /// another device, no memory for the result; a poisoned communicator.
    #[track_caller]
    pub fn reduce<A: Readable<W::Device>>(
        &self,
        send: &A,
        op: impl ReduceOp<A::Elem, W>,
        root: impl AsRank,
    ) -> Result<Option<Buffer<A::Elem, W::Device>>>
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
    pub fn reduce_into<A, B>(
        &self,
        send: &A,
        recv: Root<&mut B>,
        op: impl ReduceOp<A::Elem, W>,
    ) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        self.here().reduce_into(send, recv, op)
    }

    /// [`reduce`](Self::reduce) in one buffer: read everywhere, overwritten on the root.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<B::Elem, W>,
        root: impl AsRank,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().reduce_in_place(buf, op, root)
    }
}

impl<W: World> On<'_, W> {
    /// See [`Communicator::reduce`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce<A: Readable<W::Device>>(
        &self,
        send: &A,
        op: impl ReduceOp<A::Elem, W>,
        root: impl AsRank,
    ) -> Result<Option<Buffer<A::Elem, W::Device>>> {
        let mut out = self.on_root(root, self.span(send)?.len())?;
        self.reduce_into(send, Root::here_or_at(out.as_mut(), root), op)?;
        Ok(out)
    }

    /// See [`Communicator::reduce_into`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_into<A, B>(
        &self,
        send: &A,
        recv: Root<&mut B>,
        op: impl ReduceOp<A::Elem, W>,
    ) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let site = Location::caller();
        let from = self.span(send)?;
        let mut call = Call::new(Operation::Reduce, A::Elem::DTYPE, from.len(), site);
        let op = self.resolve(op)?;
        call.reduction = Some(op.name());
        match recv {
            Root::Here(recv) => {
                let to = self.span(recv)?;
                self.holds(&call, "receive", to.len(), 1)?;
                call.root = Some(self.core.rank);
                self.submit(call, Some(op), Some(from), Some(to))
            }
            Root::At(root) => {
                call.root = Some(self.root(Operation::Reduce, root, site)?);
                self.not_here(&call)?;
                self.submit(call, Some(op), Some(from), None)
            }
        }
    }

    /// See [`Communicator::reduce_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        op: impl ReduceOp<B::Elem, W>,
        root: impl AsRank,
    ) -> Result<()> {
        let site = Location::caller();
        let span = self.span(buf)?;
        let mut call = Call::new(Operation::Reduce, B::Elem::DTYPE, span.len(), site);
        let op = self.resolve(op)?;
        call.reduction = Some(op.name());
        let root = self.root(Operation::Reduce, root, site)?;
        call.root = Some(root);
        self.submit(call, Some(op), Some(span), (root == self.core.rank).then_some(span))
    }
}

//! broadcast: every rank gets the root's elements.

use std::panic::Location;

use super::Root;
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{AsRank, Communicator, Element, Readable, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Copies the root's `send` into `recv` on every rank, the root included. Every rank calls it;
    /// all lengths are equal. The host does not wait. NCCL: `ncclBroadcast`, 2.3.
    ///
    /// # Errors
    /// Refusals: lengths that differ, a root that the communicator does not have, a view past its
    /// buffer, memory of another device; a poisoned communicator.
    #[track_caller]
    pub fn broadcast<A, B>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        self.here().broadcast(send, recv)
    }

    /// [`broadcast`](Self::broadcast) in one buffer: read on the root, written elsewhere.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn broadcast_in_place<B: Writable<W::Device>>(
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

impl<W: World> On<'_, W> {
    /// See [`Communicator::broadcast`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn broadcast<A, B>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let site = Location::caller();
        let to = self.span(recv)?;
        let mut call = Call::new(Operation::Broadcast, B::Elem::DTYPE, to.len(), site);
        let from = match send {
            Root::Here(send) => {
                let from = self.span(send)?;
                self.holds(&call, "send", from.len(), 1)?;
                call.root = Some(self.core.rank);
                Some(from)
            }
            Root::At(root) => {
                call.root = Some(self.root(Operation::Broadcast, root, site)?);
                self.not_here(&call)?;
                None
            }
        };
        self.submit(call, None, from, Some(to))
    }

    /// See [`Communicator::broadcast_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn broadcast_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()> {
        let site = Location::caller();
        let span = self.span(buf)?;
        let mut call = Call::new(Operation::Broadcast, B::Elem::DTYPE, span.len(), site);
        let root = self.root(Operation::Broadcast, root, site)?;
        call.root = Some(root);
        self.submit(call, None, (root == self.core.rank).then_some(span), Some(span))
    }
}

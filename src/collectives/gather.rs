//! gather: the root gets every rank's elements, by rank.

use std::panic::Location;

use super::Root;
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{AsRank, Buffer, Communicator, Element, Readable, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Copies every rank's `send` into a new buffer on the root, in rank order; `None` elsewhere.
    /// Every rank calls it with one length. The host does not wait. NCCL: `ncclGather`, 2.28.
    ///
    /// # Errors
    /// Refusals: a root that the communicator does not have, a view past its buffer, memory of
    /// another device, no memory for the result; a poisoned communicator.
    #[track_caller]
    pub fn gather<A: Readable<W::Device>>(
        &self,
        send: &A,
        root: impl AsRank,
    ) -> Result<Option<Buffer<A::Elem, W::Device>>>
    where
        S: CanEnqueue,
    {
        self.here().gather(send, root)
    }

    /// [`gather`](Self::gather) into a buffer of the root's own, `size` times as long as `send`.
    ///
    /// # Errors
    /// As there; a length that does not fit.
    #[track_caller]
    pub fn gather_into<A, B>(&self, send: &A, recv: Root<&mut B>) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        self.here().gather_into(send, recv)
    }

    /// [`gather`](Self::gather) in one buffer: on the root it holds `size` equal blocks, of which
    /// the root's own is read and the others are written; elsewhere it is the one block that is
    /// sent.
    ///
    /// # Errors
    /// As there; a length on the root that `size` does not divide.
    #[track_caller]
    pub fn gather_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().gather_in_place(buf, root)
    }
}

impl<W: World> On<'_, W> {
    /// See [`Communicator::gather`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn gather<A: Readable<W::Device>>(
        &self,
        send: &A,
        root: impl AsRank,
    ) -> Result<Option<Buffer<A::Elem, W::Device>>> {
        let len = self.span(send)?.len().saturating_mul(self.core.size);
        let mut out = self.on_root(root, len)?;
        self.gather_into(send, Root::here_or_at(out.as_mut(), root))?;
        Ok(out)
    }

    /// See [`Communicator::gather_into`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn gather_into<A, B>(&self, send: &A, recv: Root<&mut B>) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let site = Location::caller();
        let from = self.span(send)?;
        let mut call = Call::new(Operation::Gather, A::Elem::DTYPE, from.len(), site);
        match recv {
            Root::Here(recv) => {
                let to = self.span(recv)?;
                self.holds(&call, "receive", to.len(), self.core.size)?;
                call.root = Some(self.core.rank);
                self.submit(call, None, Some(from), Some(to))
            }
            Root::At(root) => {
                call.root = Some(self.root(Operation::Gather, root, site)?);
                self.not_here(&call)?;
                self.submit(call, None, Some(from), None)
            }
        }
    }

    /// See [`Communicator::gather_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn gather_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()> {
        let (site, dtype) = (Location::caller(), B::Elem::DTYPE);
        let span = self.span(buf)?;
        let root = self.root(Operation::Gather, root, site)?;
        let here = root == self.core.rank;
        let count = match here {
            true => self.block(Operation::Gather, dtype, span.len(), site)?,
            false => span.len(),
        };
        let mut call = Call::new(Operation::Gather, dtype, count, site);
        call.root = Some(root);
        let own = if here { span.nth(root, count, dtype.size()) } else { span };
        self.submit(call, None, Some(own), here.then_some(span))
    }
}

//! scatter: rank r gets block r of the root's elements.

use std::panic::Location;

use super::Root;
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{AsRank, Communicator, Element, Readable, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Copies block r of the root's `send` into rank r's `recv`. Every rank calls it; `recv` has one
    /// length on all ranks, the root's `send` is `size` times as long. The host does not wait.
    /// NCCL: `ncclScatter`, 2.28.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a root that the communicator does not have, a view
    /// past its buffer, memory of another device; a poisoned communicator.
    #[track_caller]
    pub fn scatter<A, B>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        self.here().scatter(send, recv)
    }

    /// [`scatter`](Self::scatter) in one buffer: on the root it holds `size` equal blocks, which are
    /// read, and the root's own stays where it is; elsewhere it is the one block that is received.
    ///
    /// # Errors
    /// As there; a length on the root that `size` does not divide.
    #[track_caller]
    pub fn scatter_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().scatter_in_place(buf, root)
    }
}

impl<W: World> On<'_, W> {
    /// See [`Communicator::scatter`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn scatter<A, B>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let site = Location::caller();
        let to = self.span(recv)?;
        let mut call = Call::new(Operation::Scatter, B::Elem::DTYPE, to.len(), site);
        let from = match send {
            Root::Here(send) => {
                let from = self.span(send)?;
                self.holds(&call, "send", from.len(), self.core.size)?;
                call.root = Some(self.core.rank);
                Some(from)
            }
            Root::At(root) => {
                call.root = Some(self.root(Operation::Scatter, root, site)?);
                self.not_here(&call)?;
                None
            }
        };
        self.submit(call, None, from, Some(to))
    }

    /// See [`Communicator::scatter_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn scatter_in_place<B: Writable<W::Device>>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()> {
        let (site, dtype) = (Location::caller(), B::Elem::DTYPE);
        let span = self.span(buf)?;
        let root = self.root(Operation::Scatter, root, site)?;
        let here = root == self.core.rank;
        let count = match here {
            true => self.block(Operation::Scatter, dtype, span.len(), site)?,
            false => span.len(),
        };
        let mut call = Call::new(Operation::Scatter, dtype, count, site);
        call.root = Some(root);
        let own = if here { span.nth(root, count, dtype.size()) } else { span };
        self.submit(call, None, here.then_some(span), Some(own))
    }
}

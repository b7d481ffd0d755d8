//! all_gather: every rank gets every rank's elements, by rank.

use std::panic::Location;

use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{Communicator, Element, Readable, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Copies every rank's `send` into `recv` on every rank, in rank order. Every rank calls it;
    /// `send` has one length on all ranks, `recv` is `size` times as long. The host does not wait.
    /// NCCL: `ncclAllGather`, 2.3.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a view past its buffer, memory of another device; a
    /// poisoned communicator.
    #[inline]
    #[track_caller]
    pub fn all_gather<A, B>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        self.here().all_gather(send, recv)
    }

    /// [`all_gather`](Self::all_gather) in one buffer of `size` equal blocks: this rank's block is
    /// read, the others are written.
    ///
    /// # Errors
    /// As there; a length that `size` does not divide.
    #[inline]
    #[track_caller]
    pub fn all_gather_in_place<B: Writable<W::Device>>(&self, buf: &mut B) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().all_gather_in_place(buf)
    }
}

impl<W: World> On<'_, W> {
    /// See [`Communicator::all_gather`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_gather<A, B>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let (from, to) = (self.span(send)?, self.span(recv)?);
        let call = Call::new(Operation::AllGather, A::Elem::DTYPE, from.len(), Location::caller());
        self.holds(&call, "receive", to.len(), self.core.size)?;
        self.submit(call, None, Some(from), Some(to))
    }

    /// See [`Communicator::all_gather_in_place`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_gather_in_place<B: Writable<W::Device>>(&self, buf: &mut B) -> Result<()> {
        let site = Location::caller();
        let all = self.span(buf)?;
        let count = self.block(Operation::AllGather, B::Elem::DTYPE, all.len(), site)?;
        let call = Call::new(Operation::AllGather, B::Elem::DTYPE, count, site);
        let own = all.nth(self.core.rank, count, B::Elem::DTYPE.size());
        self.submit(call, None, Some(own), Some(all))
    }
}

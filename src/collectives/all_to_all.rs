//! all_to_all: block r of every rank goes to rank r.

use std::panic::Location;

use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Call, Operation};
use crate::memory::SameDtype;
use crate::{Communicator, Element, Readable, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Sends block r of `send` to rank r, and receives rank r's block into block r of `recv`. Every
    /// rank calls it; both buffers hold `size` equal blocks. The host does not wait. There is no
    /// form in one buffer. NCCL: `ncclAlltoAll`, 2.28.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a view past its buffer, memory of another device; a
    /// poisoned communicator.
    #[inline]
    #[track_caller]
    pub fn all_to_all<A, B>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        self.here().all_to_all(send, recv)
    }
}

impl<W: World> On<'_, W> {
    /// See [`Communicator::all_to_all`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_to_all<A, B>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device>,
        B: Writable<W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let site = Location::caller();
        let (from, to) = (self.span(send)?, self.span(recv)?);
        let count = self.block(Operation::AllToAll, A::Elem::DTYPE, from.len(), site)?;
        let call = Call::new(Operation::AllToAll, A::Elem::DTYPE, count, site);
        self.holds(&call, "receive", to.len(), self.core.size)?;
        self.submit(call, None, Some(from), Some(to))
    }
}

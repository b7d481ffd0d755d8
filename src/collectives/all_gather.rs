//! all_gather: every rank gets every rank's elements, by rank.

use super::Draft;
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::Holds;
use crate::{Communicator, Readable, RecordRead, RecordWrite, Result, World, Writable};

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
    pub fn all_gather<A, B, E>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
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
    pub fn all_gather_in_place<B: Writable<W::Device> + ?Sized>(&self, buf: &mut B) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().all_gather_in_place(buf)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::all_gather`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_gather<A, B, E>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let draft = Draft::new(self.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = draft.all_gather(send.span(), recv.span());
        self.run(Refusal::Collective, op)
    }

    /// See [`Communicator::all_gather_in_place`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_gather_in_place<B: Writable<W::Device> + ?Sized>(&self, buf: &mut B) -> Result<()> {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        let op = draft.all_gather_in_place(buf.span());
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records an [`all_gather`](Communicator::all_gather).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_gather<A, B, E>(&mut self, send: A, recv: B) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, recv) = (send.recorded(), recv.recorded());
        let draft = Draft::new(self.on.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = draft.all_gather(send.span(), recv.span());
        self.record(Refusal::Collective, op)
    }

    /// Records an [`all_gather_in_place`](Communicator::all_gather_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_gather_in_place<B: RecordWrite<'e, W::Device>>(&mut self, buf: B) -> Result<()> {
        let buf = buf.recorded();
        let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
        let op = draft.all_gather_in_place(buf.span());
        self.record(Refusal::Collective, op)
    }
}

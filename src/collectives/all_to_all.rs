//! all_to_all: block r of every rank goes to rank r.

use super::Draft;
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::Holds;
use crate::{Communicator, Readable, RecordRead, RecordWrite, Result, World, Writable};

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
    pub fn all_to_all<A, B, E>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        self.here().all_to_all(send, recv)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::all_to_all`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn all_to_all<A, B, E>(&self, send: &A, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let draft = Draft::new(self.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = draft.all_to_all(send.span(), recv.span());
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records an [`all_to_all`](Communicator::all_to_all).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_to_all<A, B, E>(&mut self, send: A, recv: B) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, recv) = (send.recorded(), recv.recorded());
        let draft = Draft::new(self.on.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = draft.all_to_all(send.span(), recv.span());
        self.record(Refusal::Collective, op)
    }
}

//! gather: the root gets every rank's elements, by rank.

use super::{Draft, Root};
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::{Holds, Recorded};
use crate::{
    AsRank, Buffer, Communicator, Element, Readable, RecordRead, RecordWrite, Result, World,
    Writable,
};

impl<W: World, S: State> Communicator<W, S> {
    /// Copies every rank's `send` into a new buffer on the root, in rank order; `None` elsewhere.
    /// Every rank calls it with one length. The host does not wait. NCCL: `ncclGather`, 2.28.
    ///
    /// # Errors
    /// Refusals: a root that the communicator does not have, a view past its buffer, memory of
    /// another device, no memory for the result; a poisoned communicator.
    #[track_caller]
    pub fn gather<A: Readable<W::Device, Elem = E> + ?Sized, E: Element>(
        &self,
        send: &A,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>>
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
    pub fn gather_into<A, B, E>(&self, send: &A, recv: Root<&mut B>) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
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
    pub fn gather_in_place<B: Writable<W::Device> + ?Sized>(
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

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::gather`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn gather<A: Readable<W::Device, Elem = E> + ?Sized, E: Element>(
        &self,
        send: &A,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>> {
        let mut out = self.on_root(root, send.len().saturating_mul(self.core.size))?;
        self.gather_into(send, Root::here_or_at(out.as_mut(), root))?;
        Ok(out)
    }

    /// See [`Communicator::gather_into`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn gather_into<A, B, E>(&self, send: &A, recv: Root<&mut B>) -> Result<()>
    where
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let draft = Draft::new(self.core, send.dtype(), Site::caller());
        let (recv, root) = recv.split(self.core.own());
        let draft = draft.against(recv.as_ref().map(|recv| recv.dtype()));
        let op = draft.gather(send.span(), recv.as_ref().map(|recv| recv.span()), root);
        self.run(Refusal::Collective, op)
    }

    /// See [`Communicator::gather_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn gather_in_place<B: Writable<W::Device> + ?Sized>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()> {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        let op = draft.gather_in_place(buf.span(), root);
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records a [`gather_into`](Communicator::gather_into).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn gather_into<A, B, E>(&mut self, send: A, recv: Root<B>) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (recv, root) = recv.split(self.rank());
        let (send, recv) = (send.recorded(), recv.map(B::recorded));
        let draft = Draft::new(self.on.core, send.dtype(), Site::caller());
        let draft = draft.against(recv.as_ref().map(Recorded::dtype));
        let op = draft.gather(send.span(), recv.map(|recv| recv.span()), root);
        self.record(Refusal::Collective, op)
    }

    /// Records a [`gather_in_place`](Communicator::gather_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn gather_in_place<B: RecordWrite<'e, W::Device>>(
        &mut self,
        buf: B,
        root: impl AsRank,
    ) -> Result<()> {
        let buf = buf.recorded();
        let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
        let op = draft.gather_in_place(buf.span(), root);
        self.record(Refusal::Collective, op)
    }
}

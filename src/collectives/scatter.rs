//! scatter: rank r gets block r of the root's elements.

use super::{Draft, Root};
use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::error::Site;
use crate::group::Group;
use crate::memory::{Holds, Recorded};
use crate::{AsRank, Communicator, Readable, RecordRead, RecordWrite, Result, World, Writable};

impl<W: World, S: State> Communicator<W, S> {
    /// Copies block r of the root's `send` into rank r's `recv`. Every rank calls it; `recv` has one
    /// length on all ranks, the root's `send` is `size` times as long. The host does not wait.
    /// NCCL: `ncclScatter`, 2.28.
    ///
    /// # Errors
    /// Refusals: a length that does not fit, a root that the communicator does not have, a view
    /// past its buffer, memory of another device; a poisoned communicator.
    #[track_caller]
    pub fn scatter<A, B, E>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        S: CanEnqueue,
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        self.here().scatter(send, recv)
    }

    /// [`scatter`](Self::scatter) in one buffer: on the root it holds `size` equal blocks, which are
    /// read, and the root's own stays where it is; elsewhere it is the one block that is received.
    ///
    /// # Errors
    /// As there; a length on the root that `size` does not divide.
    #[track_caller]
    pub fn scatter_in_place<B: Writable<W::Device> + ?Sized>(
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

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::scatter`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn scatter<A, B, E>(&self, send: Root<&A>, recv: &mut B) -> Result<()>
    where
        A: Readable<W::Device, Elem = E> + ?Sized,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let draft = Draft::new(self.core, recv.dtype(), Site::caller());
        let (send, root) = send.split(self.core.own());
        let draft = draft.against(send.map(|send| send.dtype()));
        let op = draft.scatter(send.map(|send| send.span()), recv.span(), root);
        self.run(Refusal::Collective, op)
    }

    /// See [`Communicator::scatter_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn scatter_in_place<B: Writable<W::Device> + ?Sized>(
        &self,
        buf: &mut B,
        root: impl AsRank,
    ) -> Result<()> {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        let op = draft.scatter_in_place(buf.span(), root);
        self.run(Refusal::Collective, op)
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records a [`scatter`](Communicator::scatter).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn scatter<A, B, E>(&mut self, send: Root<A>, recv: B) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, root) = send.split(self.rank());
        let (send, recv) = (send.map(A::recorded), recv.recorded());
        let draft = Draft::new(self.on.core, recv.dtype(), Site::caller());
        let draft = draft.against(send.as_ref().map(Recorded::dtype));
        let op = draft.scatter(send.map(|send| send.span()), recv.span(), root);
        self.record(Refusal::Collective, op)
    }

    /// Records a [`scatter_in_place`](Communicator::scatter_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn scatter_in_place<B: RecordWrite<'e, W::Device>>(
        &mut self,
        buf: B,
        root: impl AsRank,
    ) -> Result<()> {
        let buf = buf.recorded();
        let draft = Draft::new(self.on.core, buf.dtype(), Site::caller());
        let op = draft.scatter_in_place(buf.span(), root);
        self.record(Refusal::Collective, op)
    }
}

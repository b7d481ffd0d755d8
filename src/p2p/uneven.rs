//! Collectives whose blocks differ in length, made of transfers and reductions.
//!
//! The ranks declare the lengths once, together ([`Communicator::splits`],
//! [`Communicator::blocks`]); each later call is checked on this rank alone. Every call is one
//! group of operations, written once on [`Group`].

use super::{Blocks, Splits};
use crate::backend::{Backend, Half, Refusal};
use crate::collectives::Draft;
use crate::communicator::{CanEnqueue, Core, Maker, On, State};
use crate::error::{BadLength, CollectiveName, Error, OtherDType, Site};
use crate::group::Group;
use crate::memory::{Holds, Recorded};
use crate::{Communicator, DType, Device, Rank, RecordRead, RecordWrite, ReduceOp, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

impl<W: World, S: State> Communicator<W, S> {
    /// Sends consecutive blocks of `send` to the ranks and receives theirs into consecutive blocks
    /// of `recv`, with the lengths of `splits`. Every rank calls it. The host does not wait. There
    /// is no in-place form. NCCL: a group of `ncclSend` and `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: `splits` of another communicator; a length that differs from them; as
    /// [`send`](Self::send).
    #[track_caller]
    pub fn all_to_all_v<'e, A, B, E>(&'e self, send: A, recv: B, splits: &Splits) -> Result<()>
    where
        S: CanEnqueue,
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        self.here().all_to_all_v(send, recv, splits)
    }

    /// Copies every rank's `send` into `recv` on every rank, in rank order, with the block lengths
    /// of `blocks`. Every rank calls it. The host does not wait. NCCL: a group of `ncclSend` and
    /// `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: `blocks` of another communicator; a length that differs from them; as
    /// [`send`](Self::send).
    #[track_caller]
    pub fn all_gather_v<'e, A, B, E>(&'e self, send: A, recv: B, blocks: &Blocks) -> Result<()>
    where
        S: CanEnqueue,
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        self.here().all_gather_v(send, recv, blocks)
    }

    /// [`all_gather_v`](Self::all_gather_v) in one buffer of all blocks: this rank's
    /// ([`Blocks::range_at`]) is read, the others are written.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn all_gather_v_in_place<'e, B>(&'e self, buf: B, blocks: &Blocks) -> Result<()>
    where
        S: CanEnqueue,
        B: RecordWrite<'e, W::Device>,
    {
        self.here().all_gather_v_in_place(buf, blocks)
    }

    /// Reduces the ranks' `send` elementwise and gives each rank its block, with the lengths of
    /// `blocks`. Every rank calls it. The host does not wait. NCCL: a group of one `ncclReduce` per
    /// rank, 2.3.
    ///
    /// # Errors
    /// Refusals: `blocks` of another communicator; a length that differs from them; as
    /// [`reduce_into`](Self::reduce_into).
    #[track_caller]
    pub fn reduce_scatter_v<'e, A, B, E>(
        &'e self,
        send: A,
        recv: B,
        op: impl ReduceOp<E, W>,
        blocks: &Blocks,
    ) -> Result<()>
    where
        S: CanEnqueue,
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        self.here().reduce_scatter_v(send, recv, op, blocks)
    }

    /// [`reduce_scatter_v`](Self::reduce_scatter_v) in one buffer of all blocks: all are read, this
    /// rank's ([`Blocks::range_at`]) is overwritten with its result.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_scatter_v_in_place<'e, B, E>(
        &'e self,
        buf: B,
        op: impl ReduceOp<E, W>,
        blocks: &Blocks,
    ) -> Result<()>
    where
        S: CanEnqueue,
        B: RecordWrite<'e, W::Device, Elem = E>,
    {
        self.here().reduce_scatter_v_in_place(buf, op, blocks)
    }
}

impl<'e, W: World> On<'e, W> {
    /// See [`Communicator::all_to_all_v`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn all_to_all_v<A, B, E>(self, send: A, recv: B, splits: &Splits) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let mut group = Group::new(self);
        group.all_to_all_v(send, recv, splits)?;
        group.issue()
    }

    /// See [`Communicator::all_gather_v`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn all_gather_v<A, B, E>(self, send: A, recv: B, blocks: &Blocks) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let mut group = Group::new(self);
        group.all_gather_v(send, recv, blocks)?;
        group.issue()
    }

    /// See [`Communicator::all_gather_v_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn all_gather_v_in_place<B>(self, buf: B, blocks: &Blocks) -> Result<()>
    where
        B: RecordWrite<'e, W::Device>,
    {
        let mut group = Group::new(self);
        group.all_gather_v_in_place(buf, blocks)?;
        group.issue()
    }

    /// See [`Communicator::reduce_scatter_v`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_scatter_v<A, B, E>(
        self,
        send: A,
        recv: B,
        op: impl ReduceOp<E, W>,
        blocks: &Blocks,
    ) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let mut group = Group::new(self);
        group.reduce_scatter_v(send, recv, op, blocks)?;
        group.issue()
    }

    /// See [`Communicator::reduce_scatter_v_in_place`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce_scatter_v_in_place<B, E>(
        self,
        buf: B,
        op: impl ReduceOp<E, W>,
        blocks: &Blocks,
    ) -> Result<()>
    where
        B: RecordWrite<'e, W::Device, Elem = E>,
    {
        let mut group = Group::new(self);
        group.reduce_scatter_v_in_place(buf, op, blocks)?;
        group.issue()
    }
}

impl<'e, W: World> Group<'e, W> {
    /// Records an [`all_to_all_v`](Communicator::all_to_all_v).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_to_all_v<A, B, E>(&mut self, send: A, recv: B, splits: &Splits) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let site = Site::caller();
        let (send, recv) = (send.recorded(), recv.recorded());
        let exact = Exact::new("all_to_all_v", send.dtype(), site)
            .made_by(self.on.core, splits.maker)
            .same(recv.dtype())
            .and("send", send.len(), splits.send_len())
            .and("receive", recv.len(), splits.recv_len());
        if let Some(wrong) = exact.wrong {
            return self.refuses_transfers(wrong);
        }
        let (mut sent, mut received) = (0, 0);
        for (peer, (sends, recvs)) in splits.both().enumerate() {
            self.transfer(Half::SendTo, send.part(sent..sent + sends), peer, site)?;
            self.transfer(Half::RecvFrom, recv.part(received..received + recvs), peer, site)?;
            sent += sends;
            received += recvs;
        }
        Ok(())
    }

    /// Records an [`all_gather_v`](Communicator::all_gather_v).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_gather_v<A, B, E>(&mut self, send: A, recv: B, blocks: &Blocks) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let site = Site::caller();
        let (send, recv) = (send.recorded(), recv.recorded());
        let exact = Exact::new("all_gather_v", send.dtype(), site)
            .made_by(self.on.core, blocks.maker)
            .same(recv.dtype())
            .and("send", send.len(), blocks.own().len())
            .and("receive", recv.len(), blocks.total());
        if let Some(wrong) = exact.wrong {
            return self.refuses_transfers(wrong);
        }
        for (peer, range) in blocks.ranges().enumerate() {
            self.transfer(Half::SendTo, send.part(0..send.len()), peer, site)?;
            self.transfer(Half::RecvFrom, recv.part(range), peer, site)?;
        }
        Ok(())
    }

    /// Records an [`all_gather_v_in_place`](Communicator::all_gather_v_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn all_gather_v_in_place<B>(&mut self, buf: B, blocks: &Blocks) -> Result<()>
    where
        B: RecordWrite<'e, W::Device>,
    {
        let site = Site::caller();
        let buf = buf.recorded();
        let exact = Exact::new("all_gather_v_in_place", buf.dtype(), site)
            .made_by(self.on.core, blocks.maker)
            .and("one", buf.len(), blocks.total());
        if let Some(wrong) = exact.wrong {
            return self.refuses_transfers(wrong);
        }
        let own = self.on.core.rank.index();
        for (peer, range) in blocks.ranges().enumerate().filter(|(peer, _)| *peer != own) {
            self.transfer(Half::SendTo, buf.part(blocks.own()), peer, site)?;
            self.transfer(Half::RecvFrom, buf.part(range), peer, site)?;
        }
        Ok(())
    }

    /// Records a [`reduce_scatter_v`](Communicator::reduce_scatter_v).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn reduce_scatter_v<A, B, E>(
        &mut self,
        send: A,
        recv: B,
        op: impl ReduceOp<E, W>,
        blocks: &Blocks,
    ) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let site = Site::caller();
        let (send, recv) = (send.recorded(), recv.recorded());
        let exact = Exact::new("reduce_scatter_v", send.dtype(), site)
            .made_by(self.on.core, blocks.maker)
            .same(recv.dtype())
            .and("receive", recv.len(), blocks.own().len())
            .and("send", send.len(), blocks.total());
        match exact.wrong {
            Some(wrong) => self.refuses_collectives(wrong),
            None => self.reduce_to_each(&send, &recv, op, blocks, site),
        }
    }

    /// Records a [`reduce_scatter_v_in_place`](Communicator::reduce_scatter_v_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn reduce_scatter_v_in_place<B, E>(
        &mut self,
        buf: B,
        op: impl ReduceOp<E, W>,
        blocks: &Blocks,
    ) -> Result<()>
    where
        B: RecordWrite<'e, W::Device, Elem = E>,
    {
        let site = Site::caller();
        let buf = buf.recorded();
        let exact = Exact::new("reduce_scatter_v_in_place", buf.dtype(), site)
            .made_by(self.on.core, blocks.maker)
            .and("one", buf.len(), blocks.total());
        match exact.wrong {
            Some(wrong) => self.refuses_collectives(wrong),
            None => self.reduce_to_each(&buf, &buf.part(blocks.own()), op, blocks, site),
        }
    }

    /// Records one reduction per rank, of its block of `send`; `recv` is this rank's.
    fn reduce_to_each<T>(
        &mut self,
        send: &Recorded<'e, Back<W>>,
        recv: &Recorded<'e, Back<W>>,
        op: impl ReduceOp<T, W>,
        blocks: &Blocks,
        site: Site,
    ) -> Result<()> {
        let core = self.on.core;
        let draft = Draft::new(core, send.dtype(), site);
        for (root, range) in blocks.ranges().enumerate() {
            let own = (root == core.rank.index()).then(|| recv.span());
            let sides = (Some(send.part(range).span()), own);
            let op = Some(op.resolve(&core.resources));
            let op = draft.collective(CollectiveName::Reduce, sides, op, Some(root));
            self.record(Refusal::Collective, op)?;
        }
        Ok(())
    }

    /// Records only refusals, one transfer with each rank in both directions.
    #[cold]
    fn refuses_transfers(&mut self, wrong: Error) -> Result<()> {
        let ranks = (0..self.size()).map(Rank::at);
        self.refuses(ranks.flat_map(|rank| [Refusal::SendTo(rank), Refusal::RecvFrom(rank)]), wrong)
    }

    /// Records only refusals, one collective per rank.
    #[cold]
    fn refuses_collectives(&mut self, wrong: Error) -> Result<()> {
        self.refuses((0..self.size()).map(|_| Refusal::Collective), wrong)
    }
}

/// The first mismatch between a call and the declared lengths.
struct Exact {
    operation: &'static str,
    dtype: DType,
    site: Site,
    wrong: Option<Error>,
}

impl Exact {
    fn new(operation: &'static str, dtype: DType, site: Site) -> Self {
        Self { operation, dtype, site, wrong: None }
    }

    /// Checks that this communicator declared the lengths.
    fn made_by<B: Backend>(mut self, core: &Core<B>, maker: Maker) -> Self {
        self.wrong = core.resources.made(maker, "declaration of lengths").err();
        self
    }

    /// Checks the receive buffer's data type, where the compiler did not.
    fn same(mut self, found: DType) -> Self {
        if found != self.dtype && self.wrong.is_none() {
            let Self { operation, dtype: expected, site, .. } = self;
            let differ = OtherDType { operation, found, expected, site, collective: true };
            self.wrong = Some(Error::OtherDType(Box::new(differ)));
        }
        self
    }

    fn and(mut self, buffer: &'static str, found: usize, needed: usize) -> Self {
        if found != needed && self.wrong.is_none() {
            let Self { operation, dtype, site, .. } = self;
            let because = "the declared lengths".to_owned();
            let bad = BadLength {
                operation,
                buffer,
                dtype,
                found,
                needed,
                because,
                site,
                collective: true,
            };
            self.wrong = Some(Error::BadLength(Box::new(bad)));
        }
        self
    }
}

//! Collectives whose blocks differ in length, made of transfers and reductions.
//!
//! The ranks declare the lengths once, together ([`Communicator::splits`],
//! [`Communicator::blocks`]); each later call is checked on this rank alone. Every call is one
//! group of operations, written once on [`Group`].

use super::{Blocks, Splits};
use crate::backend::{Backend, Half, Refusal};
use crate::collectives::{Draft, IntoRoot};
use crate::communicator::{CanEnqueue, Core, Maker, On, State};
use crate::error::{BadLength, CollectiveName, Error, NoBuffer, OtherDType, Site};
use crate::group::Group;
use crate::memory::{Holds, Recorded};
use crate::{
    AsRank, Communicator, DType, Device, Rank, RecordRead, RecordWrite, ReduceOp, Result, World,
};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// Methods of `Communicator` and of `On`: each is a group of what the method of `Group` records.
macro_rules! methods {
    ($(
        $(#[$doc:meta])*
        fn $name:ident<$A:ident, $B:ident, $E:ident>(
            $send:ident: $Send:ty, $recv:ident: $Recv:ty $(, $op:ident: $Op:ty)?;
            $lens:ident: &$Lens:ty
        );
    )+ in one buffer: $(
        $(#[$in_place_doc:meta])*
        fn $in_place:ident<$Buf:ident $(, $Elem:ident)?>(
            buf $(, $by:ident: $By:ty)?; blocks: &Blocks $(, $root:ident: $Root:ty)?
        );
    )+) => {
        impl<W: World, S: State> Communicator<W, S> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name<'e, $A, $B, $E>(
                    &'e self,
                    $send: $Send,
                    $recv: $Recv,
                    $($op: $Op,)?
                    $lens: &$Lens,
                ) -> Result<()>
                where
                    S: CanEnqueue,
                    $A: RecordRead<'e, W::Device, Elem = $E>,
                    $B: RecordWrite<'e, W::Device> + Holds<$E>,
                {
                    self.here().$name($send, $recv, $($op,)? $lens)
                }
            )+
            $(
                $(#[$in_place_doc])*
                #[track_caller]
                pub fn $in_place<'e, $Buf $(, $Elem)?>(
                    &'e self,
                    buf: $Buf,
                    $($by: $By,)?
                    blocks: &Blocks,
                    $($root: $Root,)?
                ) -> Result<()>
                where
                    S: CanEnqueue,
                    $Buf: RecordWrite<'e, W::Device $(, Elem = $Elem)?>,
                {
                    self.here().$in_place(buf, $($by,)? blocks $(, $root)?)
                }
            )+
        }

        impl<'e, W: World> On<'e, W> {
            $(
                #[doc = concat!("See [`Communicator::", stringify!($name), "`].")]
                ///
                /// # Errors
                /// As there.
                #[track_caller]
                pub fn $name<$A, $B, $E>(
                    self,
                    $send: $Send,
                    $recv: $Recv,
                    $($op: $Op,)?
                    $lens: &$Lens,
                ) -> Result<()>
                where
                    $A: RecordRead<'e, W::Device, Elem = $E>,
                    $B: RecordWrite<'e, W::Device> + Holds<$E>,
                {
                    let mut group = Group::new(self);
                    group.$name($send, $recv, $($op,)? $lens)?;
                    group.issue()
                }
            )+
            $(
                #[doc = concat!("See [`Communicator::", stringify!($in_place), "`].")]
                ///
                /// # Errors
                /// As there.
                #[track_caller]
                pub fn $in_place<$Buf $(, $Elem)?>(
                    self,
                    buf: $Buf,
                    $($by: $By,)?
                    blocks: &Blocks,
                    $($root: $Root,)?
                ) -> Result<()>
                where
                    $Buf: RecordWrite<'e, W::Device $(, Elem = $Elem)?>,
                {
                    let mut group = Group::new(self);
                    group.$in_place(buf, $($by,)? blocks $(, $root)?)?;
                    group.issue()
                }
            )+
        }
    };
}

methods! {
    /// Sends consecutive blocks of `send` to the ranks, and receives theirs into consecutive blocks
    /// of `recv`, as long as `splits` says. Every rank calls it. The host does not wait. There is
    /// no form in one buffer. NCCL: a group of `ncclSend` and `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: `splits` of another communicator; a length that is not what they say; as
    /// [`send`](Self::send).
    fn all_to_all_v<A, B, E>(send: A, recv: B; splits: &Splits);

    /// Copies every rank's `send` into `recv` on every rank, in rank order, with the block lengths
    /// of `blocks`. Every rank calls it. The host does not wait. NCCL: a group of `ncclSend` and
    /// `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: `blocks` of another communicator; a length that is not what they say; as
    /// [`send`](Self::send).
    fn all_gather_v<A, B, E>(send: A, recv: B; blocks: &Blocks);

    /// Reduces the ranks' `send` elementwise and gives each rank its block, with the lengths of
    /// `blocks`. Every rank calls it. The host does not wait. NCCL: a group of one `ncclReduce` per
    /// rank, 2.3.
    ///
    /// # Errors
    /// Refusals: `blocks` of another communicator; a length that differs from them; as
    /// [`reduce_into`](Self::reduce_into).
    fn reduce_scatter_v<A, B, E>(send: A, recv: B, op: impl ReduceOp<E, W>; blocks: &Blocks);

    /// Copies every rank's `send` into the root's `recv`, in rank order, blocks as long as `blocks`
    /// says. Every rank calls it. The host does not wait. NCCL: a group of `ncclSend` and
    /// `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: `blocks` of another communicator; a length that is not what they say; a root that
    /// the communicator does not have; as [`send`](Self::send).
    fn gather_v<A, B, E>(send: A, recv: impl IntoRoot<B>; blocks: &Blocks);

    /// Copies block r of the root's `send` into rank r's `recv`, blocks as long as `blocks` says.
    /// Every rank calls it. The host does not wait. NCCL: a group of `ncclSend` and `ncclRecv`,
    /// 2.7.
    ///
    /// # Errors
    /// As [`gather_v`](Self::gather_v).
    fn scatter_v<A, B, E>(send: impl IntoRoot<A>, recv: B; blocks: &Blocks);

    in one buffer:

    /// [`all_gather_v`](Self::all_gather_v) in one buffer of all blocks: this rank's
    /// ([`Blocks::range_at`]) is read, the others are written.
    ///
    /// # Errors
    /// As there.
    fn all_gather_v_in_place<B>(buf; blocks: &Blocks);

    /// [`reduce_scatter_v`](Self::reduce_scatter_v) in one buffer of all blocks: all are read, this
    /// rank's ([`Blocks::range_at`]) is overwritten with its result.
    ///
    /// # Errors
    /// As there.
    fn reduce_scatter_v_in_place<B, E>(buf, op: impl ReduceOp<E, W>; blocks: &Blocks);

    /// [`gather_v`](Self::gather_v) in one buffer: on the root it holds all blocks, of which the
    /// root's own ([`Blocks::range_at`]) stays and the others are written; elsewhere it is the
    /// block that is sent.
    ///
    /// # Errors
    /// As there.
    fn gather_v_in_place<B>(buf; blocks: &Blocks, root: impl AsRank);

    /// [`scatter_v`](Self::scatter_v) in one buffer: on the root it holds all blocks, which are
    /// read, and the root's own stays where it is; elsewhere it is the block that is received.
    ///
    /// # Errors
    /// As there.
    fn scatter_v_in_place<B>(buf; blocks: &Blocks, root: impl AsRank);
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
        let site = Site::caller().of("all_to_all_v");
        let (send, recv) = (send.recorded(), recv.recorded());
        let exact = Exact::new("all_to_all_v", send.dtype(), site)
            .made_by(self.on.core, splits.maker)
            .same(recv.dtype())
            .back("send", send.len(), splits.send_len(), splits.recv_len())
            .back("receive", recv.len(), splits.recv_len(), splits.send_len());
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
        let site = Site::caller().of("all_gather_v");
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
        let site = Site::caller().of("all_gather_v_in_place");
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
        let site = Site::caller().of("reduce_scatter_v");
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
        let site = Site::caller().of("reduce_scatter_v_in_place");
        let buf = buf.recorded();
        let exact = Exact::new("reduce_scatter_v_in_place", buf.dtype(), site)
            .made_by(self.on.core, blocks.maker)
            .and("one", buf.len(), blocks.total());
        match exact.wrong {
            Some(wrong) => self.refuses_collectives(wrong),
            None => self.reduce_to_each(&buf, &buf.part(blocks.own()), op, blocks, site),
        }
    }

    /// Records a [`gather_v`](Communicator::gather_v).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn gather_v<A, B, E>(
        &mut self,
        send: A,
        recv: impl IntoRoot<B>,
        blocks: &Blocks,
    ) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, (recv, root)) = (send.recorded(), recv.into_root().split(self.rank()));
        let exact = Exact::new("gather_v", send.dtype(), Site::caller().of("gather_v"))
            .made_by(self.on.core, blocks.maker)
            .and("send", send.len(), blocks.own().len());
        let recv = recv.map(B::recorded);
        self.with_root(exact, Half::SendTo, (Some(send), recv), blocks, root)
    }

    /// Records a [`gather_v_in_place`](Communicator::gather_v_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn gather_v_in_place<B>(&mut self, buf: B, blocks: &Blocks, root: impl AsRank) -> Result<()>
    where
        B: RecordWrite<'e, W::Device>,
    {
        let exact = ("gather_v_in_place", Site::caller().of("gather_v_in_place"));
        self.with_root_in_place(exact, Half::SendTo, buf.recorded(), blocks, root)
    }

    /// Records a [`scatter_v`](Communicator::scatter_v).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn scatter_v<A, B, E>(
        &mut self,
        send: impl IntoRoot<A>,
        recv: B,
        blocks: &Blocks,
    ) -> Result<()>
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (recv, (send, root)) = (recv.recorded(), send.into_root().split(self.rank()));
        let exact = Exact::new("scatter_v", recv.dtype(), Site::caller().of("scatter_v"))
            .made_by(self.on.core, blocks.maker)
            .and("receive", recv.len(), blocks.own().len());
        let send = send.map(A::recorded);
        self.with_root(exact, Half::RecvFrom, (Some(recv), send), blocks, root)
    }

    /// Records a [`scatter_v_in_place`](Communicator::scatter_v_in_place).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn scatter_v_in_place<B>(
        &mut self,
        buf: B,
        blocks: &Blocks,
        root: impl AsRank,
    ) -> Result<()>
    where
        B: RecordWrite<'e, W::Device>,
    {
        let exact = ("scatter_v_in_place", Site::caller().of("scatter_v_in_place"));
        self.with_root_in_place(exact, Half::RecvFrom, buf.recorded(), blocks, root)
    }

    /// [`with_root`](Self::with_root) of one buffer: all blocks on the root, this rank's elsewhere.
    fn with_root_in_place(
        &mut self,
        (operation, site): (&'static str, Site),
        half: Half,
        buf: Recorded<'e, Back<W>>,
        blocks: &Blocks,
        root: impl AsRank,
    ) -> Result<()> {
        let is_root = self.on.core.number(root) == Some(self.on.core.rank.index());
        let needed = if is_root { blocks.total() } else { blocks.own().len() };
        let exact = Exact::new(operation, buf.dtype(), site)
            .made_by(self.on.core, blocks.maker)
            .and("one", buf.len(), needed);
        let sides = if is_root { (None, Some(buf)) } else { (Some(buf), None) };
        self.with_root(exact, half, sides, blocks, root)
    }

    /// Records the messages between the root and every rank. `half` says what a rank does with its
    /// own block, `own`, which is none where it stays in place; `whole` is all blocks, on the root.
    fn with_root(
        &mut self,
        mut exact: Exact,
        half: Half,
        (own, whole): (Option<Recorded<'e, Back<W>>>, Option<Recorded<'e, Back<W>>>),
        blocks: &Blocks,
        root: impl AsRank,
    ) -> Result<()> {
        let (core, site, stays) = (self.on.core, exact.site, own.is_none());
        let rank = core.rank.index();
        let Some(root) = core.number(root) else {
            let no_rank = core.no_rank(exact.operation, root, true, site);
            return self.refuses([], exact.wrong.unwrap_or(no_rank));
        };
        let (other, buffer) = match half {
            Half::SendTo => (Half::RecvFrom, "receive"),
            Half::RecvFrom => (Half::SendTo, "send"),
        };
        exact = match &whole {
            Some(whole) => exact.same(whole.dtype()).and(buffer, whole.len(), blocks.total()),
            None => exact.has_buffer(root != rank, core.rank),
        };
        let peers = blocks.ranges().enumerate();
        let peers = peers.filter(|(peer, _)| root == rank && !(stays && *peer == rank));
        if let Some(wrong) = exact.wrong {
            let own = own.map(|_| half.refusal(Rank::at(root)));
            let others = peers.map(|(peer, _)| other.refusal(Rank::at(peer)));
            return self.refuses(own.into_iter().chain(others), wrong);
        }
        if let Some(own) = own {
            self.transfer(half, own, root, site)?;
        }
        if let Some(whole) = whole {
            for (peer, range) in peers {
                self.transfer(other, whole.part(range), peer, site)?;
            }
        }
        Ok(())
    }

    /// Records a reduction to each rank of its block of `send`; `recv` is this rank's.
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
            self.wrong = Some(differ.into());
        }
        self
    }

    /// Whether this rank has the root's buffer, or needs none.
    fn has_buffer(mut self, has: bool, root: Rank) -> Self {
        if !has && self.wrong.is_none() {
            let Self { operation, site, .. } = self;
            self.wrong = Some(Error::NoBuffer(Box::new(NoBuffer { operation, root, site })));
        }
        self
    }

    /// [`and`](Self::and), of splits, which have another length for the way back.
    fn back(self, buffer: &'static str, found: usize, needed: usize, back: usize) -> Self {
        let transposed = (found == back).then_some("for the way back pass `splits.transposed()`");
        self.exactly(buffer, found, needed, transposed)
    }

    fn and(self, buffer: &'static str, found: usize, needed: usize) -> Self {
        self.exactly(buffer, found, needed, None)
    }

    fn exactly(
        mut self,
        buffer: &'static str,
        found: usize,
        needed: usize,
        back: Option<&str>,
    ) -> Self {
        if found != needed && self.wrong.is_none() {
            let Self { operation, dtype, site, .. } = self;
            let declared = if operation == "all_to_all_v" { "splits" } else { "blocks" };
            let rows = found.checked_div(needed).filter(|rows| *rows > 1 && rows * needed == found);
            let rows =
                rows.map(|by| format!("for rows of {by} elements pass `{declared}.scaled({by})?`"));
            let pass = [back.map(str::to_owned), rows].into_iter().flatten();
            let instead = pass.map(|pass| pass + "; otherwise ").collect();
            let (lengths, because) = ((found, needed), "the declared lengths");
            let bad = BadLength::new(operation, buffer, dtype, lengths, because, site);
            self.wrong = Some(BadLength { instead, collective: true, ..bad }.into());
        }
        self
    }
}

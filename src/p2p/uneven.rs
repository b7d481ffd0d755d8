//! Collectives whose blocks differ in length, made of transfers.
//!
//! The lengths are declared once, by all ranks together ([`Communicator::splits`]); every later call
//! with them is checked against the whole matrix on this rank, without talking to the others.

use crate::backend::{Backend, Half, Refusal};
use crate::communicator::{CanEnqueue, Core, Maker, State};
use crate::error::{BadLength, Error, OtherDType, Site, SplitsTooLong};
use crate::memory::SameDtype;
use crate::{
    AsRank, Buffer, Communicator, DType, Numeric, Rank, RecordRead, RecordWrite, ReduceOp, Result,
    World,
};

/// How many elements each rank sends to each rank, known to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    rank: Rank,
    /// By sender, then by receiver.
    counts: Vec<Vec<usize>>,
    maker: Maker,
}

impl Splits {
    /// What the ranks declared, if everything that one of them sends or receives fits into a buffer.
    fn new<B: Backend>(
        core: &Core<B>,
        operation: &'static str,
        counts: Vec<Vec<usize>>,
        site: Site,
    ) -> Result<Self> {
        for rank in 0..counts.len() {
            let sent = counts[rank].clone();
            let received: Vec<usize> = counts.iter().map(|row| row[rank]).collect();
            for (counts, receives) in [(sent, false), (received, true)] {
                let all = counts.iter().try_fold(0, |all: usize, &one| all.checked_add(one));
                if all.is_none_or(|all| isize::try_from(all).is_err()) {
                    let rank = core.own().beside(rank);
                    let long = SplitsTooLong { operation, rank, receives, counts, site };
                    return Err(Error::SplitsTooLong(Box::new(long)));
                }
            }
        }
        Ok(Self { rank: core.own(), counts, maker: core.resources.maker() })
    }

    /// How many elements this rank sends to `to`.
    pub fn sends_to(&self, to: impl AsRank) -> usize {
        self.number(to).map_or(0, |to| self.own()[to])
    }

    /// How many elements this rank receives from `from`.
    pub fn recvs_from(&self, from: impl AsRank) -> usize {
        self.number(from).map_or(0, |from| self.counts[from][self.rank.index()])
    }

    /// How many elements this rank sends in all.
    pub fn send_len(&self) -> usize {
        self.own().iter().sum()
    }

    /// How many elements this rank receives in all.
    pub fn recv_len(&self) -> usize {
        self.counts.iter().map(|row| row[self.rank.index()]).sum()
    }

    /// How many elements each rank contributes to a gather or takes from a scatter: its block
    /// for rank 0, which is the same for all receivers.
    fn blocks(&self) -> Vec<usize> {
        self.counts.iter().map(|row| row[0]).collect()
    }

    fn size(&self) -> usize {
        self.counts.len()
    }

    /// What this rank sends, by receiver.
    fn own(&self) -> &[usize] {
        &self.counts[self.rank.index()]
    }

    /// The number of a rank; `None` of one that is not among them.
    fn number(&self, rank: impl AsRank) -> Option<usize> {
        let own = |&at: &usize| at < self.size() && Rank::kept(rank).may_be(self.rank.beside(at));
        Some(rank.index()).filter(own)
    }
}

impl<W: World, S: State> Communicator<W, S> {
    /// Declares how many elements this rank sends to each rank, by rank, for
    /// [`all_to_all_v`](Self::all_to_all_v). All ranks call it; the host waits for them.
    ///
    /// # Errors
    /// [`Error::BadLength`]: not one count for each rank; [`Error::SplitsTooLong`]: more than a buffer can
    /// hold; as [`barrier`](Self::barrier).
    #[track_caller]
    pub fn splits(&self, sends: &[usize]) -> Result<Splits>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let counts = self.gather_as("splits", &sends.to_vec(), site)?;
        let size = self.size();
        match counts.iter().find(|row| row.len() != size) {
            Some(row) => Err(wrong("splits", "counts", DType::U64, row.len(), size, site)),
            None => Splits::new(self.here().core, "splits", counts, site),
        }
    }

    /// Declares how long this rank's block is, for [`all_gather_v`](Self::all_gather_v) and
    /// [`reduce_scatter_v`](Self::reduce_scatter_v). All ranks call it; the host waits for them.
    ///
    /// # Errors
    /// [`Error::SplitsTooLong`]: more than a buffer can hold; as [`barrier`](Self::barrier).
    #[track_caller]
    pub fn blocks(&self, own: usize) -> Result<Splits>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let blocks = self.gather_as("blocks", &own, site)?;
        let size = self.size();
        let counts = blocks.iter().map(|&block| vec![block; size]).collect();
        Splits::new(self.here().core, "blocks", counts, site)
    }

    /// Sends consecutive blocks of `send` to the ranks, and receives theirs into consecutive blocks
    /// of `recv`, as long as `splits` says. Every rank calls it. The host does not wait. NCCL: a
    /// group of `ncclSend` and `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: `splits` of another communicator; a length that is not what they say; as [`group`](Self::group).
    #[track_caller]
    pub fn all_to_all_v<'e, A, B>(&'e mut self, send: A, recv: B, splits: &Splits) -> Result<()>
    where
        S: CanEnqueue,
        A: RecordRead<'e, W::Device>,
        B: RecordWrite<'e, W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let site = Site::caller();
        let (send, recv) = (send.recorded(), recv.recorded());
        let exact = Exact::new("all_to_all_v", send.dtype(), site)
            .made_by(self.here().core, splits)
            .same(recv.dtype())
            .and("send", send.len(), splits.send_len())
            .and("receive", recv.len(), splits.recv_len());
        self.uneven(exact, Refusals::Transfers)?;
        self.group(|g| {
            let (mut sent, mut received) = (0, 0);
            for peer in (0..splits.size()).map(|peer| splits.rank.beside(peer)) {
                let part = send.part(sent..sent + splits.sends_to(peer));
                g.transfer(Half::SendTo, part, peer, site)?;
                let part = recv.part(received..received + splits.recvs_from(peer));
                g.transfer(Half::RecvFrom, part, peer, site)?;
                sent += splits.sends_to(peer);
                received += splits.recvs_from(peer);
            }
            Ok(())
        })
    }

    /// Copies every rank's `send` into `recv` on every rank, in rank order, blocks as long as
    /// `blocks` says. Every rank calls it. The host does not wait. NCCL: a group of `ncclSend` and
    /// `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: `blocks` of another communicator; a length that is not what they say; as [`group`](Self::group).
    #[track_caller]
    pub fn all_gather_v<'e, A, B>(&'e mut self, send: A, recv: B, blocks: &Splits) -> Result<()>
    where
        S: CanEnqueue,
        A: RecordRead<'e, W::Device>,
        B: RecordWrite<'e, W::Device>,
        B::Elem: SameDtype<A::Elem>,
    {
        let site = Site::caller();
        let (send, recv) = (send.recorded(), recv.recorded());
        let lens = blocks.blocks();
        let exact = Exact::new("all_gather_v", send.dtype(), site)
            .made_by(self.here().core, blocks)
            .same(recv.dtype())
            .and("send", send.len(), lens[blocks.rank.index()])
            .and("receive", recv.len(), lens.iter().sum());
        self.uneven(exact, Refusals::Transfers)?;
        self.group(|g| {
            let mut start = 0;
            for (rank, &len) in lens.iter().enumerate() {
                g.transfer(Half::SendTo, send.part(0..send.len()), rank, site)?;
                g.transfer(Half::RecvFrom, recv.part(start..start + len), rank, site)?;
                start += len;
            }
            Ok(())
        })
    }

    /// Reduces the ranks' `send` elementwise and gives each rank its block, as long as `blocks`
    /// says. Every rank calls it. The host does not wait. NCCL: a group of one `ncclReduce` for each
    /// rank, 2.3.
    ///
    /// # Errors
    /// Refusals: `blocks` of another communicator; a length that is not what they say; as [`group`](Self::group).
    #[track_caller]
    pub fn reduce_scatter_v<T: Numeric, M>(
        &mut self,
        send: &Buffer<T, W::Device, M>,
        recv: &mut Buffer<T, W::Device, M>,
        op: impl ReduceOp<T, W> + Copy,
        blocks: &Splits,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let lens = blocks.blocks();
        let exact = Exact::new("reduce_scatter_v", T::DTYPE, site)
            .made_by(self.here().core, blocks)
            .and("receive", recv.len(), lens[blocks.rank.index()])
            .and("send", send.len(), lens.iter().sum());
        self.uneven(exact, Refusals::Collectives)?;
        let mut recv = Some(recv);
        self.group(|g| {
            let mut start = 0;
            for (rank, &len) in lens.iter().enumerate() {
                let own = if rank == blocks.rank.index() { recv.take() } else { None };
                let root = crate::Root::here_or_at(own, rank);
                g.reduce_into(send.slice(start..start + len), root, op)?;
                start += len;
            }
            Ok(())
        })
    }
}

/// What a call would have taken part in, should it be refused.
#[derive(Clone, Copy)]
enum Refusals {
    Transfers,
    Collectives,
}

impl<W: World, S: State> Communicator<W, S> {
    /// Refuses the whole call if a length is not what the splits say, and tells the others.
    fn uneven(&self, exact: Exact, of: Refusals) -> Result<()>
    where
        S: CanEnqueue,
    {
        let Some(error) = exact.wrong else { return Ok(()) };
        let refusals = (0..self.size()).map(Rank::at).flat_map(|rank| match of {
            Refusals::Transfers => vec![Refusal::SendTo(rank), Refusal::RecvFrom(rank)],
            Refusals::Collectives => vec![Refusal::Collective],
        });
        let refusals: Vec<Refusal> = refusals.collect();
        Err(self.here().core.refuse(&refusals, error))
    }
}

/// The first thing in a call that is not what the splits say.
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

    /// Which communicator declared the lengths.
    fn made_by<B: Backend>(mut self, core: &Core<B>, splits: &Splits) -> Self {
        self.wrong = core.resources.made(splits.maker, "declaration of lengths").err();
        self
    }

    /// The receive buffer's data type, where the compiler did not compare them.
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
            self.wrong = Some(wrong(self.operation, buffer, self.dtype, found, needed, self.site));
        }
        self
    }
}

#[cold]
fn wrong(
    operation: &'static str,
    buffer: &'static str,
    dtype: DType,
    found: usize,
    needed: usize,
    site: Site,
) -> Error {
    Error::BadLength(Box::new(BadLength {
        operation,
        buffer,
        dtype,
        found,
        needed,
        because: "the declared splits".to_owned(),
        site,
        collective: true,
    }))
}

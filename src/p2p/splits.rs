//! Lengths that the ranks declare together, so that each can check every later call alone.

use std::iter;
use std::ops::Range;

use crate::communicator::{CanEnqueue, Maker, State};
use crate::error::{BadSplits, Site, SplitsTooLong};
use crate::p2p::{BlockLen, block_len};
use crate::{AsRank, Communicator, Rank, Result, World};

/// How many elements each rank sends to each rank, known to all: for
/// [`all_to_all_v`](Communicator::all_to_all_v).
///
/// ```
/// use typed_nccl::{Host, Splits, spmd};
///
/// spmd::<Host>(3, |place| {
///     let comm = place.init()?;
///     let rank = comm.rank().index();
///     let splits: Splits = comm.splits(&[1, 0, rank])?; // 1 to rank 0, none to rank 1, ..
///     assert_eq!((splits.send_range(2), splits.sends_to(2)), (1..1 + rank, rank));
///     let x = comm.device().from_slice(&vec![rank as f32; splits.send_len()])?;
///     let mut y = comm.device().zeros::<f32>(splits.recv_len())?;
///     comm.all_to_all_v(&x, &mut y, &splits)?;
///     let y = y.to_vec()?;
///     for from in 0..3 {
///         let block = &y[splits.recv_range(from)];
///         assert!(block.len() == splits.recvs_from(from) && block.iter().all(|x| *x == from as f32));
///     }
///     if rank == 2 {
///         assert_eq!((splits.recv_range(1), splits.recv_range(2)), (0..1, 1..3));
///     }
///     comm.finish()
/// })
/// .expect("all ranks end well");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    rank: Rank,
    /// By sender, then by receiver.
    counts: Vec<Vec<usize>>,
    pub(super) maker: Maker,
}

/// How long each rank's block is, known to all of them: for
/// [`all_gather_v`](Communicator::all_gather_v),
/// [`reduce_scatter_v`](Communicator::reduce_scatter_v), [`gather_v`](Communicator::gather_v) and
/// [`scatter_v`](Communicator::scatter_v).
///
/// ```
/// use typed_nccl::{Blocks, Host, spmd};
///
/// spmd::<Host>(3, |place| {
///     let comm = place.init()?;
///     let (rank, mine) = (comm.rank().index(), comm.rank().index() + 1);
///     let blocks: Blocks = comm.blocks(mine)?; // all ranks know all lengths: 1, 2 and 3
///     let x = comm.device().from_slice(&vec![rank as f32; mine])?;
///     let mut all = comm.device().zeros::<f32>(6)?;
///     comm.all_gather_v(&x, &mut all, &blocks)?;
///     assert_eq!(all.to_vec()?, [0.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
///     comm.finish()
/// })
/// .expect("all ranks end well");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    rank: Rank,
    lens: Vec<usize>,
    pub(super) maker: Maker,
}

impl Splits {
    /// The declaration, if a buffer can hold everything that any rank sends or receives.
    fn fitting(self, operation: &'static str, site: Site) -> Result<Self> {
        for rank in 0..self.size() {
            let received = self.counts.iter().map(|row| row[rank]).collect();
            for (counts, receives) in [(self.counts[rank].clone(), false), (received, true)] {
                fits(operation, self.rank.beside(rank), receives, counts, site)?;
            }
        }
        Ok(self)
    }

    /// The way back: every rank sends to each as much as it receives from it here. Local.
    ///
    /// ```
    /// # use typed_nccl::{Buffer, Communicator, Device, Result, Splits, World};
    /// fn there_and_back<W: World>(
    ///     comm: &Communicator<W>,
    ///     tokens: &mut Buffer<f32, W::Device>,
    ///     splits: &Splits,
    /// ) -> Result<()> {
    ///     let mut at_experts = comm.device().zeros(splits.recv_len())?;
    ///     comm.all_to_all_v(&*tokens, &mut at_experts, splits)?;
    ///     comm.all_to_all_v(&at_experts, tokens, &splits.transposed())
    /// }
    /// ```
    #[must_use]
    pub fn transposed(&self) -> Self {
        let column = |to: usize| self.counts.iter().map(|row| row[to]).collect();
        Self { counts: (0..self.size()).map(column).collect(), ..*self }
    }

    /// Every length times `by`: lengths declared in rows become lengths in elements, for rows of
    /// `by` elements. Local.
    ///
    /// # Errors
    /// [`Error::SplitsTooLong`](crate::Error::SplitsTooLong).
    #[track_caller]
    pub fn scaled(&self, by: usize) -> Result<Self> {
        let scale = |row: &Vec<usize>| row.iter().map(|count| count.saturating_mul(by)).collect();
        let counts = self.counts.iter().map(scale).collect();
        Self { counts, ..*self }.fitting("scaled", Site::caller())
    }

    /// How many elements this rank sends to `to`.
    pub fn sends_to(&self, to: impl AsRank) -> usize {
        number(self.rank, self.size(), to).map_or(0, |to| self.own()[to])
    }

    /// How many elements this rank receives from `from`.
    pub fn recvs_from(&self, from: impl AsRank) -> usize {
        number(self.rank, self.size(), from).map_or(0, |from| self.counts[from][self.rank.index()])
    }

    /// The range of this rank's send buffer that goes to `to`; empty for a rank out of range.
    pub fn send_range(&self, to: impl AsRank) -> Range<usize> {
        number(self.rank, self.size(), to).map_or(0..0, |to| range(self.own().iter().copied(), to))
    }

    /// The range of this rank's receive buffer that comes from `from`; empty for a rank out of
    /// range.
    pub fn recv_range(&self, from: impl AsRank) -> Range<usize> {
        number(self.rank, self.size(), from).map_or(0..0, |from| range(self.received(), from))
    }

    /// How many elements this rank sends in all.
    pub fn send_len(&self) -> usize {
        self.own().iter().sum()
    }

    /// How many elements this rank receives in all.
    pub fn recv_len(&self) -> usize {
        self.received().sum()
    }

    /// By rank: how many elements this one sends there and receives from there.
    pub(super) fn both(&self) -> impl Iterator<Item = (usize, usize)> {
        self.own().iter().copied().zip(self.received())
    }

    fn size(&self) -> usize {
        self.counts.len()
    }

    /// How many elements this rank sends, by receiver.
    fn own(&self) -> &[usize] {
        &self.counts[self.rank.index()]
    }

    /// How many elements this rank receives, by sender.
    fn received(&self) -> impl Iterator<Item = usize> {
        self.counts.iter().map(|row| row[self.rank.index()])
    }
}

impl Blocks {
    fn fitting(self, operation: &'static str, site: Site) -> Result<Self> {
        fits(operation, self.rank, true, self.lens.clone(), site).map(|()| self)
    }

    /// Every length times `by`: lengths declared in rows become lengths in elements, for rows of
    /// `by` elements. Local.
    ///
    /// # Errors
    /// [`Error::SplitsTooLong`](crate::Error::SplitsTooLong).
    #[track_caller]
    pub fn scaled(&self, by: usize) -> Result<Self> {
        let lens = self.lens.iter().map(|len| len.saturating_mul(by)).collect();
        Self { lens, ..*self }.fitting("scaled", Site::caller())
    }

    /// How many elements `rank`'s block has; 0 for a rank out of range.
    pub fn len_at(&self, rank: impl AsRank) -> usize {
        self.range_at(rank).len()
    }

    /// The range of `rank`'s block among all blocks; empty for a rank out of range.
    pub fn range_at(&self, rank: impl AsRank) -> Range<usize> {
        number(self.rank, self.lens.len(), rank)
            .map_or(0..0, |rank| range(self.lens.iter().copied(), rank))
    }

    /// How many elements all blocks have.
    pub fn total(&self) -> usize {
        self.lens.iter().sum()
    }

    /// The range of this rank's block.
    pub(super) fn own(&self) -> Range<usize> {
        self.range_at(self.rank)
    }

    /// The range of each rank's block, by rank.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.lens.iter().scan(0, |start, len| {
            let range = *start..*start + len;
            *start = range.end;
            Some(range)
        })
    }
}

/// The number of a rank; `None` if it is out of range.
fn number(own: Rank, size: usize, rank: impl AsRank) -> Option<usize> {
    let is_one = |&at: &usize| at < size && Rank::kept(rank).may_be(own.beside(at));
    Some(rank.index()).filter(is_one)
}

/// The range of one of consecutive blocks of these lengths.
fn range(mut lens: impl Iterator<Item = usize>, at: usize) -> Range<usize> {
    let start = lens.by_ref().take(at).sum();
    start..start + lens.next().unwrap_or(0)
}

/// Refuses lengths that no buffer can hold.
fn fits(
    operation: &'static str,
    rank: Rank,
    receives: bool,
    counts: Vec<usize>,
    site: Site,
) -> Result<()> {
    let all = counts.iter().try_fold(0, |all: usize, &one| all.checked_add(one));
    if all.is_some_and(|all| isize::try_from(all).is_ok()) {
        return Ok(());
    }
    Err(SplitsTooLong { operation, rank, receives, counts, site }.into())
}

/// ## Blocks of different lengths
///
/// For `all_to_all_v` and its like.
impl<W: World, S: State> Communicator<W, S> {
    /// Declares how many elements this rank sends to each rank, by rank, for
    /// [`all_to_all_v`](Self::all_to_all_v). All ranks call it; the host waits for them. Counts are
    /// integers of any type.
    ///
    /// # Errors
    /// [`Error::BadBlockLen`](crate::Error::BadBlockLen): a count below 0;
    /// [`Error::BadSplits`](crate::Error::BadSplits): a rank gave too few counts or too many;
    /// [`Error::SplitsTooLong`](crate::Error::SplitsTooLong): more than a buffer can hold; as
    /// [`barrier`](Self::barrier).
    #[track_caller]
    pub fn splits<N: BlockLen>(&self, sends: &[N]) -> Result<Splits>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let sends = sends.iter().map(|&count| block_len("splits", count, site)).collect();
        self.splits_at(self.counted("splits", sends, site)?, site)
    }

    pub(crate) fn splits_at(&self, sends: Vec<usize>, site: Site) -> Result<Splits>
    where
        S: CanEnqueue,
    {
        let counts = self.gather_as("splits", &sends, site)?;
        let (own, size) = (self.rank(), self.size());
        let wrong = |rank: &usize| counts[*rank].len() != size;
        if let Some(rank) = iter::once(own.index()).chain(0..size).find(wrong) {
            let (found, rank) = (counts[rank].len(), own.beside(rank));
            return Err(BadSplits { rank, found, size, site }.into());
        }
        let maker = self.here().core.resources.maker();
        Splits { rank: self.rank(), counts, maker }.fitting("splits", site)
    }

    /// Declares how long this rank's block is, for [`all_gather_v`](Self::all_gather_v),
    /// [`reduce_scatter_v`](Self::reduce_scatter_v), [`gather_v`](Self::gather_v) and
    /// [`scatter_v`](Self::scatter_v). All ranks call it; the host waits for them.
    ///
    /// # Errors
    /// [`Error::BadBlockLen`](crate::Error::BadBlockLen): a length below 0;
    /// [`Error::SplitsTooLong`](crate::Error::SplitsTooLong): more than a buffer can hold; as
    /// [`barrier`](Self::barrier).
    #[track_caller]
    pub fn blocks(&self, own: impl BlockLen) -> Result<Blocks>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        self.blocks_at(self.counted("blocks", block_len("blocks", own, site), site)?, site)
    }

    pub(crate) fn blocks_at(&self, own: usize, site: Site) -> Result<Blocks>
    where
        S: CanEnqueue,
    {
        let lens = self.gather_as("blocks", &own, site)?;
        let maker = self.here().core.resources.maker();
        Blocks { rank: self.rank(), lens, maker }.fitting("blocks", site)
    }

    /// The lengths, or their refusal, which the other ranks are told.
    fn counted<T>(&self, operation: &'static str, lens: Result<T>, site: Site) -> Result<T>
    where
        S: CanEnqueue,
    {
        if lens.is_err() {
            let core = self.here().core;
            core.may_call(operation, site)?;
            core.control()?.refuse("a declaration of lengths of which one is below 0", site);
        }
        lens
    }
}

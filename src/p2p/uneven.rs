//! Collectives whose blocks differ in length, made of transfers.
//!
//! The lengths are declared once, by all ranks together ([`Communicator::splits`]); every later call
//! with them is checked against the whole matrix on this rank, without talking to the others.

use std::marker::PhantomData;
use std::panic::Location;

use crate::backend::Refusal;
use crate::communicator::{CanEnqueue, State};
use crate::error::{BadLength, Error, Site};
use crate::memory::SameDtype;
use crate::{
    Buffer, Communicator, Element, Numeric, Rank, ReduceOp, Result, Slice, SliceMut, World,
};

/// How many elements each rank sends to each rank, known to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splits {
    rank: usize,
    /// By sender, then by receiver.
    counts: Vec<Vec<usize>>,
}

impl Splits {
    /// How many elements this rank sends to `to`.
    pub fn sends_to(&self, to: Rank) -> usize {
        self.counts[self.rank].get(to.index()).copied().unwrap_or(0)
    }

    /// How many elements this rank receives from `from`.
    pub fn recvs_from(&self, from: Rank) -> usize {
        self.counts.get(from.index()).map_or(0, |row| row[self.rank])
    }

    /// How many elements this rank sends in all.
    pub fn send_len(&self) -> usize {
        self.counts[self.rank].iter().sum()
    }

    /// How many elements this rank receives in all.
    pub fn recv_len(&self) -> usize {
        self.counts.iter().map(|row| row[self.rank]).sum()
    }

    /// How many elements each rank contributes to a gather or takes from a scatter: its block
    /// for rank 0, which is the same for all receivers.
    fn blocks(&self) -> Vec<usize> {
        self.counts.iter().map(|row| row[0]).collect()
    }

    fn size(&self) -> usize {
        self.counts.len()
    }
}

impl<W: World, S: State> Communicator<W, S> {
    /// Declares how many elements this rank sends to each rank, by rank, for
    /// [`all_to_all_v`](Self::all_to_all_v). All ranks call it; the host waits for them.
    ///
    /// # Errors
    /// [`Error::BadLength`]: not one count for each rank; as [`barrier`](Self::barrier).
    #[track_caller]
    pub fn splits(&self, sends: &[usize]) -> Result<Splits>
    where
        S: CanEnqueue,
    {
        let site = Location::caller();
        let counts = self.gather_values(&sends.to_vec())?;
        let size = self.size();
        match counts.iter().find(|row| row.len() != size) {
            Some(row) => Err(wrong::<u64>("splits", "counts", row.len(), size, site)),
            None => Ok(Splits { rank: self.rank().index(), counts }),
        }
    }

    /// Declares how long this rank's block is, for [`all_gather_v`](Self::all_gather_v) and
    /// [`reduce_scatter_v`](Self::reduce_scatter_v). All ranks call it; the host waits for them.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    #[track_caller]
    pub fn blocks(&self, own: usize) -> Result<Splits>
    where
        S: CanEnqueue,
    {
        let blocks = self.gather_values(&own)?;
        let size = self.size();
        let counts = blocks.iter().map(|&block| vec![block; size]).collect();
        Ok(Splits { rank: self.rank().index(), counts })
    }

    /// Sends consecutive blocks of `send` to the ranks, and receives theirs into consecutive blocks
    /// of `recv`, as long as `splits` says. Every rank calls it. The host does not wait. NCCL: a
    /// group of `ncclSend` and `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: a length that is not what `splits` says; as [`group`](Self::group).
    #[track_caller]
    pub fn all_to_all_v<'e, T: Element, U: Element + SameDtype<T>>(
        &'e mut self,
        send: impl Into<Slice<'e, T, W::Device>>,
        recv: impl Into<SliceMut<'e, U, W::Device>>,
        splits: &Splits,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        let site = Location::caller();
        let (send, recv) = (send.into(), recv.into());
        let exact = Exact::<T>::new("all_to_all_v", site)
            .and("send", send.len(), splits.send_len())
            .and("receive", recv.len(), splits.recv_len());
        self.uneven(exact, Refusals::Transfers)?;
        self.group(|g| {
            let mut start = 0;
            for to in (0..splits.size()).map(Rank::at) {
                let end = start + splits.sends_to(to);
                g.send(send.slice(start..end), to)?;
                start = end;
            }
            let mut rest = recv;
            for from in (0..splits.size()).map(Rank::at) {
                let (block, after) = rest.split_at_mut(splits.recvs_from(from));
                g.recv(block, from)?;
                rest = after;
            }
            Ok(())
        })
    }

    /// Copies every rank's `send` into `recv` on every rank, in rank order, blocks as long as
    /// `blocks` says. Every rank calls it. The host does not wait. NCCL: a group of `ncclSend` and
    /// `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// Refusals: a length that is not what `blocks` says; as [`group`](Self::group).
    #[track_caller]
    pub fn all_gather_v<'e, T: Element, U: Element + SameDtype<T>>(
        &'e mut self,
        send: impl Into<Slice<'e, T, W::Device>>,
        recv: impl Into<SliceMut<'e, U, W::Device>>,
        blocks: &Splits,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        let site = Location::caller();
        let (send, recv) = (send.into(), recv.into());
        let lens = blocks.blocks();
        let exact = Exact::<T>::new("all_gather_v", site)
            .and("send", send.len(), lens[blocks.rank])
            .and("receive", recv.len(), lens.iter().sum());
        self.uneven(exact, Refusals::Transfers)?;
        self.group(|g| {
            let mut rest = recv;
            for (rank, &len) in lens.iter().enumerate() {
                g.send(send, rank)?;
                let (block, after) = rest.split_at_mut(len);
                g.recv(block, rank)?;
                rest = after;
            }
            Ok(())
        })
    }

    /// Reduces the ranks' `send` elementwise and gives each rank its block, as long as `blocks`
    /// says. Every rank calls it. The host does not wait. NCCL: a group of one `ncclReduce` for each
    /// rank, 2.3.
    ///
    /// # Errors
    /// Refusals: a length that is not what `blocks` says; as [`group`](Self::group).
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
        let site = Location::caller();
        let lens = blocks.blocks();
        let exact = Exact::<T>::new("reduce_scatter_v", site)
            .and("receive", recv.len(), lens[blocks.rank])
            .and("send", send.len(), lens.iter().sum());
        self.uneven(exact, Refusals::Collectives)?;
        let mut recv = Some(recv);
        self.group(|g| {
            let mut start = 0;
            for (rank, &len) in lens.iter().enumerate() {
                let own = if rank == blocks.rank { recv.take() } else { None };
                let root = crate::Root::here_or_at(own.map(SliceMut::from), rank);
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
    fn uneven<T: Element>(&self, exact: Exact<T>, of: Refusals) -> Result<()>
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

/// The first length of a call that is not what the splits say.
struct Exact<T> {
    operation: &'static str,
    site: Site,
    wrong: Option<Error>,
    element: PhantomData<fn() -> T>,
}

impl<T: Element> Exact<T> {
    fn new(operation: &'static str, site: Site) -> Self {
        Self { operation, site, wrong: None, element: PhantomData }
    }

    fn and(mut self, buffer: &'static str, found: usize, needed: usize) -> Self {
        if found != needed && self.wrong.is_none() {
            self.wrong = Some(wrong::<T>(self.operation, buffer, found, needed, self.site));
        }
        self
    }
}

#[cold]
fn wrong<T: Element>(
    operation: &'static str,
    buffer: &'static str,
    found: usize,
    needed: usize,
    site: Site,
) -> Error {
    Error::BadLength(Box::new(BadLength {
        operation,
        buffer,
        dtype: T::DTYPE,
        found,
        needed,
        because: "the declared splits".to_owned(),
        site,
        collective: true,
    }))
}

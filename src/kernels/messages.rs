//! Messages in one kernel: small all-to-alls, and exchanges with neighbours.

use std::sync::Arc;

use super::call::{Launch, start};
use super::{Back, Issues, Kernels, choice};
use crate::backend::{
    Backend, Collective, Half, KernelWork, MOST_PIECES, NOBODY, Op, Piece, Refusal, Span, Transfer,
};
use crate::collectives::Draft;
use crate::communicator::On;
use crate::error::{BadLength, CollectiveName, Error, Operation, SelfTransfer, Site};
use crate::memory::{Allocation, Holds, Recorded};
use crate::{DType, Rank, RecordRead, RecordWrite, Result, World, Writable};

impl<W: World> Kernels<W> {
    /// Sends block `r` of `send` to rank `r` and receives that rank's block into place `r` of
    /// `recv`, as [`all_to_all`](crate::Communicator::all_to_all) of a communicator does. Every
    /// rank calls it; both buffers have one block of equal length for each rank. The host does not
    /// wait. Beyond 512 KiB, and of plain types, it is NCCL's `ncclAlltoAll`.
    ///
    /// # Errors
    /// Those of the communicator's `all_to_all`; kernels of another communicator; a poisoned
    /// communicator.
    #[track_caller]
    pub fn all_to_all<'a, A, B, E>(&self, on: &impl Issues<W>, send: A, recv: &mut B) -> Result<()>
    where
        A: RecordRead<'a, W::Device, Elem = E>,
        B: Writable<W::Device> + Holds<E> + ?Sized,
    {
        let (on, send) = (on.on(), send.recorded());
        let draft = Draft::new(on.core, send.dtype(), Site::caller());
        let draft = draft.against(Some(recv.dtype()));
        let op = self.of(on.core).and_then(|()| {
            let sides = (Some(send.span()), Some(recv.span()));
            draft.collective(CollectiveName::AllToAll, sides, None, None::<Rank>)
        });
        let Ok(Op::Collective(Collective { call, send: Some(send), recv: Some(recv), .. })) = &op
        else {
            return on.run(Refusal::Collective, op);
        };
        let (size, rank, block) = (on.core.size, on.core.rank.index(), call.bytes());
        let is_small = choice::moves(call.dtype) && choice::messages(block * size);
        if !self.are_kernels || !is_small {
            return on.run(Refusal::Collective, op);
        }
        // Every rank's k-th piece travels k ranks ahead.
        let pieces: Vec<Piece> = (0..size)
            .map(|shift| {
                let (to, from) = ((rank + shift) % size, (rank + size - shift) % size);
                Piece {
                    source: start(send).wrapping_byte_add(to * block),
                    target: start(recv).wrapping_byte_add(from * block),
                    count: call.count,
                    to: to as u16,
                    from: from as u16,
                }
            })
            .collect();
        let launch = Launch {
            call: *call,
            work: KernelWork::Messages,
            pieces: &pieces,
            uses: &[(send.allocation(), false), (recv.allocation(), true)],
            refusals: &[Refusal::Collective],
        };
        on.core.launch(on.stream, &launch)
    }

    /// Begins an exchange: several messages in one kernel. Add its legs, then
    /// [`run`](Exchange::run) it.
    ///
    /// ```
    /// use typed_nccl::{Communicator, Device, Result, World, launch};
    ///
    /// // Each rank has a row of cells, with one of each neighbour's at its ends.
    /// fn body<W: World>(comm: Communicator<W>) -> Result<()> {
    ///     let kernels = comm.kernels()?;
    ///     let (rank, last) = (comm.rank().index(), comm.size() - 1);
    ///     let cells = comm.device().from_slice(&[rank as f32; 8])?;
    ///     let mut low = comm.device().from_slice(&[-1.0_f32])?;
    ///     let mut high = comm.device().from_slice(&[-1.0_f32])?;
    ///     // Nobody is beyond the ends.
    ///     let before = (rank > 0).then(|| comm.ring(-1));
    ///     let after = (rank < last).then(|| comm.ring(1));
    ///     kernels
    ///         .exchange(&comm)
    ///         .leg(cells.slice(7..8), after, &mut low, before)
    ///         .leg(cells.slice(0..1), before, &mut high, after)
    ///         .run()?;
    ///     assert_eq!(low.to_vec()?[0], rank as f32 - 1.0);
    ///     let beyond = if rank < last { rank as f32 + 1.0 } else { -1.0 };
    ///     assert_eq!(high.to_vec()?[0], beyond);
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     launch!(body)
    /// }
    /// ```
    #[track_caller]
    pub fn exchange<'e>(&'e self, on: &'e impl Issues<W>) -> Exchange<'e, W> {
        let on = on.on();
        let failed = self.of(on.core).err();
        let (legs, refusals) = (Vec::new(), Vec::new());
        Exchange { kernels: self, on, legs, refusals, failed, site: Site::caller() }
    }
}

/// Messages that are sent and received together. Begin one with [`Kernels::exchange`].
///
/// See the example of [`Kernels::exchange`].
#[must_use = "nothing is sent before `run`"]
pub struct Exchange<'e, W: World> {
    kernels: &'e Kernels<W>,
    on: On<'e, W>,
    legs: Vec<Leg<'e, Back<W>>>,
    /// What other ranks are told of if it is refused, of legs at fault too.
    refusals: Vec<Refusal>,
    failed: Option<Error>,
    site: Site,
}

/// A message that this rank sends, and one that it receives.
struct Leg<'e, B: Backend> {
    send: Span<'e, B>,
    recv: Span<'e, B>,
    dtype: DType,
    to: Option<Rank>,
    from: Option<Rank>,
}

impl<'e, W: World> Exchange<'e, W> {
    /// Sends `send` to one rank and receives as much from another into `recv`; with `None` that
    /// side is left alone. The k-th leg corresponds on all ranks: it has the same length and type,
    /// and each rank that is sent something receives it in that leg, also from itself. Where ranks
    /// differ, the error names the leg.
    #[track_caller]
    pub fn leg<A, B, E>(
        mut self,
        send: A,
        to: impl Into<Option<Rank>>,
        recv: B,
        from: impl Into<Option<Rank>>,
    ) -> Self
    where
        A: RecordRead<'e, W::Device, Elem = E>,
        B: RecordWrite<'e, W::Device> + Holds<E>,
    {
        let (send, recv) = (send.recorded(), recv.recorded());
        let (to, from) = (to.into(), from.into());
        self.refusals.extend(self.others(to, from));
        match self.checked(&send, &recv, (to, from), Site::caller()) {
            Ok(leg) => self.legs.push(leg),
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
        self
    }

    /// Enqueues the exchange. Every rank runs it; the host does not wait. More than 512 KiB or 96
    /// legs, and plain types, are a group of NCCL transfers.
    ///
    /// # Errors
    /// Refusals: views past their buffers, lengths that differ, ranks outside the communicator, one
    /// half of a transfer of this rank with itself; kernels of another communicator; a poisoned
    /// communicator.
    pub fn run(self) -> Result<()> {
        let Self { kernels, on, legs, refusals, failed, site } = self;
        if let Some(error) = failed {
            return Err(on.core.refuse(&refusals, error));
        }
        let bytes = legs.iter().map(|leg| leg.send.len() * leg.dtype.size()).sum();
        let one_type = legs.windows(2).all(|two| two[0].dtype.size() == two[1].dtype.size());
        let are_moved = legs.iter().all(|leg| choice::moves(leg.dtype));
        let few = legs.len() <= MOST_PIECES && one_type && are_moved;
        match legs.first() {
            None => Ok(()),
            Some(first) if kernels.are_kernels && few && choice::messages(bytes) => {
                let pieces: Vec<Piece> = legs.iter().map(Leg::piece).collect();
                let uses: Vec<_> = legs.iter().flat_map(Leg::uses).collect();
                let draft = Draft::new(on.core, first.dtype, site);
                let call = draft.call(Operation::SendTo, 0);
                let (work, pieces, uses) = (KernelWork::Messages, &*pieces, &*uses);
                let launch = Launch { call, work, pieces, uses, refusals: &refusals };
                on.core.launch(on.stream, &launch)
            }
            // The kernel pairs messages leg by leg.
            Some(_) => {
                for (at, leg) in legs.iter().enumerate() {
                    if let Err(error) = leg.issue(on, site) {
                        let later: Vec<_> = legs[at + 1..].iter().flat_map(Leg::halves).collect();
                        return Err(on.core.refuse(&later, error));
                    }
                }
                Ok(())
            }
        }
    }

    /// The halves of a leg that other ranks, or this one, wait for.
    fn others(&self, to: Option<Rank>, from: Option<Rank>) -> Vec<Refusal> {
        let core = self.on.core;
        let number = |rank: Option<Rank>| rank.and_then(|rank| core.number(rank)).map(Rank::at);
        let (own, to, from) = (Some(core.rank), number(to), number(from));
        // Half a transfer of this rank with itself meets nothing.
        let is_half = (to == own) != (from == own);
        let met = |rank: Option<Rank>| rank.filter(|_| !(is_half && rank == own));
        let halves = [met(to).map(Refusal::SendTo), met(from).map(Refusal::RecvFrom)];
        halves.into_iter().flatten().collect()
    }

    fn checked(
        &self,
        send: &Recorded<'e, Back<W>>,
        recv: &Recorded<'e, Back<W>>,
        (to, from): (Option<Rank>, Option<Rank>),
        site: Site,
    ) -> Result<Leg<'e, Back<W>>> {
        let core = self.on.core;
        let draft = Draft::new(core, send.dtype(), site).against(Some(recv.dtype()));
        let dtype = send.dtype();
        let (send, recv) = (draft.view(send.span())?, draft.view(recv.span())?);
        if send.len() != recv.len() {
            let (lengths, because) = ((recv.len(), send.len()), "the leg's other side's elements");
            let bad = BadLength::new("exchange", "receive", dtype, lengths, because, site);
            return Err(BadLength { collective: true, ..bad }.into());
        }
        let number = |rank: Option<Rank>| match rank {
            None => Ok(None),
            Some(rank) => match core.number(rank) {
                Some(number) => Ok(Some(Rank::at(number))),
                None => Err(core.no_rank("exchange", rank, true, site)),
            },
        };
        let (to, from) = (number(to)?, number(from)?);
        let own = Some(core.rank);
        if (to == own) != (from == own) {
            let is_sent = to == own;
            let len = vec![send.len()];
            let (sends, recvs) = if is_sent { (len, Vec::new()) } else { (Vec::new(), len) };
            let rank = core.rank;
            return Err(SelfTransfer { rank, sends, recvs, site }.into());
        }
        Ok(Leg { send, recv, dtype, to, from })
    }
}

impl<B: Backend> Leg<'_, B> {
    fn piece(&self) -> Piece {
        let number = |rank: Option<Rank>| rank.map_or(NOBODY, |rank| rank.index() as u16);
        Piece {
            source: start(&self.send),
            target: start(&self.recv),
            count: self.send.len(),
            to: number(self.to),
            from: number(self.from),
        }
    }

    /// What the other ranks wait for.
    fn halves(&self) -> impl Iterator<Item = Refusal> + use<B> {
        let halves = [self.to.map(Refusal::SendTo), self.from.map(Refusal::RecvFrom)];
        halves.into_iter().flatten()
    }

    fn uses(&self) -> impl Iterator<Item = (&Arc<Allocation<B>>, bool)> {
        let read = self.to.map(|_| (self.send.allocation(), false));
        let written = self.from.map(|_| (self.recv.allocation(), true));
        read.into_iter().chain(written)
    }

    /// Issues the leg as transfers.
    fn issue<W: World<Device: crate::Device<Backend = B>>>(
        &self,
        on: On<'_, W>,
        site: Site,
    ) -> Result<()> {
        let one = |half: Half, peer: Option<Rank>, span| {
            let peer = peer?;
            let mut call =
                Draft::new(on.core, self.dtype, site).call(half.operation(), self.send.len());
            call.peer = Some(peer);
            Some(Op::Transfer(Transfer { half, call, peer, span }))
        };
        let send = one(Half::SendTo, self.to, self.send);
        let recv = one(Half::RecvFrom, self.from, self.recv);
        let mut ops: Vec<_> = send.into_iter().chain(recv).collect();
        let refusals: Vec<_> = self.halves().collect();
        if ops.is_empty() {
            return Ok(());
        }
        on.issue(&mut ops, &refusals)
    }
}

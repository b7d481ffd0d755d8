//! Point to point: send and receive.
//!
//! The k-th send from one rank to another meets the k-th receive there; there are no tags or
//! wildcards, and both sides give one count and one data type. A send waits on its stream for its
//! receive, so two ranks that exchange must group their halves.

mod block_len;
mod splits;
mod uneven;

pub use block_len::BlockLen;
pub(crate) use block_len::block_len;
pub use splits::{Blocks, Splits};

use crate::backend::{Backend, Half, Op, Refusal, Span, Transfer};
use crate::collectives::{Draft, View};
use crate::communicator::{CanEnqueue, Core, On, PerCall, State, WithoutConfig};
use crate::error::Site;
use crate::group::Group;
use crate::memory::Recorded;
use crate::{AsRank, Communicator, Device, Rank, RecordRead, RecordWrite, Result, World, Writable};

impl<'c, B: Backend> Draft<'c, B> {
    pub(crate) fn transfer<'a>(
        self,
        half: Half,
        view: View<'a, B>,
        peer: impl AsRank,
    ) -> Result<Op<'a, B>> {
        let span: Span<'a, B> = self.view(view)?;
        let peer = self.rank(half.operation(), peer)?;
        let mut call = self.call(half.operation(), span.len());
        call.peer = Some(peer);
        Ok(Op::Transfer(Transfer { half, call, peer, span }))
    }
}

/// The refusal that the peer is told of if a transfer fails; `None` without such a rank.
#[inline]
pub(crate) fn refusals<B: Backend>(
    half: Half,
    peer: impl AsRank,
    core: &Core<B>,
) -> Option<Refusal> {
    let peer = core.number(peer).map(Rank::at)?;
    Some(half.refusal(peer))
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::send`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn send<'a, A: RecordRead<'a, W::Device>>(&self, buf: A, to: impl AsRank) -> Result<()>
    where
        C: WithoutConfig,
    {
        let buf = buf.recorded();
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        self.run_transfer(Half::SendTo, draft.transfer(Half::SendTo, buf.span(), to), to)
    }

    /// See [`Communicator::recv`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    #[track_caller]
    pub fn recv<B: Writable<W::Device> + ?Sized>(
        &self,
        buf: &mut B,
        from: impl AsRank,
    ) -> Result<()>
    where
        C: WithoutConfig,
    {
        let draft = Draft::new(self.core, buf.dtype(), Site::caller());
        self.run_transfer(Half::RecvFrom, draft.transfer(Half::RecvFrom, buf.span(), from), from)
    }

    #[inline]
    fn run_transfer(
        &self,
        half: Half,
        draft: Result<Op<'_, <W::Device as Device>::Backend>>,
        peer: impl AsRank,
    ) -> Result<()> {
        let refusal = refusals(half, peer, self.core);
        let checked = draft.and_then(|op| {
            self.core.self_transfers(std::slice::from_ref(&op))?;
            Ok(op)
        });
        match (checked, &refusal) {
            (Ok(op), Some(refusal)) => self.run(*refusal, Ok(op)),
            (Err(error), _) => Err(self.core.refuse(refusal.as_slice(), error)),
            (Ok(mut op), None) => self.issue(std::slice::from_mut(&mut op), &[]),
        }
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// Records a [`send`](Communicator::send) of `&buffer`, or of a view by value:
    /// `g.send(x.slice(0..4), right)`.
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn send<A: RecordRead<'e, W::Device>>(&mut self, buf: A, to: impl AsRank) -> Result<()>
    where
        C: WithoutConfig,
    {
        self.transfer(Half::SendTo, buf.recorded(), to, Site::caller())
    }

    /// Records a [`recv`](Communicator::recv) into `&mut buffer`, or into a view by value:
    /// `g.recv(y.slice_mut(4..8), left)`.
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn recv<B: RecordWrite<'e, W::Device>>(&mut self, buf: B, from: impl AsRank) -> Result<()>
    where
        C: WithoutConfig,
    {
        self.transfer(Half::RecvFrom, buf.recorded(), from, Site::caller())
    }

    /// Records one half of a transfer.
    pub(crate) fn transfer(
        &mut self,
        half: Half,
        buf: Recorded<'e, <W::Device as Device>::Backend>,
        peer: impl AsRank,
        site: Site,
    ) -> Result<()> {
        let op = Draft::new(self.on.core, buf.dtype(), site).transfer(half, buf.span(), peer);
        self.record(refusals(half, peer, self.on.core), op)
    }
}

/// # Point-to-point
///
/// Two ranks call them. A send waits on its stream for its receive, so put both directions into one
/// [group](Self::group). On GPUs, NCCL holds the caller of the first transfer with a peer until the
/// peer makes its half.
impl<W: World, S: State> Communicator<W, S> {
    /// Sends `buf`, `&x` or a view, to rank `to`, which receives as many elements of the same type.
    /// The host does not wait; the stream waits for the receive. NCCL: `ncclSend`, 2.7.
    ///
    /// # Errors
    /// Refusals: a rank out of range, this rank itself (that takes a group), a view past its
    /// buffer, memory of another device; a poisoned communicator.
    #[inline]
    #[track_caller]
    pub fn send<'a, A: RecordRead<'a, W::Device>>(&self, buf: A, to: impl AsRank) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().send(buf, to)
    }

    /// Receives into `buf` from rank `from`. The host does not wait; the stream waits for the send.
    /// NCCL: `ncclRecv`, 2.7.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    #[track_caller]
    pub fn recv<B: Writable<W::Device> + ?Sized>(
        &self,
        buf: &mut B,
        from: impl AsRank,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().recv(buf, from)
    }
}

//! Lanes: one rank of a clique, while its part is recorded.

use std::fmt;

use crate::backend::Half;
use crate::error::Site;
use crate::group::Group;
use crate::{AsRank, DeviceFamily, Rank, RecordRead, RecordWrite, Result, World};

/// One rank of a clique inside [`each`](super::Clique::each) or [`group`](super::Clique::group). Its
/// device type `'id` is its own: the views of another rank do not fit.
pub struct Lane<'g, 'id, 'e, W: World>
where
    W::Device: DeviceFamily,
{
    rank: Rank,
    size: usize,
    device: <W::Device as DeviceFamily>::Scoped<'id>,
    group: Option<&'g mut Group<'e, W>>,
}

/// A rank that has a thread to itself. No lane has.
#[diagnostic::on_unimplemented(
    message = "one rank of a clique cannot run a collective alone",
    label = "this thread drives every rank: the call would wait for the others for ever",
    note = "run it for all of them at once: `clique.all_reduce(&send, &mut recv, op)`, `clique.all_reduce_in_place(&mut buf, op)`"
)]
pub trait OneRankPerThread {
    #[doc(hidden)]
    fn never(&self) -> !;
}

impl<'g, 'id, 'e, W: World> Lane<'g, 'id, 'e, W>
where
    W::Device: DeviceFamily,
{
    pub(super) fn new(
        rank: Rank,
        size: usize,
        ordinal: u32,
        group: Option<&'g mut Group<'e, W>>,
    ) -> Self {
        Self { rank, size, device: W::Device::scoped(ordinal), group }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// This rank, as a number.
    pub fn index(&self) -> usize {
        self.rank.index()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// This rank's device.
    pub fn device(&self) -> &<W::Device as DeviceFamily>::Scoped<'id> {
        &self.device
    }

    /// The rank `offset` places further on the ring of ranks.
    pub fn ring(&self, offset: isize) -> Rank {
        self.rank.ring(offset, self.size)
    }

    /// Records a send; see [`Group::send`].
    ///
    /// # Errors
    /// [`Error::OutsideGroup`](crate::Error::OutsideGroup) in [`each`](super::Clique::each).
    #[track_caller]
    pub fn send<A>(&mut self, buf: A, to: impl AsRank) -> Result<()>
    where
        A: RecordRead<'e, <W::Device as DeviceFamily>::Scoped<'id>>,
    {
        let site = Site::caller();
        self.recording("send")?.transfer(Half::SendTo, buf.recorded(), to, site)
    }

    /// Records a receive; see [`Group::recv`].
    ///
    /// # Errors
    /// [`Error::OutsideGroup`](crate::Error::OutsideGroup) in [`each`](super::Clique::each).
    #[track_caller]
    pub fn recv<B>(&mut self, buf: B, from: impl AsRank) -> Result<()>
    where
        B: RecordWrite<'e, <W::Device as DeviceFamily>::Scoped<'id>>,
    {
        let site = Site::caller();
        self.recording("recv")?.transfer(Half::RecvFrom, buf.recorded(), from, site)
    }

    /// Does not exist for one rank of a clique: use
    /// [`Clique::all_reduce`](super::Clique::all_reduce).
    ///
    /// # Errors
    /// It cannot be called.
    pub fn all_reduce<A, B>(&mut self, _send: &A, _recv: &mut B, _op: impl Sized) -> Result<()>
    where
        Self: OneRankPerThread,
    {
        self.never()
    }

    /// Does not exist for one rank of a clique: use
    /// [`Clique::all_reduce_in_place`](super::Clique::all_reduce_in_place).
    ///
    /// # Errors
    /// It cannot be called.
    pub fn all_reduce_in_place<B>(&mut self, _buf: &mut B, _op: impl Sized) -> Result<()>
    where
        Self: OneRankPerThread,
    {
        self.never()
    }

    #[track_caller]
    fn recording(&mut self, operation: &'static str) -> Result<&mut Group<'e, W>> {
        let site = Site::caller();
        self.group.as_deref_mut().ok_or_else(|| {
            let outside = crate::error::OutsideGroup { operation, site };
            crate::Error::OutsideGroup(Box::new(outside))
        })
    }
}

impl<W: World> fmt::Debug for Lane<'_, '_, '_, W>
where
    W::Device: DeviceFamily,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane of rank {} of {} on {:?}", self.rank, self.size, self.device)
    }
}

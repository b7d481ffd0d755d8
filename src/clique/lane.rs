//! Lanes: one rank of a clique each, while its values are handed out.

use std::fmt;
use std::marker::PhantomData;

use crate::{AsRank, Device, DeviceFamily, Rank, Result, World};

/// One rank of a clique inside [`each`](super::Clique::each), where nothing is recorded. Its device
/// type `'id` is unique, so views of another rank do not fit.
///
/// ```
/// # use typed_nccl::{Clique, Host, Lane};
/// let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
/// let mut x = clique.alloc::<f32>(2)?;
/// clique.each(&mut x, |lane: Lane<'_, _>, mut x| x.copy_from(&[lane.index() as f32; 2]))?;
/// assert_eq!(clique.to_host(&x)?, [[0.0; 2], [1.0; 2]]);
/// # clique.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct Lane<'id, W: World>
where
    W::Device: DeviceFamily,
{
    rank: Rank,
    size: usize,
    device: <W::Device as DeviceFamily>::Scoped<'id>,
}

/// The world of one rank of a clique in one call of one closure; never written by hand. Only the
/// views and windows that were handed out for that rank belong to it.
///
/// ```
/// # use typed_nccl::{Clique, Group, Host, OfLane, Result, Signals};
/// /// A function for one rank of a group.
/// fn notify<'id>(lane: &mut Group<'_, OfLane<'id, Host<typed_nccl::AnyDevice>>>) -> Result<()> {
///     lane.signal(lane.ring(1))?;
///     lane.wait_signals(Signals::new().expect(lane.ring(-1)))
/// }
/// let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
/// let window = clique.window::<f32>(1)?; // signals come with the first one
/// clique.group(&window, |lane, _| notify(lane))?;
/// clique.wait()?;
/// # clique.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct OfLane<'id, W>(PhantomData<(fn(&'id ()) -> &'id (), fn() -> W)>);

impl<'id, W: World> World for OfLane<'id, W>
where
    W::Device: DeviceFamily,
{
    type Device = <W::Device as DeviceFamily>::Scoped<'id>;
    const NAME: &'static str = W::NAME;
}

/// Required by calls that need one thread per rank. No lane implements it.
#[diagnostic::on_unimplemented(
    message = "`clique.each` cannot make one rank communicate alone",
    label = "one thread drives all ranks here: a call on this rank alone would wait for the others forever",
    note = "for a collective, call it on the clique: `clique.all_reduce(&send, &mut recv, op)`",
    note = "for sends and receives, or different calls for each rank: `clique.group(args, |lane, part| ..)` records every rank's operations and issues them together"
)]
pub trait OneRankPerThread {
    #[doc(hidden)]
    fn never(&self) -> !;
}

impl<'id, W: World> Lane<'id, W>
where
    W::Device: DeviceFamily,
{
    pub(super) fn new(rank: Rank, size: usize, device: &W::Device) -> Self {
        Self { rank, size, device: W::Device::scoped(device.ordinal()) }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// This rank, as a number.
    pub fn index(&self) -> usize {
        self.rank.index()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// This rank's device.
    pub fn device(&self) -> &<W::Device as DeviceFamily>::Scoped<'id> {
        &self.device
    }

    /// The rank `offset` places ahead on the ring of ranks.
    pub fn ring(&self, offset: isize) -> Rank {
        self.rank.ring(offset, self.size)
    }

    /// Not available here: record it in [`Clique::group`](super::Clique::group).
    ///
    /// # Errors
    /// It cannot be called.
    pub fn send<A>(&self, _buf: A, _to: impl AsRank) -> Result<()>
    where
        Self: OneRankPerThread,
    {
        self.never()
    }

    /// Not available here: record it in [`Clique::group`](super::Clique::group).
    ///
    /// # Errors
    /// It cannot be called.
    pub fn recv<B>(&self, _buf: B, _from: impl AsRank) -> Result<()>
    where
        Self: OneRankPerThread,
    {
        self.never()
    }

    /// Not available here: use [`Clique::all_reduce`](super::Clique::all_reduce).
    ///
    /// # Errors
    /// It cannot be called.
    pub fn all_reduce<A, B>(&self, _send: A, _recv: B, _op: impl Sized) -> Result<()>
    where
        Self: OneRankPerThread,
    {
        self.never()
    }

    /// Not available here: use [`Clique::all_reduce_in_place`](super::Clique::all_reduce_in_place).
    ///
    /// # Errors
    /// It cannot be called.
    pub fn all_reduce_in_place<B>(&self, _buf: B, _op: impl Sized) -> Result<()>
    where
        Self: OneRankPerThread,
    {
        self.never()
    }
}

impl<W: World> fmt::Debug for Lane<'_, W>
where
    W::Device: DeviceFamily,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lane of rank {} of {} on {:?}", self.rank, self.size, self.device)
    }
}

//! A communicator in use: accessors, host waits and the choice of a stream.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

use super::lifecycle::Finish;
use super::{
    AbortHandle, AsConfigured, Back, CallConfig, CanEnqueue, Communicator, Core, HasAbortHandle,
    Standing, State,
};
use crate::error::{NoSuchRank, Site};
use crate::stream::StreamCore;
use crate::{Device, Mark, Rank, Result, Stream, World, wait};

/// What a live communicator holds.
#[doc(hidden)]
pub struct Live<W: World> {
    pub(crate) core: Core<<W::Device as Device>::Backend>,
    pub(crate) device: W::Device,
    pub(crate) stream: Stream<W::Device>,
    pub(super) finish: Cell<Finish>,
    world: PhantomData<fn() -> W>,
}

impl<W: World> Live<W> {
    pub(super) fn new(
        core: Core<<W::Device as Device>::Backend>,
        device: W::Device,
        stream: Stream<W::Device>,
    ) -> Self {
        core.note(&stream.core);
        let finish = Cell::new(Finish::Not);
        Self { core, device, stream, finish, world: PhantomData }
    }
}

/// A communicator together with the stream that its operations go to: `comm.on(&stream)`.
///
/// `C` records whether its collectives are [configured](Communicator::with).
///
/// ```
/// # use typed_nccl::{Host, On, Seat, Sum};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (side, mut x) = (comm.device().stream()?, comm.device().from_slice(&[1.0_f32; 4])?);
/// let on: On<'_, Host> = comm.on(&side);
/// on.all_reduce_in_place(&mut x, Sum)?;
/// comm.sync(&side)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct On<'c, W: World, C = AsConfigured> {
    pub(crate) core: &'c Core<<W::Device as Device>::Backend>,
    pub(crate) stream: &'c StreamCore<<W::Device as Device>::Backend>,
    world: PhantomData<fn() -> W>,
    pub(crate) config: C,
}

/// # Configuration of a call
impl<W: World, S: State> Communicator<W, S> {
    /// Configures the collectives called through the returned value. All ranks must call them with
    /// the same configuration. No effect on the host. NCCL: `ncclCollConfig_t`, 2.31; with an older
    /// one they are [`Error::Unsupported`](crate::Error::Unsupported).
    #[inline]
    pub fn with<'c>(&'c self, config: &'c CallConfig) -> On<'c, W, &'c CallConfig>
    where
        S: CanEnqueue,
    {
        self.here().with(config)
    }
}

impl<'c, W: World> On<'c, W> {
    #[inline]
    pub(crate) fn new(core: &'c Core<Back<W>>, stream: &'c StreamCore<Back<W>>) -> Self {
        Self { core, stream, world: PhantomData, config: AsConfigured }
    }

    /// Configures its collectives: see [`Communicator::with`].
    #[inline]
    pub fn with(self, config: &'c CallConfig) -> On<'c, W, &'c CallConfig> {
        let Self { core, stream, world, config: AsConfigured } = self;
        On { core, stream, world, config }
    }
}

impl<W: World, C: Copy> Clone for On<'_, W, C> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: World, C: Copy> Copy for On<'_, W, C> {}

/// # Streams, waits and asking
impl<W: World, S: State> Communicator<W, S> {
    /// The communicator on its own stream.
    #[inline]
    pub(crate) fn here(&self) -> On<'_, W>
    where
        S: CanEnqueue,
    {
        let live = S::live(&self.body);
        On::new(&live.core, &live.stream.core)
    }

    /// Enqueues its operations on `stream`. Operations of one communicator run one after the other,
    /// whatever their streams. A group is enqueued by [`group_on`](Self::group_on).
    #[inline]
    pub fn on<'c>(&'c self, stream: &'c Stream<W::Device>) -> On<'c, W>
    where
        S: CanEnqueue,
    {
        let live = S::live(&self.body);
        On::new(&live.core, &stream.core)
    }

    /// Waits on the host for everything enqueued on `stream`, within this communicator's deadline.
    /// For its own stream that is `comm.sync(comm.stream())`.
    ///
    /// # Errors
    /// An error of work on the stream, returned once; a lost peer; an abort; a passed deadline.
    #[track_caller]
    pub fn sync(&self, stream: &Stream<W::Device>) -> Result<()>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.health.check()?;
        stream.core.idle(core.within(), "sync", Site::caller())?;
        core.health.take_pending().map_or(Ok(()), Err)
    }

    /// Waits on the host for `mark`, within this communicator's deadline.
    ///
    /// # Errors
    /// An error of work on the mark's stream, returned once; a lost peer; an abort; a passed
    /// deadline.
    #[track_caller]
    pub fn wait(&self, mark: &Mark<W::Device>) -> Result<()>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.health.check()?;
        wait::until(&[mark.awaited()], Some(core.within()), "wait", Site::caller())?;
        core.health.take_pending().map_or(Ok(()), Err)
    }

    /// Records a mark on `stream`, for [`wait`](Self::wait).
    ///
    /// # Errors
    /// As [`Stream::mark`].
    #[track_caller]
    pub fn mark(&self, stream: &Stream<W::Device>) -> Result<Mark<W::Device>>
    where
        S: CanEnqueue,
    {
        stream.mark()
    }

    /// Rank `index`, checked once. It is refused after the communicator has renumbered its ranks.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`](crate::Error::NoSuchRank).
    #[track_caller]
    pub fn peer(&self, index: usize) -> Result<Rank> {
        let (operation, size, site) = ("peer", self.size(), Site::caller());
        if index < size {
            return Ok(self.rank().beside(index));
        }
        Err(NoSuchRank { operation, asked: index, size, site, collective: false }.into())
    }

    /// The rank `offset` places further around the ring of ranks: `comm.ring(-1)` is the left
    /// neighbour.
    pub fn ring(&self, offset: isize) -> Rank {
        self.rank().ring(offset, self.size())
    }

    /// The device.
    #[inline]
    pub fn device(&self) -> &W::Device
    where
        S: CanEnqueue,
    {
        &S::live(&self.body).device
    }

    /// The communicator's own stream.
    ///
    /// It is borrowed from the communicator, and a call that takes `&mut` of it, such as
    /// [`group`](Self::group), ends the borrow. Ask for the stream again behind such a call, in
    /// place of keeping it in a variable:
    ///
    /// ```
    /// # use typed_nccl::{Buffer, Communicator, Result, Sum, World};
    /// fn step<W: World>(
    ///     comm: &mut Communicator<W>,
    ///     x: &mut Buffer<f32, W::Device>,
    /// ) -> Result<()> {
    ///     comm.group(|g| g.all_reduce_in_place(&mut *x, Sum))?;
    ///     comm.sync(comm.stream())
    /// }
    /// ```
    #[inline]
    pub fn stream(&self) -> &Stream<W::Device>
    where
        S: CanEnqueue,
    {
        &S::live(&self.body).stream
    }

    /// Returns the communicator's state, or its first fault. Never blocks.
    ///
    /// For a healthy communicator the state lists the late ranks: those that have not made the
    /// calls that this rank has made, for at least a tenth of a second, or as long as
    /// [`CommConfig::stragglers`](crate::CommConfig::stragglers) says. Ranks are compared only by
    /// this call and while the host waits, so lateness is measured from the first comparison. A
    /// rank is late if it has not made a call; whether the work has completed does not matter.
    /// Ranks of other processes are asked at most ten times a second.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Result, World};
    /// fn who_is_late<W: World>(comm: &Communicator<W>) -> Result<()> {
    ///     for late in comm.health()?.late() {
    ///         let waited = late.since.elapsed();
    ///         println!("rank {} lacks {} operations for {waited:?}", late.rank, late.operations);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// The first fault.
    pub fn health(&self) -> Result<Standing>
    where
        S: CanEnqueue,
    {
        let health = &S::live(&self.body).core.health;
        health.look_who_is_late();
        health.check().map(|()| health.standing())
    }

    /// A handle that ends it, or its wait for other ranks, from another thread.
    pub fn abort_handle(&self) -> AbortHandle
    where
        S: HasAbortHandle,
    {
        AbortHandle::new(S::health(&self.body))
    }

    /// The longest a host wait that depends on other ranks may take, except through
    /// [`within`](Self::within).
    pub fn deadline(&self) -> Duration
    where
        S: CanEnqueue,
    {
        S::live(&self.body).core.config.deadline
    }
}

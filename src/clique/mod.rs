//! Cliques: one thread that drives several devices, whose number is known at run time.
//!
//! Every operation of a [`Clique`] involves every rank. No single member can be called: a thread
//! that waits inside one rank's call would never reach the next rank's. Operations that differ by
//! rank are recorded rank by rank ([`group`](Clique::group)) and issued together.
//!
//! Not in the types: the clique of a [`PerRank`]. It is compared on use.

mod collectives;
mod complete;
mod lane;
mod lanes;
mod management;
mod per_rank;
mod suspended;
mod views;

pub use collectives::ConfiguredClique;
pub use lane::{Lane, OfLane, OneRankPerThread};
pub use lanes::{Lanes, OfRank};
pub use per_rank::{IndexedByNumber, PerRank};
pub use suspended::SuspendedClique;
pub use views::{LaneOp, LaneWindow};

use complete::complete;
use management::at_once;
use suspended::with_handles;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::communicator::{Limit, On};
use crate::derived::debug;
use crate::error::{Deadline, Error, OtherClique, Site};
use crate::group::{CommOps, Group, Refuse, estimate_all, issue_all};
use crate::{
    Buffer, CommConfig, Communicator, Device, DeviceFamily, Element, Label, Rank, Readable, Result,
    Seat, Stream, World,
};

/// All ranks of a communicator, driven by one thread.
///
/// ```
/// # use typed_nccl::{Clique, Host, Result, Sum};
/// # fn main() -> Result<()> {
/// let clique = Clique::init(Host::open_each(&[0, 1])?)?;
/// let mut x = clique.per_rank(|rank, device| device.from_slice(&[rank.index() as f32]))?;
/// clique.all_reduce_in_place(&mut x, Sum)?;
/// assert_eq!(clique.to_host(&x)?, [[1.0], [1.0]]);
/// # clique.finish()
/// # }
/// ```
pub struct Clique<W: World> {
    members: Vec<Communicator<W>>,
    id: u64,
}

impl<D: Device> Clique<D> {
    /// One rank on each device, in their order. The host waits until all are set up. NCCL: a group
    /// of `ncclCommInitRankConfig`.
    ///
    /// # Errors
    /// [`Error::InitFailed`]: the same device twice.
    #[track_caller]
    pub fn init(devices: Vec<D>) -> Result<Self> {
        Self::connect(devices, CommConfig::default(), |seat, device, config| {
            Communicator::unnamed(seat, device, config)
        })
    }

    /// [`init`](Self::init) with a name and options:
    /// `Clique::init_as::<TensorParallel>(devices, config)`.
    ///
    /// # Errors
    /// As [`init`](Self::init).
    #[track_caller]
    pub fn init_as<L: Label>(devices: Vec<D>, config: CommConfig) -> Result<Clique<L::On<D>>> {
        Clique::connect(devices, config, |seat, device, config| {
            let builder = Communicator::builder().seat(seat).device(device);
            builder.label::<L>().config(config).build()
        })
    }
}

impl<W: World> Clique<W> {
    #[track_caller]
    fn connect(
        devices: Vec<W::Device>,
        config: CommConfig,
        build: impl Fn(Seat, W::Device, CommConfig) -> Communicator<W, crate::Uninit>,
    ) -> Result<Self> {
        let until = std::time::Instant::now().checked_add(config.deadline);
        let limit = Limit { time: config.deadline, of: Deadline::Configured };
        let seats = Seat::local(devices.len());
        // Start all of them before waiting for any.
        let mut starting: Vec<_> = seats
            .into_iter()
            .zip(devices)
            .map(|(seat, device)| build(seat, device, config.clone()).start())
            .collect::<Result<_>>()?;
        let far = std::time::Instant::now() + crate::wait::DEFAULT_DEADLINE;
        starting.iter_mut().try_for_each(|member| member.body.begin(limit, true))?;
        let members = starting
            .into_iter()
            .map(|member| member.ready().wait_until(until.unwrap_or(far)))
            .collect::<Result<_>>()?;
        Ok(Self::of(members))
    }

    /// All ranks of a communicator, in order.
    fn of(members: Vec<Communicator<W>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { members, id: NEXT.fetch_add(1, Relaxed) }
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// A zeroed buffer of `len` elements for each rank, each on its rank's device.
    ///
    /// # Errors
    /// The allocation fails.
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<PerRank<Buffer<T, W::Device>>> {
        let mut items = Vec::with_capacity(self.size());
        for member in &self.members {
            // Not in a closure, which would become the call site that an error reports.
            items.push(member.device().zeros(len)?);
        }
        Ok(PerRank::new(items, self.id))
    }

    /// One value per rank, made from its device.
    ///
    /// # Errors
    /// The first error of the closure.
    pub fn per_rank<X>(
        &self,
        mut make: impl FnMut(Rank, &W::Device) -> Result<X>,
    ) -> Result<PerRank<X>> {
        let items = self.members.iter().map(|member| make(member.rank(), member.device()));
        Ok(PerRank::new(items.collect::<Result<_>>()?, self.id))
    }

    /// Runs `step` for every rank, in rank order, with its part of `args`: `&per_rank` gives a
    /// shared view, `&mut per_rank` an exclusive one, a tuple several. The lane's device has a
    /// unique type, so views of one rank cannot reach another. Nothing is recorded here; see
    /// [`group`](Self::group).
    ///
    /// # Errors
    /// The first error of the closure; a [`PerRank`] of another clique.
    #[track_caller]
    pub fn each<'e, A: Lanes<'e, W::Device>>(
        &'e mut self,
        args: A,
        mut step: impl for<'id> FnMut(Lane<'id, W>, A::At<'id>) -> Result<()>,
    ) -> Result<()>
    where
        W::Device: DeviceFamily,
    {
        self.same_clique(args.clique(), Site::caller())?;
        let mut parts = args.parts();
        for member in &self.members {
            let Some(part) = A::next(&mut parts) else { break };
            step(Lane::new(member.rank(), member.size(), member.device()), part)?;
        }
        Ok(())
    }

    /// Records operations for every rank, in rank order, then issues all of them as one group. A
    /// lane is a [`Group`] in a world of its own ([`OfLane`]) and records everything that a group
    /// does, on its own rank's memory. If a closure fails or an operation is refused, nothing is
    /// issued on any rank.
    ///
    /// Since one thread drives all ranks, their operations have to complete by themselves: every
    /// rank records the same collectives, and both halves of every transfer. Anything less is
    /// refused.
    ///
    /// ```
    /// # use typed_nccl::{Clique, Host, Result};
    /// # fn main() -> Result<()> {
    /// let mut clique = Clique::init(Host::open_each(&[0, 2, 5])?)?;
    /// let mine = clique.alloc::<f32>(8)?;
    /// let mut from_left = clique.alloc::<f32>(8)?;
    /// clique.group((&mine, &mut from_left), |lane, (mine, from_left)| {
    ///     let (left, right) = (lane.ring(-1), lane.ring(1));
    ///     lane.send(mine, right)?;
    ///     lane.recv(from_left, left)
    /// })?;
    /// clique.wait()?;
    /// clique.finish()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error of the closure; the first refusal; [`Error::LanesDiffer`]; a [`PerRank`] of
    /// another clique.
    #[track_caller]
    pub fn group<'e, A: Lanes<'e, W::Device>>(
        &'e mut self,
        args: A,
        record: impl for<'g, 'id> FnMut(&'g mut Group<'e, OfLane<'id, W>>, A::At<'id>) -> Result<()>,
    ) -> Result<()>
    where
        W::Device: DeviceFamily,
    {
        let site = Site::caller();
        self.same_clique(args.clique(), site)?;
        let streams = self.members.iter().map(Communicator::stream);
        issue_all(recorded(&self.members, streams, args, record, site)?, Refuse::EveryRank)
    }

    /// [`group`](Self::group) on other streams, one for each rank:
    /// `clique.per_rank(|_, device| device.stream())?`.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    #[track_caller]
    pub fn group_on<'e, A: Lanes<'e, W::Device>>(
        &'e mut self,
        streams: &'e PerRank<Stream<W::Device>>,
        args: A,
        record: impl for<'g, 'id> FnMut(&'g mut Group<'e, OfLane<'id, W>>, A::At<'id>) -> Result<()>,
    ) -> Result<()>
    where
        W::Device: DeviceFamily,
    {
        let site = Site::caller();
        self.same_clique(Some(streams.clique()), site)?;
        self.same_clique(args.clique(), site)?;
        let streams = streams.items().iter();
        issue_all(recorded(&self.members, streams, args, record, site)?, Refuse::EveryRank)
    }

    /// Estimates the time that a [`group`](Self::group) of collectives would take; see
    /// [`Communicator::estimate`]. Nothing is issued. NCCL: `ncclGroupSimulateEnd`, 2.22.3.
    ///
    /// # Errors
    /// As [`Communicator::estimate`] and [`group`](Self::group).
    #[track_caller]
    pub fn estimate<'e, A: Lanes<'e, W::Device>>(
        &'e mut self,
        args: A,
        record: impl for<'g, 'id> FnMut(&'g mut Group<'e, OfLane<'id, W>>, A::At<'id>) -> Result<()>,
    ) -> Result<Duration>
    where
        W::Device: DeviceFamily,
    {
        let site = Site::caller();
        self.same_clique(args.clique(), site)?;
        let streams = self.members.iter().map(Communicator::stream);
        estimate_all(recorded(&self.members, streams, args, record, site)?)
    }

    /// Waits on the host for all work enqueued on every rank, within the deadline.
    ///
    /// # Errors
    /// A failure of an operation, reported once; an abort; a passed deadline.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        self.members.iter().try_for_each(|member| member.sync(member.stream()))
    }

    /// Every rank's elements of buffers or windows, by rank.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); a [`PerRank`] of another clique.
    #[track_caller]
    pub fn to_host<A: Readable<W::Device, Elem: Element>>(
        &self,
        values: &PerRank<A>,
    ) -> Result<Vec<Vec<A::Elem>>> {
        self.same_clique(Some(values.clique()), Site::caller())?;
        let mut all = Vec::with_capacity(self.size());
        for values in values.items() {
            all.push(values.view().to_vec()?);
        }
        Ok(all)
    }

    /// Ends all ranks normally. The host waits for their work, within the deadline.
    ///
    /// # Errors
    /// As [`Communicator::finish`].
    #[track_caller]
    pub fn finish(self) -> Result<()> {
        let site = Site::caller();
        for member in &self.members {
            member.body.announce(site)?;
        }
        // Each end waits for the others.
        let members = with_handles(self.members);
        at_once("finish", site, members, |member| member.finish_at(site)).map(drop)
    }

    fn same_clique(&self, id: Option<u64>, site: Site) -> Result<()> {
        match id {
            Some(id) if id != self.id => Err(Error::from(OtherClique { site })),
            _ => Ok(()),
        }
    }
}

debug!([W: World] Clique<W>, self => "Clique of {} ranks named {}", self.size(), W::NAME);

/// Has every rank's lane record its part, and checks that the whole can complete.
fn recorded<'e, W: World<Device: DeviceFamily>, A: Lanes<'e, W::Device>>(
    members: &'e [Communicator<W>],
    streams: impl Iterator<Item = &'e Stream<W::Device>>,
    args: A,
    mut record: impl for<'g, 'id> FnMut(&'g mut Group<'e, OfLane<'id, W>>, A::At<'id>) -> Result<()>,
    site: Site,
) -> Result<Vec<CommOps<'e, <W::Device as Device>::Backend>>> {
    let mut lanes = args.parts();
    let mut parts = Vec::with_capacity(members.len());
    for (member, stream) in members.iter().zip(streams) {
        let Some(part) = A::next(&mut lanes) else { break };
        let on = member.on(stream);
        let mut group = Group::new(On::new(on.core, on.stream));
        // On a failure no rank has called anything, so the ranks stay in step.
        record(&mut group, part)?;
        parts.push(group.into_part());
    }
    complete(&parts, site)?;
    Ok(parts)
}

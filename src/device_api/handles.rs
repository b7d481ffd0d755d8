//! The resources of a device communicator as kernels name them: by index and by handle.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::{DevComm, Listed, numbered};
use crate::backend::Placed;
use crate::derived::{copy, debug};
use crate::error::{Error, NotRequired, Site};
use crate::{Result, Team, World};

/// Barriers of the ranks that reach each other's memory.
///
/// See the example of [`Barrier`].
#[derive(Clone, Copy, Debug)]
pub struct Lsa;

/// Barriers of all ranks, through memory and over the network.
///
/// See the example of [`Barrier`].
#[derive(Clone, Copy, Debug)]
pub struct Hybrid;

/// Barriers of the ranks of a rail.
///
/// See the example of [`Barrier`].
#[derive(Clone, Copy, Debug)]
pub struct OfRail;

/// Barriers of all ranks, only over the network.
///
/// See the example of [`Barrier`].
#[derive(Clone, Copy, Debug)]
pub struct OfWorld;

/// A barrier of a device communicator, among the ranks that `K` selects.
///
/// ```
/// # use typed_nccl::{Barrier, DevComm, Host, Hybrid, Lsa};
/// # use typed_nccl::{OfRail, OfWorld, Requirements, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let api = comm.device_api()?;
/// let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(4))?;
/// let near: Barrier<'_, Host, Lsa> = dev.lsa_barrier(3)?;
/// assert_eq!(near.index(), 3); // a kernel's argument, beside `&dev`
/// # drop(near);
/// # comm.close_dev_comm(dev)?;
///
/// /// The others need the network, `Requirements::gin`.
/// fn far<'d>(
///     dev: &'d DevComm<Host>,
/// ) -> Result<(Barrier<'d, Host, Hybrid>, Barrier<'d, Host, OfWorld>)> {
///     let rail: Barrier<'d, Host, OfRail> = dev.rail_barrier(0)?;
///     Ok((dev.barrier(rail.index())?, dev.world_barrier(0)?))
/// }
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[must_use = "it is what a kernel waits at"]
pub struct Barrier<'d, W: World, K = Lsa> {
    dev: &'d DevComm<W>,
    index: u32,
    kind: PhantomData<fn() -> K>,
}

impl<'d, W: World, K> Barrier<'d, W, K> {
    pub(crate) fn dev(&self) -> &'d DevComm<W> {
        self.dev
    }

    /// Its index, which the kernel's barrier session takes.
    pub fn index(&self) -> u32 {
        self.index
    }
}

copy!([W: World, K] Barrier<'_, W, K>);

debug!([W: World, K] Barrier<'_, W, K>, self => "barrier {} of {:?}", self.index, self.dev);

/// A multicast mapping: a store to it reaches all ranks of its team. NCCL: `ncclMultimemHandle_t`.
///
/// See the example of [`DeviceRange`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Multimem {
    /// The start address. [`Communicator::multimem_ptr_in`](crate::Communicator::multimem_ptr_in)
    /// gives the address of a window inside it.
    pub base: NonNull<c_void>,
}

/// Barriers of a team. NCCL: `ncclLsaBarrierHandle_t`.
///
/// See the example of [`DeviceRange`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LsaBarriers {
    /// The handle of their memory (`bufHandle`).
    pub buffer: u32,
    /// The number of barriers.
    pub count: u32,
}

/// Barriers of a team over the network. NCCL: `ncclGinBarrierHandle_t`.
///
/// See the example of [`DeviceRange`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GinBarriers {
    /// Their first signal (`signal0`).
    pub signal: u32,
}

/// Slots for exchanges of small messages. NCCL: `ncclLLA2AHandle_t`.
///
/// See the example of [`DeviceRange`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AllToAll {
    /// The handle of its memory (`bufHandle`).
    pub buffer: u32,
    /// The number of slots (`nSlots`).
    pub slots: u32,
}

/// Signals and counters of one request.
///
/// ```
/// # use typed_nccl::{AllToAll, Communicator, Device, DeviceRange, Gin};
/// # use typed_nccl::{GinBarriers, LsaBarriers, Multimem, Requirements, Result};
/// fn handles<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
///     let (api, team) = (comm.device_api()?, comm.lsa_team()?);
///     let network = Gin::every_rank().range(8, 8).barriers_of(team, 2);
///     let need = Requirements::new().lsa_barriers_of(team, 2).multimem_of(team).all_to_all(4, 32);
///     let dev = comm.dev_comm(&api, &need.gin(network))?;
///     // Each is a number or an address that a kernel takes.
///     let near: LsaBarriers = dev.lsa_barriers_of(team)?;
///     let far: GinBarriers = dev.gin_barriers_of(team)?;
///     let store: Multimem = dev.multimem_of(team)?;
///     let slots: AllToAll = dev.all_to_all_of(0)?;
///     let signals: DeviceRange = dev.range(0)?;
///     println!("{near:?} {far:?} {store:?} {slots:?} {signals:?}");
///     comm.close_dev_comm(dev)
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DeviceRange {
    /// The first signal.
    pub signal: u32,
    /// The first counter.
    pub counter: u32,
}

impl<W: World> DevComm<W> {
    /// Barrier `index` of the ranks that reach each other's memory.
    ///
    /// # Errors
    /// [`Error::NotRequired`]: it was made with fewer.
    #[track_caller]
    pub fn lsa_barrier(&self, index: u32) -> Result<Barrier<'_, W>> {
        let index = self.shared.lsa_barrier(index, Site::caller())?;
        Ok(Barrier { dev: self, index, kind: PhantomData })
    }

    /// Barrier `index` of all ranks.
    ///
    /// # Errors
    /// As [`lsa_barrier`](Self::lsa_barrier).
    #[track_caller]
    pub fn barrier(&self, index: u32) -> Result<Barrier<'_, W, Hybrid>> {
        let has = self.requirements().gin.as_ref().map_or(0, |gin| gin.barriers);
        self.barrier_of("barrier of all ranks", "Gin::barriers", index, has, Site::caller())
    }

    /// Barrier `index` of the rail's ranks.
    ///
    /// # Errors
    /// As [`lsa_barrier`](Self::lsa_barrier).
    #[track_caller]
    pub fn rail_barrier(&self, index: u32) -> Result<Barrier<'_, W, OfRail>> {
        let has = self.requirements().gin.as_ref().map_or(0, |gin| gin.rail_barriers);
        self.barrier_of("rail barrier", "Gin::rail_barriers", index, has, Site::caller())
    }

    /// Barrier `index` of all ranks, only over the network.
    ///
    /// # Errors
    /// As [`lsa_barrier`](Self::lsa_barrier).
    #[track_caller]
    pub fn world_barrier(&self, index: u32) -> Result<Barrier<'_, W, OfWorld>> {
        let has = self.requirements().gin.as_ref().map_or(0, |gin| gin.world_barriers);
        self.barrier_of("world barrier", "Gin::world_barriers", index, has, Site::caller())
    }

    /// Checks that signal `index`, counted from number 0, was required, and returns its number.
    ///
    /// # Errors
    /// As [`lsa_barrier`](Self::lsa_barrier).
    #[track_caller]
    pub fn signal(&self, index: u32) -> Result<u32> {
        let has = self.requirements().gin.as_ref().map_or(0, |gin| gin.signals);
        numbered("signal", "Gin::signals", index, has, Site::caller())
    }

    /// Checks that counter `index`, counted from number 0, was required, and returns its number.
    ///
    /// # Errors
    /// As [`lsa_barrier`](Self::lsa_barrier).
    #[track_caller]
    pub fn counter(&self, index: u32) -> Result<u32> {
        let has = self.requirements().gin.as_ref().map_or(0, |gin| gin.counters);
        numbered("counter", "Gin::counters", index, has, Site::caller())
    }

    /// Multicast among the ranks that reach each other's memory.
    ///
    /// # Errors
    /// [`Error::NotRequired`]: it was made without it.
    #[track_caller]
    pub fn multimem(&self) -> Result<Multimem> {
        let found = self.shared.bytes.lsa_multimem.filter(|_| self.requirements().lsa_multimem);
        let multimem = found.map(|base| Multimem { base: base.cast() });
        multimem.ok_or_else(|| missing("multicast", "Requirements::lsa_multimem()", Site::caller()))
    }

    /// Multicast among the ranks of a team.
    ///
    /// # Errors
    /// As [`multimem`](Self::multimem).
    #[track_caller]
    pub fn multimem_of(&self, team: Team) -> Result<Multimem> {
        let site = Site::caller();
        let is_it = |listed: &Listed| matches!(listed, Listed::Multimem(of) if *of == team);
        match self.placed(is_it) {
            Some(Placed::Multimem(Some(base))) => Ok(Multimem { base: base.cast() }),
            _ => Err(missing("multicast of this team", "Requirements::multimem_of(team)", site)),
        }
    }

    /// Barriers of the ranks of a team that reach each other's memory.
    ///
    /// # Errors
    /// As [`multimem`](Self::multimem).
    #[track_caller]
    pub fn lsa_barriers_of(&self, team: Team) -> Result<LsaBarriers> {
        let site = Site::caller();
        let is_it = |listed: &Listed| matches!(listed, Listed::LsaBarriers(of, _) if *of == team);
        match self.placed(is_it) {
            Some(Placed::Memory { place, count }) => Ok(LsaBarriers { buffer: place, count }),
            _ => Err(missing(
                "a barrier of this team",
                "Requirements::lsa_barriers_of(team, n)",
                site,
            )),
        }
    }

    /// Barriers of the ranks of a team over the network.
    ///
    /// # Errors
    /// As [`multimem`](Self::multimem).
    #[track_caller]
    pub fn gin_barriers_of(&self, team: Team) -> Result<GinBarriers> {
        let site = Site::caller();
        let is_it = |listed: &Listed| matches!(listed, Listed::GinBarriers(of, _) if *of == team);
        match self.placed(is_it) {
            Some(Placed::Numbers { signal, .. }) => Ok(GinBarriers { signal }),
            _ => Err(missing("a network barrier of this team", "Gin::barriers_of(team, n)", site)),
        }
    }

    /// The slots of the `index`-th call of
    /// [`Requirements::all_to_all_of`](crate::Requirements::all_to_all_of).
    ///
    /// # Errors
    /// As [`multimem`](Self::multimem).
    #[track_caller]
    pub fn all_to_all_of(&self, index: usize) -> Result<AllToAll> {
        let site = Site::caller();
        match self.nth(index, |listed| matches!(listed, Listed::AllToAll { .. })) {
            Some(Placed::Memory { place, count }) => Ok(AllToAll { buffer: place, slots: count }),
            _ => Err(missing("this exchange", "Requirements::all_to_all_of(..)", site)),
        }
    }

    /// The handle (`ncclDevResourceHandle_t`) of the memory from the `index`-th call of
    /// [`Requirements::buffer`](crate::Requirements::buffer).
    ///
    /// # Errors
    /// As [`multimem`](Self::multimem).
    #[track_caller]
    pub fn buffer(&self, index: usize) -> Result<u32> {
        let site = Site::caller();
        match self.nth(index, |listed| matches!(listed, Listed::Buffer { .. })) {
            Some(Placed::Memory { place, .. }) => Ok(place),
            _ => Err(missing("this memory", "Requirements::buffer(bytes, align)", site)),
        }
    }

    /// The signals and counters from the `index`-th call of [`Gin::range`](crate::Gin::range).
    ///
    /// # Errors
    /// As [`multimem`](Self::multimem).
    #[track_caller]
    pub fn range(&self, index: usize) -> Result<DeviceRange> {
        let site = Site::caller();
        match self.nth(index, |listed| matches!(listed, Listed::Range { .. })) {
            Some(Placed::Numbers { signal, counter }) => Ok(DeviceRange { signal, counter }),
            _ => Err(missing("this range", "Gin::range(signals, counters)", site)),
        }
    }

    fn barrier_of<K>(
        &self,
        what: &'static str,
        option: &'static str,
        index: u32,
        has: u32,
        site: Site,
    ) -> Result<Barrier<'_, W, K>> {
        let index = numbered(what, option, index, has, site)?;
        Ok(Barrier { dev: self, index, kind: PhantomData })
    }

    fn placed(&self, is_it: impl Fn(&Listed) -> bool) -> Option<Placed> {
        self.nth(0, is_it)
    }

    fn nth(&self, index: usize, is_it: impl Fn(&Listed) -> bool) -> Option<Placed> {
        let all = self.requirements().listed.iter().zip(&self.shared.bytes.placed);
        all.filter(|(listed, _)| is_it(listed)).nth(index).map(|(_, placed)| *placed)
    }
}

#[cold]
fn missing(what: &str, mend: &str, site: Site) -> Error {
    let (what, mend) = (what.to_owned(), mend.to_owned());
    NotRequired { what, has: 0, mend, site }.into()
}

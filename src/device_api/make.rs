//! Creation and destruction of device communicators. All ranks do both together, in one order.

use std::marker::PhantomData;
use std::sync::Arc;

use super::CommInfo;
use super::{DevComm, Requirements, Shared};
use crate::backend::{AllocKind, Backend, DeviceComms, Windows};
use crate::communicator::{CanEnqueue, Core, Live, Maker, State};
use crate::control::Topic;
use crate::derived::debug;
use crate::error::{DevCommsDiffer, Error, Failed, Site, Unsupported};
use crate::memory::Allocation;
use crate::{Communicator, Device, Properties, Result, Team, World, wait};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// Proof that a communicator of world `W` supports device communicators, returned by
/// [`Communicator::device_api`].
///
/// ```
/// # use typed_nccl::{DeviceApi, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let api: DeviceApi<Host> = comm.device_api()?; // `Error::Unsupported` on some GPUs
/// assert!(api.properties().device_api);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct DeviceApi<W: World> {
    maker: Maker,
    has: Properties,
    world: PhantomData<fn() -> W>,
}

impl<W: World> DeviceApi<W> {
    /// The communicator's properties.
    pub fn properties(&self) -> &Properties {
        &self.has
    }
}

debug!([W: World] DeviceApi<W>, self => "DeviceApi of {}", W::NAME);

/// # Device communicators
///
/// For kernels that communicate.
impl<W: World, S: State> Communicator<W, S> {
    /// Checks that kernels can communicate directly; on the host, closures can. Local; never waits.
    ///
    /// ```
    /// use typed_nccl::{Communicator, DevComm, Device, Requirements, Result, launch};
    ///
    /// fn main() -> Result<()> {
    ///     launch!(set_up)
    /// }
    ///
    /// fn set_up<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    ///     let api = comm.device_api()?;
    ///     let dev: DevComm<D> = comm.dev_comm(&api, &Requirements::new().lsa_barriers(4))?;
    ///     println!("{dev:?}, at barrier {}", dev.lsa_barrier(3)?.index());
    ///     comm.close_dev_comm(dev)?;
    ///     comm.finish()
    /// }
    /// ```
    ///
    /// NCCL: `ncclCommQueryProperties`, 2.29.2. Earlier releases have device communicators, but no
    /// way to query the support.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: an older NCCL; a machine whose GPUs do not reach each other's
    /// memory. A failure of NCCL's; a poisoned communicator.
    pub fn device_api(&self) -> Result<DeviceApi<W>>
    where
        S: CanEnqueue,
    {
        let has = self.properties()?;
        if !has.device_api {
            return Err(unsupported(
                "a device communicator",
                "GPUs that reach each other's memory, and NCCL_CUMEM_ENABLE and NCCL_WIN_ENABLE not 0",
                "NCCL has none for this communicator: `comm.properties()?.device_api` is false",
            ));
        }
        let maker = S::live(&self.body).core.resources.maker();
        Ok(DeviceApi { maker, has, world: PhantomData })
    }

    /// Makes a device communicator. All ranks call it with the same requirements; the host waits
    /// for this rank's work and for the other ranks. The first one with network connections is
    /// slow, since all windows are registered with it. NCCL: `ncclDevCommCreate`.
    ///
    /// # Errors
    /// On an error nothing is made. [`Error::Unsupported`]: a requirement that this communicator
    /// does not meet, found before NCCL is called. [`Error::DevCommsDiffer`]: the ranks'
    /// requirements differ, or another rank refuses. A proof of another communicator; a team of
    /// another one; a failure of NCCL's, which ends the communicator; a lost peer; a passed
    /// deadline.
    #[track_caller]
    pub fn dev_comm(
        &mut self,
        api: &DeviceApi<W>,
        requirements: &Requirements,
    ) -> Result<DevComm<W>>
    where
        S: CanEnqueue,
    {
        let world = self.world_team();
        make(S::live_mut(&mut self.body), api, requirements, world, Site::caller())
    }

    /// Destroys a device communicator. All ranks destroy the same ones in the same order; the host
    /// waits for this rank's kernels that take it, and for the other ranks. Graphs that use it on
    /// any rank become stale. NCCL: `ncclDevCommDestroy`.
    ///
    /// If it is stale because the communicator continued without it, only this rank's value ends:
    /// the others need not call.
    ///
    /// # Errors
    /// A device communicator of another communicator; ranks that destroy different ones; a failure
    /// of this rank's operations; a lost peer; a passed deadline.
    /// [`try_close_dev_comm`](Self::try_close_dev_comm) gives it back.
    #[track_caller]
    pub fn close_dev_comm(&mut self, dev: DevComm<W>) -> Result<()>
    where
        S: CanEnqueue,
    {
        Ok(self.try_close_dev_comm(dev)?)
    }

    /// [`close_dev_comm`](Self::close_dev_comm) that gives the value back on failure.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_close_dev_comm(&mut self, dev: DevComm<W>) -> Result<(), Failed<DevComm<W>>>
    where
        S: CanEnqueue,
    {
        close(&mut S::live_mut(&mut self.body).core, &dev, Site::caller())
            .map_err(|error| Failed { error, value: dev })
    }
}

fn make<W: World>(
    live: &mut Live<W>,
    api: &DeviceApi<W>,
    requirements: &Requirements,
    world: Team,
    site: Site,
) -> Result<DevComm<W>> {
    const TOPIC: Topic = "dev_comm";

    let core = &mut live.core;
    core.may_call(TOPIC, site)?;
    // NCCL must not make one concurrently with an operation of the communicator.
    let ready = may_be_made(core, api, requirements, site).and_then(|()| {
        live.stream.core.idle(core.within(), TOPIC, site)?;
        core.drained(TOPIC, site)?;
        Allocation::<Back<W>>::new(core.ordinal, 1, AllocKind::Plain)
    });
    let mut words = requirements.signature();
    if let Err(why) = &ready {
        words += &format!(" (refused: {why})");
    }
    let differ = |parts| differ(core, false, parts, site);
    let (allocation, id, _) = core.agree(ready, (words, ()), (TOPIC, site), differ)?;
    let bytes = Back::<W>::make(core.comm()?, id, requirements, &api.has)?;
    let lsa_size = Back::<W>::lsa_team(core.comm()?, world).size;
    let maker = core.resources.maker();
    let place = CommInfo { rank: core.own(), size: core.size, lsa_size, maker };
    let health = (core.health.clone(), core.config.deadline);
    let shared =
        Arc::new(Shared::new(id, bytes, requirements.clone(), (place, allocation), health));
    Back::<W>::keep_device_comm(core.comm()?, &shared);
    let key = core.resources.add_device_comm(shared.clone());
    Ok(DevComm { key, shared, world: PhantomData })
}

/// Checks that this rank's communicator meets the requirements.
fn may_be_made<W: World>(
    core: &Core<Back<W>>,
    api: &DeviceApi<W>,
    requirements: &Requirements,
    site: Site,
) -> Result<()> {
    core.resources.made(api.maker, "proof of the device API")?;
    for team in requirements.listed.iter().filter_map(|listed| listed.team()) {
        for rank in [0, team.size.saturating_sub(1)].into_iter().filter_map(|at| team.to_world(at))
        {
            if core.number(rank).is_none() {
                return Err(core.no_rank("dev_comm", rank, false, site));
            }
        }
    }
    match requirements.fault(&api.has) {
        Some(fault) => Err(fault),
        None => Back::<W>::has_for(core.comm()?, requirements),
    }
}

fn close<W: World>(core: &mut Core<Back<W>>, dev: &DevComm<W>, site: Site) -> Result<()> {
    const TOPIC: Topic = "close_dev_comm";

    let known = core.resources.device_comm(&dev.key).map(|found| found.is_some());
    if let Ok(false) = known {
        // Its communicator ended it on every rank already.
        wait::allowed(TOPIC, site)?;
        return wait::until(&dev.shared.points()?, Some(core.within()), TOPIC, site);
    }
    core.may_wait(TOPIC, site)?;
    let ready = known.and_then(|_| {
        core.drained(TOPIC, site)?;
        wait::until(&dev.shared.points()?, Some(core.within()), TOPIC, site)
    });
    let words = match &ready {
        Ok(()) => format!("device communicator #{}", dev.shared.id),
        Err(refused) => format!("none ({refused})"),
    };
    let differ = |parts| differ(core, true, parts, site);
    core.agree(ready, (words, ()), (TOPIC, site), differ)?;
    // Nothing fails once it is taken out.
    core.comm()?;
    let Some(shared) = core.resources.take_device_comm(&dev.key)? else { return Ok(()) };
    shared.end("it was closed");
    core.graphs.lose_naming("device communicator", shared.id, site);
    Back::<W>::unmake(core.comm()?, shared.id);
    Ok(())
}

#[cold]
fn differ<B: Backend>(core: &Core<B>, closing: bool, parts: Vec<String>, site: Site) -> Error {
    let name = core.health.name();
    DevCommsDiffer { name, closing, parts, site }.into()
}

#[cold]
fn unsupported(what: &str, needs: &str, found: &str) -> Error {
    let (what, needs, found) = (what.to_owned(), needs.to_owned(), found.to_owned());
    Unsupported { what, needs, found }.into()
}

//! Joining a communicator: by an NCCL id, or as the child of a divided one.

use std::sync::Arc;

use nccl_sys::{NCCL_COMM_NULL, ncclComm_t};

use super::api::{Nccl, lacking};
use super::comm::Comm;
use super::config;
use super::destroying::Tenant;
use super::exit;
use super::family::{self, Family};
use super::making::{Made, Making, Wanted};
use super::values::number;
use crate::Result;
use crate::backend::Join;
use crate::communicator::{Health, Transfers};
use crate::cuda::Gpu;
use crate::error::{Error, InitFailed};

/// A communicator that NCCL is connecting.
pub struct Joining {
    making: Making,
    /// Taken when it is made.
    rest: Option<Rest>,
    /// Its place on the GPU, once there is one.
    tenant: Option<Tenant>,
}

pub(super) struct Rest {
    pub(super) nccl: &'static Nccl,
    pub(super) gpu: &'static Gpu,
    pub(super) family: Arc<Family>,
    pub(super) join: Join,
}

/// Fails if transfers rely on registrations and NCCL does not register memory.
fn registers(nccl: &Nccl, transfers: Transfers) -> Result<()> {
    if transfers == Transfers::Any {
        return Ok(());
    }
    nccl.api.ncclCommRegister().map(|_| ()).map_err(lacking("`Transfers::Registered`"))
}

impl Joining {
    /// `from` is the division that makes a child, or holds another library's communicator.
    pub(super) fn start(join: Join, from: Option<Making>) -> Result<Self> {
        let nccl = Nccl::load()?;
        let gpu = Gpu::open(join.ordinal)?;
        config::offers(nccl, &join.config)?;
        registers(nccl, join.config.transfers)?;
        nccl.environment.allows(&join.config, from.as_ref().is_some_and(Making::is_lent))?;
        let family = Family::meet(nccl, &join, from.is_none())?;
        let rest = Rest { nccl, gpu, family, join };
        // From here on, dropping this leaves the family.
        let started = match from {
            Some(mut making) => match making.take_lent() {
                Some(made) => Call::of(&rest).start(|call| call.wanted.connected(made)),
                None => Ok(making),
            },
            None => Call::of(&rest).start(Call::make),
        };
        let making = started.inspect_err(|_| rest.family.leave())?;
        Ok(Self { making, rest: Some(rest), tenant: None })
    }

    pub(super) fn made(&mut self) -> Result<Option<Comm>> {
        if let (None, Some(Rest { gpu, join, .. })) = (&self.tenant, &self.rest) {
            self.tenant = Tenant::new(gpu.ordinal(), join.id, join.rank as usize);
            if self.tenant.is_none() {
                return Ok(None);
            }
        }
        let Some(made) = self.making.poll()? else { return Ok(None) };
        let parts = (self.rest.take(), self.tenant.take(), made.and_then(Made::take));
        let (Some(rest), Some(tenant), Some(handle)) = parts else { return Ok(None) };
        let early = rest.join.config.has_signals();
        let comm = Comm::new(handle, rest, tenant);
        if early {
            comm.one_sided.set(Some(comm.supports_signals()?));
        }
        Ok(Some(comm))
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        // A communicator that was made and not taken, or is made later, ends with its drop. A
        // thread that NCCL holds up for missing ranks is not waited for.
        if let Some(rest) = self.rest.take() {
            exit::lose(rest.join.health.id());
            rest.family.leave();
        }
    }
}

/// What the thread needs.
struct Call {
    family: Arc<Family>,
    health: Arc<Health>,
    rank: u32,
    wanted: Wanted,
}

impl Call {
    fn of(rest: &Rest) -> Self {
        let Rest { nccl, gpu, family, join } = rest;
        let wanted = Wanted {
            comm: join.health.id(),
            nccl,
            gpu,
            size: number(join.size),
            config: join.config.clone(),
            name: join.name,
            deadline: join.deadline,
        };
        Self { family: family.clone(), health: join.health.clone(), rank: join.rank, wanted }
    }

    fn start(self, make: impl FnOnce(&Self) -> Result<Made> + Send + 'static) -> Result<Making> {
        let thread = format!("NCCL init of rank {}", self.rank);
        Making::start(thread, self.family.size(), None, move || make(&self).map(Some))
    }

    fn make(&self) -> Result<Made> {
        let &Wanted { nccl, gpu, size, deadline, .. } = &self.wanted;
        let missing = lacking("a communicator");
        let init = nccl.api.ncclCommInitRankConfig().map_err(&missing)?;
        let (rank, make) = (self.rank as usize, || family::unique_id(nccl));
        let mut ids = self.family.unique((rank, &self.health), deadline, make)?;
        let mut config = self.wanted.config();
        // The rank's device stays the current one.
        gpu.bind()?;
        let Some(_inside) = exit::enter(self.health.id()) else { return Err(self.process_ends()) };
        let mut comm: ncclComm_t = NCCL_COMM_NULL;
        let rank = number(self.rank);
        let (function, result) = match &mut *ids {
            // SAFETY: `comm` is valid for a write and `config` is complete. The id is this
            // communicator's, and a seat is taken once, so each rank joins once.
            [id] => ("ncclCommInitRankConfig", unsafe {
                init(&raw mut comm, size, *id, rank, &raw mut config)
            }),
            ids => {
                let init = nccl.api.ncclCommInitRankScalable().map_err(&missing)?;
                let (ids, count) = (ids.as_mut_ptr(), i32::try_from(ids.len()).unwrap_or(i32::MAX));
                // SAFETY: as above; `count` is the number of ids, which all ranks have in the same
                // order.
                ("ncclCommInitRankScalable", unsafe {
                    init(&raw mut comm, size, rank, count, ids, &raw mut config)
                })
            }
        };
        self.wanted.made(function, result, comm).map_err(|error| {
            self.family.hear_of_deaths(&self.health);
            self.health.check().err().unwrap_or(error)
        })
    }

    #[cold]
    fn process_ends(&self) -> Error {
        let ranks = vec![crate::Rank(self.rank)];
        let why = "came when the process was ending".to_owned();
        InitFailed { size: self.family.size(), ranks, why }.into()
    }
}

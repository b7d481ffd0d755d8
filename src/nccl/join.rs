//! Joining a communicator: NCCL's call blocks until all ranks have made it, so a thread makes it.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use nccl_sys::{Version, ncclComm_t, ncclConfig_t, ncclResult_t};

use super::api::{Nccl, unsupported};
use super::comm::{Comm, Handle};
use super::connect::connect;
use super::exit;
use super::family::Family;
use crate::Result;
use crate::backend::Join;
use crate::communicator::Health;
use crate::cuda::Gpu;
use crate::error::{Error, InitFailed, Unsupported};

/// A communicator that NCCL is connecting.
pub struct Joining {
    made: Receiver<Result<Made>>,
    /// Taken when it is made.
    rest: Option<Rest>,
}

pub(super) struct Rest {
    pub(super) nccl: &'static Nccl,
    pub(super) gpu: &'static Gpu,
    pub(super) family: Arc<Family>,
    pub(super) join: Join,
}

impl Joining {
    pub(super) fn start(join: Join) -> Result<Self> {
        let nccl = Nccl::load()?;
        let gpu = Gpu::open(join.ordinal)?;
        if join.slots.context > 1 || join.slots.index > 1 {
            let what = "more than one context or signal";
            nccl.needs(what, Version::new(2, 31, 2))?;
        }
        let family = Family::meet(nccl, &join)?;
        let rest = Rest { nccl, gpu, family, join };
        let (sender, made) = channel();
        let call = Call::of(&rest);
        let (rank, size) = (rest.join.rank, rest.join.size);
        let joining = Self { made, rest: Some(rest) };
        let thread = std::thread::Builder::new().name(format!("NCCL init of rank {rank}"));
        let spawned = thread.spawn(move || {
            // Whoever asked may be gone: then what was made ends by its drop.
            let made = call.make().map(|handle| Made(Some(handle), call.nccl, call.health.id()));
            let _ = sender.send(made);
        });
        match spawned {
            Ok(_) => Ok(joining),
            Err(error) => Err(Error::InitFailed(Box::new(InitFailed {
                size: size as usize,
                ranks: vec![crate::Rank(rank)],
                why: format!("got no thread ({error})"),
            }))),
        }
    }

    pub(super) fn made(&mut self) -> Result<Option<Comm>> {
        let mut made = match self.made.try_recv() {
            Ok(made) => made?,
            Err(TryRecvError::Empty) => return Ok(None),
            Err(TryRecvError::Disconnected) => {
                let (size, why) = (0, "the thread that joined is gone".to_owned());
                return Err(Error::InitFailed(Box::new(InitFailed { size, ranks: vec![], why })));
            }
        };
        let (Some(rest), Some(handle)) = (self.rest.take(), made.0.take()) else { return Ok(None) };
        Ok(Some(Comm::new(handle, rest)))
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        // What was made and not asked for, or is made later, ends by its drop. A thread that NCCL holds up
        // for ranks that do not come is not waited for.
        if let Some(rest) = self.rest.take() {
            exit::lose(rest.join.health.id());
            rest.family.leave();
        }
    }
}

/// A communicator that nobody has asked for yet. Aborted when it is dropped.
struct Made(Option<Handle>, &'static Nccl, u64);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // SAFETY: it was made, and nobody has asked for it.
            unsafe { handle.discard(self.1, self.2) };
        }
    }
}

/// What the thread needs.
struct Call {
    nccl: &'static Nccl,
    gpu: &'static Gpu,
    family: Arc<Family>,
    health: Arc<Health>,
    size: i32,
    rank: i32,
    slots: Option<(i32, i32)>,
    name: &'static CStr,
    deadline: Duration,
}

impl Call {
    fn of(rest: &Rest) -> Self {
        let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let slots = rest.join.slots;
        let several = slots.context > 1 || slots.index > 1;
        Self {
            nccl: rest.nccl,
            gpu: rest.gpu,
            family: rest.family.clone(),
            health: rest.join.health.clone(),
            size: number(rest.join.size),
            rank: number(rest.join.rank),
            slots: several.then(|| (number(slots.context), number(slots.index))),
            name: c_name(rest.join.name),
            deadline: rest.join.deadline,
        }
    }

    fn make(&self) -> Result<Handle> {
        let missing = |missing| unsupported("a communicator", missing);
        let init = self.nccl.api.ncclCommInitRankConfig().map_err(missing)?;
        let id = self.family.unique(&self.health, self.deadline)?;
        let mut config = ncclConfig_t::new();
        config.commName = self.name.as_ptr();
        if let Some((contexts, signals)) = self.slots {
            config.numRmaCtx = contexts;
            config.numRmaSig = signals;
        }
        // The current device becomes the rank's for ever.
        self.gpu.bind()?;
        let Some(_inside) = exit::enter(self.health.id()) else { return Err(self.process_ends()) };
        let mut comm: ncclComm_t = nccl_sys::NCCL_COMM_NULL;
        // SAFETY: `comm` is a place for a handle and `config` is whole; the id is this communicator's,
        // and each of its ranks is taken once, because a seat is.
        let result = unsafe { init(&raw mut comm, self.size, id, self.rank, &raw mut config) };
        let handle = Handle(comm);
        if result == ncclResult_t::ncclSuccess {
            let connected = connect(self.nccl, self.gpu, comm, self.size, self.deadline);
            if let Err(error) = connected {
                // SAFETY: nobody else knows it.
                unsafe { handle.discard(self.nccl, self.health.id()) };
                return Err(error);
            }
            return Ok(handle);
        }
        if result == ncclResult_t::ncclInProgress {
            // SAFETY: nobody else knows it.
            unsafe { handle.discard(self.nccl, self.health.id()) };
            return Err(not_blocking());
        }
        let error = self.nccl.failed("ncclCommInitRankConfig", None, result);
        // A failure may leave a handle, which can only be aborted.
        if !comm.is_null() {
            // SAFETY: nobody else knows it.
            unsafe { handle.discard(self.nccl, self.health.id()) };
        }
        self.family.hear_of_deaths(&self.health);
        self.health.check()?;
        Err(error)
    }
}

impl Call {
    #[cold]
    fn process_ends(&self) -> Error {
        let ranks = vec![crate::Rank(self.rank.unsigned_abs())];
        let size = usize::try_from(self.size).unwrap_or(0);
        let why = "came when the process was ending".to_owned();
        Error::InitFailed(Box::new(InitFailed { size, ranks, why }))
    }
}

#[cold]
fn not_blocking() -> Error {
    Error::Unsupported(Box::new(Unsupported {
        what: "a communicator".to_owned(),
        needs: "calls of NCCL that return when they are done".to_owned(),
        found: "NCCL_COMM_BLOCKING=0 is set: unset it".to_owned(),
    }))
}

/// The communicator's name as NCCL takes it: it does not copy it.
fn c_name(name: &'static str) -> &'static CStr {
    static NAMES: LazyLock<Mutex<HashMap<&'static str, &'static CStr>>> =
        LazyLock::new(Mutex::default);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(name).or_insert_with(|| {
        // An identifier has no zero.
        let name = CString::new(name).unwrap_or_default();
        Box::leak(name.into_boxed_c_str())
    })
}

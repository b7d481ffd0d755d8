//! The part of a communicator that other threads use: they poll it for errors, revoke it and end
//! it.

use std::mem;
use std::slice;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nccl_sys::{NCCL_REVOKE_DEFAULT, ncclComm_t};

use super::api::Nccl;
use super::compare::Compared;
use super::environment::shares_gpus;
use super::exit;
use super::family::{Family, Owing};
use super::handle::{Handle, Last, PATIENCE};
use super::kernel_resources::KernelStop;
use crate::communicator::Health;
use crate::cuda::CudaStream;
use crate::error::Error;
use crate::lock::Mutex;

/// How much longer to wait for an abort if a stream may wait for a signal that never comes.
const DOUBT: Duration = Duration::from_secs(1);

/// The part of a communicator that other threads use.
pub(super) struct Shared {
    pub(super) nccl: &'static Nccl,
    /// `None` once it ends.
    pub(super) handle: Mutex<Option<Handle>>,
    /// Held by a thread that revokes the communicator, which therefore ends later. Whether it was
    /// revoked.
    pub(super) revoking: Mutex<bool>,
    /// Held by a thread that divides the communicator, which therefore ends later.
    pub(super) dividing: Mutex<()>,
    pub(super) revoked: AtomicBool,
    /// Stops this library's own kernels, if there are any.
    pub(super) kernel_stop: OnceLock<Arc<KernelStop>>,
    pub(super) family: Arc<Family>,
    pub(super) rank: usize,
    /// The number of this rank's communicator in this process.
    pub(super) id: u64,
    /// How far each rank's calls have been compared with this one's.
    pub(super) compared: Mutex<Vec<Compared>>,
}

/// A stream that may wait for a signal: the last that carried one-sided operations.
pub(super) struct Waits {
    pub(super) stream: Arc<CudaStream>,
    pub(super) owing: Owing,
    /// Streams that may wait for it.
    pub(super) all: Vec<Arc<CudaStream>>,
}

impl Shared {
    /// Aborts a communicator, after giving other ranks time to free a stream that waits for a
    /// signal. Parked memory stays until NCCL has finished. If the others are gone or do not free
    /// the stream, this returns without waiting longer.
    pub(super) fn abort(self: &Arc<Self>, mut handle: Handle, waits: Option<Waits>) {
        self.stop_kernels();
        // The lender may end it at once.
        if let Some(kernel_stop) = self.kernel_stop.get().filter(|_| handle.is_lent) {
            kernel_stop.signal_and_wait();
        }
        let (shared, family) = (self.clone(), self.family.clone());
        // A thread known to be lost in NCCL does not come back.
        let usual = if exit::is_lost(self.id) { SOON } else { PATIENCE };
        let patience = waits.as_ref().map_or(usual, |waits| waits.limit() + DOUBT);
        let limit = waits.as_ref().map(|waits| (waits.stream.clone(), waits.limit()));
        let users = mem::take(&mut handle.users);
        let last = handle.last.take().filter(|_| shares_gpus());
        let patience = if last.is_some() { patience + 2 * DOUBT } else { patience };
        let first = move |comm| {
            if let Some((stream, limit)) = limit {
                settle(&[stream], limit);
            }
            // NCCL frees all ranks' memory with the last of them. Ranks that share a GPU write into
            // each other's, which their kernels do even as they stop.
            if let Some(Last { own, others }) = last {
                settle(&others, DOUBT);
                if own.iter().any(|stream| stream.is_busy()) {
                    shared.free(|| Some(comm));
                    settle(&own, DOUBT);
                }
            }
            // A division may have been abandoned while the handle was out of the lock.
            if shared.dividing.try_lock().is_none() {
                shared.free(|| Some(comm));
            }
            // NCCL unmaps the other ranks' memory, which the program's kernels may be using.
            if !users.iter().all(|stream| stream.is_idle()) {
                // Ends NCCL's work on their streams.
                shared.free(|| Some(comm));
                await_users(&users);
            }
            drop(shared.revoking.lock());
            drop(shared.dividing.lock());
            if let Some(kernel_stop) = shared.kernel_stop.get() {
                kernel_stop.signal_and_wait();
            }
        };
        // SAFETY: the rank's thread ends the communicator. Threads that poll, revoke or divide it
        // take the handle from the lock, where it no longer is. A revocation or a division that had
        // begun is over when its lock is free.
        let over =
            unsafe { handle.abort(self.nccl, self.id, patience, first, move || family.leave()) };
        if let Some(waits) = waits
            && !(over && settle(slice::from_ref(&waits.stream), SOON))
        {
            exit::lose(self.id);
            waits.all.iter().filter(|stream| !stream.is_idle()).for_each(|stream| stream.lose());
        }
    }

    /// Frees a thread that NCCL holds up; the communicator stays until its owner ends it. This
    /// takes half a second, or forever if a stream waits for a signal, so it runs on its own
    /// thread. Returns false if the loaded NCCL cannot.
    pub(super) fn revoke(self: &Arc<Self>) -> bool {
        self.stop_kernels();
        if self.nccl.api.ncclCommRevoke().is_err() {
            return false;
        }
        if self.revoked.swap(true, Relaxed) {
            return true;
        }
        let shared = self.clone();
        let raw = |shared: &Self| {
            let handle = shared.handle.lock();
            handle.as_ref().map(|handle| handle.raw)
        };
        let work = move || shared.free(|| raw(&shared));
        let thread = std::thread::Builder::new().name("NCCL revoke".to_owned());
        let is_begun = thread.spawn(work).is_ok();
        // Without a thread it may be tried again.
        self.revoked.store(is_begun, Relaxed);
        is_begun
    }

    /// Stops this library's own kernels, which wait for other ranks, before the host waits for
    /// them.
    pub(super) fn stop_kernels(&self) {
        if let Some(kernel_stop) = self.kernel_stop.get() {
            kernel_stop.signal();
        }
    }

    /// Revokes the communicator, if it still exists and the loaded NCCL can. NCCL refuses a second
    /// revocation.
    fn free(&self, comm: impl FnOnce() -> Option<ncclComm_t>) {
        self.stop_kernels();
        let Ok(revoke) = self.nccl.api.ncclCommRevoke() else { return };
        let mut is_done = self.revoking.lock();
        let (Some(raw), false) = (comm(), *is_done) else { return };
        let Some(_inside) = exit::enter(self.id) else { return };
        *is_done = true;
        // SAFETY: the communicator is alive, as its end waits for the lock or makes this call. NCCL
        // lets another thread revoke it while its own is inside a call.
        let result = unsafe { revoke(raw, NCCL_REVOKE_DEFAULT) };
        if let Err(error) = self.nccl.check("ncclCommRevoke", None, result) {
            log::warn!("{error}");
        }
    }

    /// Makes a call that divides it; `None` if it has ended. The end waits for the call.
    pub(super) fn divides<R>(&self, call: impl FnOnce(ncclComm_t) -> R) -> Option<R> {
        let _dividing = self.dividing.lock();
        let handle = self.handle.lock();
        let raw = handle.as_ref().map(|handle| handle.raw);
        drop(handle);
        raw.map(call)
    }

    /// Whether it can only be aborted.
    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Relaxed)
    }

    /// Checks for errors that NCCL found by itself, and for ranks that made different calls.
    pub(super) fn look(&self, health: &Health) {
        if !health.is_well() {
            return;
        }
        if let Some(error) = self.async_error() {
            // A dying process breaks its connections; the news of its death comes a moment later.
            if self.family.may_be_a_death() {
                return;
            }
            return health.fail(error);
        }
        self.family.ask();
        if let Some(error) = self.desync() {
            self.family.end(&error);
            return health.fail(error);
        }
        let found = self.family.refused(self.rank).or_else(|| self.family.left(self.rank));
        if let Some(error) = found {
            health.fail(error);
        }
    }

    pub(super) fn desync(&self) -> Option<Error> {
        let mut compared = self.compared.lock();
        self.family.desync(self.rank, &mut compared)
    }
}

impl Waits {
    fn limit(&self) -> Duration {
        match self.owing {
            Owing::Living => SETTLING,
            Owing::Dead => SOON,
        }
    }
}

/// How long other ranks may take to free a stream.
const SETTLING: Duration = Duration::from_millis(700);

/// How long a stream may take once everything it waits for has come.
const SOON: Duration = Duration::from_millis(20);

/// Waits until no stream runs a kernel with a device communicator. A kernel that waits for a lost
/// rank never ends, and then the communicator's memory stays.
fn await_users(users: &[Arc<CudaStream>]) {
    let (started, mut warned) = (Instant::now(), false);
    while !users.iter().all(|stream| stream.is_idle()) {
        std::thread::sleep(Duration::from_millis(1));
        if !warned && started.elapsed() > DOUBT {
            warned = true;
            log::warn!(
                "a kernel that was given a device communicator still runs: the communicator is not aborted, and its memory stays, until it is over"
            );
        }
    }
}

/// Waits until streams are idle, within a limit, since NCCL's abort may not return while a stream
/// waits for a signal of another rank. Returns whether they are.
fn settle(streams: &[Arc<CudaStream>], limit: Duration) -> bool {
    let started = Instant::now();
    while streams.iter().any(|stream| stream.is_busy()) {
        if started.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

//! One rank's communicator.

use std::cell::{Cell, OnceCell, RefCell};
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nccl_sys::ncclComm_t;

use super::api::Nccl;
use super::compare::Compared;
use super::destroying::Tenant;
use super::device::DeviceComm;
use super::exact::Scratch;
use super::family::Parked;
use super::handle::{Handle, Last};
use super::join::Rest;
use super::kernel_resources::KernelResources;
use super::recorder::Recorder;
use super::shared::Shared;
use super::watch;
use super::window::Windowed;
use crate::Result;
use crate::backend::{Allocation, Departure, Streams, WindowHandles};
use crate::communicator::{CommConfig, Health};
use crate::config::LaunchEvent;
use crate::cuda::{CudaBackend, CudaStream, Gpu};
use crate::error::Error;
use crate::lock::Mutex;
use crate::memory::Lease;

/// One rank's communicator.
///
/// Only the thread that owns it calls NCCL with it. A waiting thread polls it for errors through
/// [`Shared`], from which `end` first takes the handle.
pub struct Comm {
    pub(super) nccl: &'static Nccl,
    pub(super) handle: ncclComm_t,
    pub(super) recorder: Arc<Recorder>,
    /// The stream noted last.
    last_stream: Cell<*const CudaStream>,
    pub(super) streams: RefCell<Vec<Arc<CudaStream>>>,
    pub(super) windows: RefCell<Vec<Windowed>>,
    pub(super) window_handles: WindowHandles,
    /// Device communicators, in the order in which they were made.
    pub(super) device_comms: RefCell<Vec<DeviceComm>>,
    /// The stream of the last one-sided operation.
    pub(super) last_one_sided: RefCell<Option<Arc<CudaStream>>>,
    /// Whether one-sided operations are set up; `None` until the communicator tries to.
    pub(super) one_sided: Cell<Option<bool>>,
    /// Scalars that kernels may still read.
    pub(super) scalars: RefCell<Vec<Arc<Allocation<CudaBackend>>>>,
    /// Registered buffers, by NCCL's handle.
    pub(super) registered: RefCell<Vec<(u64, Arc<Lease<CudaBackend>>)>>,
    /// Events that NCCL records when it launches kernels.
    pub(super) launched: RefCell<Vec<LaunchEvent>>,
    /// For this library's own kernels.
    pub(super) kernel_resources: OnceCell<KernelResources>,
    /// For exact sums.
    pub(super) scratch: Scratch,
    pub(super) gpu: &'static Gpu,
    /// `None` once it ends.
    pub(super) tenant: Option<Tenant>,
    pub(super) size: u32,
    pub(super) config: CommConfig,
    pub(super) deadline: Duration,
    /// Whether another library made it.
    pub(super) is_adopted: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) health: Arc<Health>,
}

// SAFETY: NCCL's handles, streams and windows are not bound to a thread, and the cells move with
// the value.
unsafe impl Send for Comm {}

impl Comm {
    pub(super) fn new(handle: Handle, rest: Rest, tenant: Tenant) -> Self {
        let Rest { nccl, gpu, family, join } = rest;
        let rank = join.rank as usize;
        let recorder = family.recorder(rank);
        let (raw, is_adopted) = (handle.raw, handle.is_lent);
        let shared = Arc::new(Shared {
            nccl,
            handle: Mutex::new(Some(handle)),
            revoking: Mutex::default(),
            dividing: Mutex::default(),
            revoked: AtomicBool::new(false),
            kernel_stop: OnceLock::new(),
            family,
            rank,
            id: join.health.id(),
            compared: Mutex::new(vec![Compared::default(); join.size as usize]),
        });
        shared.family.has_made(&shared);
        let watched = shared.clone();
        join.health.set_watch(Box::new(move |health| watched.look(health)));
        Self {
            nccl,
            handle: raw,
            recorder,
            last_stream: Cell::new(ptr::null()),
            streams: RefCell::default(),
            windows: RefCell::default(),
            window_handles: WindowHandles::default(),
            device_comms: RefCell::default(),
            last_one_sided: RefCell::default(),
            one_sided: Cell::new(None),
            scalars: RefCell::default(),
            registered: RefCell::default(),
            launched: RefCell::default(),
            kernel_resources: OnceCell::new(),
            scratch: Scratch::default(),
            gpu,
            tenant: Some(tenant),
            size: join.size,
            config: join.config,
            deadline: join.deadline,
            is_adopted,
            shared,
            health: join.health,
        }
    }

    /// Whether `stream` carried the communicator's last work.
    #[inline]
    pub(super) fn is_last(&self, stream: &Arc<CudaStream>) -> bool {
        self.last_stream.get() == Arc::as_ptr(stream)
    }

    /// Records that `stream` carries work of this communicator.
    #[inline]
    pub(super) fn note(&self, stream: &Arc<CudaStream>) {
        if self.last_stream.get() != Arc::as_ptr(stream) {
            self.note_new(stream);
        }
    }

    #[cold]
    fn note_new(&self, stream: &Arc<CudaStream>) {
        self.last_stream.set(Arc::as_ptr(stream));
        let mut streams = self.streams.borrow_mut();
        // An idle stream that nothing else refers to carries no more work.
        streams.retain(|known| Arc::strong_count(known) > 1 || !known.is_idle());
        if !streams.iter().any(|known| Arc::ptr_eq(known, stream)) {
            streams.push(stream.clone());
            stream.traffic.note(self.health.id(), Arc::downgrade(&self.shared.family));
            self.shared.family.carried_by(stream);
        }
    }

    /// Makes an NCCL call that may wait for other ranks.
    pub(super) fn inside<R>(&self, call: impl FnOnce() -> R) -> R {
        self.recorder.cross();
        let result = call();
        self.recorder.cross();
        result
    }

    /// Poisons the communicator after a failed NCCL call: it can only be aborted. Returns the first
    /// cause, which may be why the call failed.
    #[cold]
    pub(super) fn poison(&self, error: Error) -> Error {
        self.shared.family.hear_of_deaths(&self.health);
        if let Err(first) = self.health.check() {
            return first;
        }
        self.health.fail(error.clone());
        error
    }

    /// Releases a scalar once the enqueued work has read it.
    pub(super) fn let_go(&self, scalar: &Arc<Allocation<CudaBackend>>) {
        let streams = self.streams.borrow();
        let points = streams.iter().map(CudaBackend::point).collect::<Result<Vec<_>>>();
        // Without points it stays until the communicator ends.
        let Ok(points) = points else { return };
        self.scalars.borrow_mut().retain(|known| !Arc::ptr_eq(known, scalar));
        watch::quarantine_until(vec![scalar.clone()], points);
    }

    /// Takes the handle out of every thread's reach; `None` if that has happened before.
    pub(super) fn end(&mut self) -> Option<Handle> {
        // NCCL's end waits for graphs.
        self.gpu.end_graphs();
        let mut handle = self.shared.handle.lock().take();
        if let Some(handle) = &mut handle {
            handle.users = self.device_comm_users();
        }
        let windows = self.windows.take().into_iter().map(|window| window.allocation);
        let kernel_resources =
            self.kernel_resources.take().into_iter().flat_map(KernelResources::into_memory);
        let memory = windows.chain(self.scalars.take()).chain(kernel_resources);
        let memory = memory.chain(self.scratch.take());
        let leases = self.registered.take().into_iter().map(|(_, lease)| lease);
        let streams = self.streams.take();
        self.shared.family.park(Parked::of(memory, leases), streams.clone());
        if let Some(handle) = &mut handle {
            handle.last = self.shared.family.closes().map(|all| Last::of(streams, all));
        }
        handle
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        // Made, and then dropped before use.
        if let Some(handle) = self.end() {
            let why = "its communicator was made, and then not wanted";
            self.shared.family.depart(self.shared.rank, why, Departure::AtOnce);
            self.shared.abort(handle, None);
        }
    }
}

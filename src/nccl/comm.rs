//! One rank's communicator.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use nccl_sys::{NCCL_REVOKE_DEFAULT, ncclComm_t, ncclRedOp_t, ncclResult_t, ncclScalarResidence_t};

use super::api::{Nccl, unsupported};
use super::compare::Compared;
use super::config;
use super::exit;
use super::family::{self, Family, Owing, Place};
use super::join::{Joining, Rest};
use super::making::Making;
use super::recorder::Recorder;
use super::values::{self, Operator};
use super::watch;
use super::window::Windowed;
use crate::backend::{Allocation, Departer, Departure, Join, Lifecycle, Pace, Part, Streams};
use crate::communicator::{CommConfig, Health, MemoryStats, Properties};
use crate::cuda::{CudaBackend, CudaStream, Gpu};
use crate::error::{Error, Surplus};
use crate::{DType, Rank, Result};

/// How long an abort is waited for. One that takes its course takes less than a second.
const PATIENCE: Duration = Duration::from_secs(3);

/// The same where a stream may wait for a signal that never comes.
const DOUBT: Duration = Duration::from_secs(1);

/// A communicator of NCCL's. Whoever has it ends it, unless it is lent.
pub(super) struct Handle {
    pub(super) raw: ncclComm_t,
    /// It is another library's still, which ends it if it is not kept here.
    pub(super) is_lent: bool,
}

// SAFETY: NCCL's communicators are bound to no thread; who may use one when is said at [`Comm`].
unsafe impl Send for Handle {}

impl Handle {
    pub(super) fn own(raw: ncclComm_t) -> Self {
        Self { raw, is_lent: false }
    }

    /// Ends one that nobody has been given.
    ///
    /// # Safety
    /// Nobody else knows it.
    pub(super) unsafe fn discard(self, nccl: &'static Nccl, comm: u64) {
        // SAFETY: by the caller's promise.
        unsafe { self.abort(nccl, comm, PATIENCE, |_| {}, || {}) };
    }

    /// Ends it, then does `then`; waits for its kernels to see it, not for other ranks. That can take
    /// long: NCCL frees memory, for which the driver waits for the whole GPU, and a stream that waits
    /// for a signal cannot be freed from its wait. Then it goes on on a thread of its own, after
    /// `patience`. Nothing more is done if NCCL fails. Whether it is over.
    ///
    /// # Safety
    /// Once `first` has returned, which runs on that thread, nobody is inside a call with the
    /// communicator, and nobody makes one any more.
    unsafe fn abort(
        self,
        nccl: &'static Nccl,
        comm: u64,
        patience: Duration,
        first: impl FnOnce(ncclComm_t) + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> bool {
        if self.is_lent {
            then();
            return true;
        }
        let Some(inside) = exit::enter(comm) else { return true };
        let (done, ended) = channel();
        let abort = move || {
            let (handle, _inside) = (self, inside);
            first(handle.raw);
            // SAFETY: nobody else uses the communicator, by the caller's promise.
            let result = unsafe { (nccl.abort)(handle.raw) };
            match nccl.check("ncclCommAbort", None, result) {
                Ok(()) => then(),
                Err(error) => log::warn!("{error}"),
            }
            // Nobody may wait any more.
            let _ = done.send(());
        };
        let thread = std::thread::Builder::new().name("NCCL abort".to_owned());
        if let Err(error) = thread.spawn(abort) {
            log::warn!("no thread to abort a communicator, which stays as it is: {error}");
        } else if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            log::warn!(
                "ncclCommAbort has not returned in {patience:?}: it goes on, and the communicator's memory waits for it"
            );
            return false;
        }
        true
    }
}

/// One rank's communicator.
///
/// The thread that has it is inside NCCL with it, or nobody is. A thread that waits asks it for
/// errors through [`Shared`], which its end empties first.
pub struct Comm {
    pub(super) nccl: &'static Nccl,
    pub(super) handle: ncclComm_t,
    pub(super) recorder: Arc<Recorder>,
    /// The stream that was noted last.
    last_stream: Cell<*const CudaStream>,
    streams: RefCell<Vec<Arc<CudaStream>>>,
    pub(super) windows: RefCell<Vec<Windowed>>,
    /// Where the last one-sided operation went.
    pub(super) last_one_sided: RefCell<Option<Arc<CudaStream>>>,
    /// Whether one-sided operations are set up; nothing where NCCL has none.
    pub(super) one_sided: Cell<Option<bool>>,
    /// Scalars that kernels may still read, and buffers that are registered, by NCCL's handle.
    pub(super) held: RefCell<Vec<(Option<u64>, Arc<Allocation<CudaBackend>>)>>,
    pub(super) gpu: &'static Gpu,
    pub(super) size: u32,
    pub(super) config: CommConfig,
    pub(super) deadline: Duration,
    /// Whether another library made it.
    pub(super) is_adopted: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) health: Arc<Health>,
}

// SAFETY: a handle of NCCL's is bound to no thread, and neither are streams and windows; the cells go
// with the value.
unsafe impl Send for Comm {}

/// What other threads reach of a communicator.
pub(super) struct Shared {
    nccl: &'static Nccl,
    /// None once it ends.
    handle: Mutex<Option<Handle>>,
    /// Held by a thread that revokes it: the end comes after. Whether that was done.
    revoking: Mutex<bool>,
    /// Held by a thread that divides it: the end comes after.
    dividing: Mutex<()>,
    revoked: AtomicBool,
    pub(super) family: Arc<Family>,
    pub(super) rank: usize,
    /// Of this rank's communicator, in this process.
    id: u64,
    /// How far each rank's calls were compared with this one's.
    compared: Mutex<Vec<Compared>>,
}

impl Comm {
    pub(super) fn new(handle: Handle, rest: Rest) -> Self {
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
            last_one_sided: RefCell::default(),
            one_sided: Cell::new(None),
            held: RefCell::default(),
            gpu,
            size: join.size,
            config: join.config,
            deadline: join.deadline,
            is_adopted,
            shared,
            health: join.health,
        }
    }

    /// Whether `stream` carried its last work.
    #[inline]
    pub(super) fn is_last(&self, stream: &Arc<CudaStream>) -> bool {
        self.last_stream.get() == Arc::as_ptr(stream)
    }

    /// Remembers that `stream` carries its work.
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
        // Those that nobody else names and that are idle carry nothing more.
        streams.retain(|known| Arc::strong_count(known) > 1 || !known.is_idle());
        if !streams.iter().any(|known| Arc::ptr_eq(known, stream)) {
            streams.push(stream.clone());
            stream.traffic.note(self.health.id(), Arc::downgrade(&self.shared.family));
            self.shared.family.carried_by(stream);
        }
    }

    /// Makes a call of NCCL's for which other ranks are needed.
    pub(super) fn inside<R>(&self, call: impl FnOnce() -> R) -> R {
        self.recorder.cross();
        let result = call();
        self.recorder.cross();
        result
    }

    /// A call of NCCL's failed: the communicator can only be aborted. Gives the first cause, which may
    /// be why the call failed.
    #[cold]
    pub(super) fn poison(&self, error: Error) -> Error {
        self.shared.family.hear_of_deaths(&self.health);
        if let Err(first) = self.health.check() {
            return first;
        }
        self.health.fail(error.clone());
        error
    }

    /// Lets go of a scalar when what is enqueued has read it.
    fn let_go(&self, scalar: &Arc<Allocation<CudaBackend>>) {
        let streams = self.streams.borrow();
        let points = streams.iter().map(CudaBackend::point).collect::<Result<Vec<_>>>();
        // Without points, it stays until the communicator ends.
        let Ok(points) = points else { return };
        self.held.borrow_mut().retain(|(_, held)| !Arc::ptr_eq(held, scalar));
        watch::bury_until(vec![scalar.clone()], points);
    }

    /// Takes the handle from everybody; none if that was done.
    pub(super) fn end(&mut self) -> Option<Handle> {
        // NCCL's end waits for them.
        self.gpu.end_graphs();
        let handle = self.shared.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let windows = self.windows.take().into_iter().map(|window| window.allocation);
        let held = self.held.take().into_iter().map(|(_, allocation)| allocation);
        self.shared.family.park(windows.chain(held), self.streams.take());
        handle
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        // Made, and then not wanted.
        if let Some(handle) = self.end() {
            let why = "its communicator was made, and then not wanted";
            self.shared.family.depart(self.shared.rank, why, Departure::AtOnce);
            self.shared.abort(handle, None);
        }
    }
}

/// A stream that waits for a signal, perhaps: the last that carried one-sided operations.
struct Waits {
    stream: Arc<CudaStream>,
    owing: Owing,
    /// What may wait for that stream.
    all: Vec<Arc<CudaStream>>,
}

impl Shared {
    /// Aborts a communicator, after a stream that others are about to free. Until NCCL is done with
    /// it, what is parked stays so. Where they are gone or do not free it, nobody waits for it any more.
    fn abort(self: &Arc<Self>, handle: Handle, waits: Option<Waits>) {
        let (shared, family) = (self.clone(), self.family.clone());
        // What NCCL does not let go is not waited for.
        let usual = if exit::is_lost(self.id) { SOON } else { PATIENCE };
        let patience = waits.as_ref().map_or(usual, |waits| waits.limit() + DOUBT);
        let limit = waits.as_ref().map(|waits| (waits.stream.clone(), waits.limit()));
        let first = move |comm| {
            if let Some((stream, limit)) = limit {
                settle(&stream, limit);
            }
            // A division may have been given up when the handle was out of the lock.
            if shared.dividing.try_lock().is_err() {
                shared.free(|| Some(comm));
            }
            drop(shared.revoking.lock());
            drop(shared.dividing.lock());
        };
        // SAFETY: the rank's thread ends the communicator, and whoever asks it for errors, revokes or
        // divides it takes the handle from the lock: it is no longer there. A revocation or a division
        // that had begun is over when its lock is free.
        let over =
            unsafe { handle.abort(self.nccl, self.id, patience, first, move || family.leave()) };
        if let Some(waits) = waits
            && !(over && settle(&waits.stream, SOON))
        {
            exit::lose(self.id);
            waits.all.iter().filter(|stream| !stream.is_idle()).for_each(|stream| stream.lose());
        }
    }

    /// Frees a thread that NCCL holds up, from outside; the communicator stays, for its end. It takes
    /// half a second, or for ever where a stream waits for a signal, so a thread of its own does it.
    /// False where the loaded NCCL cannot.
    pub(super) fn revoke(self: &Arc<Self>) -> bool {
        if self.nccl.api.ncclCommRevoke().is_err() {
            return false;
        }
        if self.revoked.swap(true, Relaxed) {
            return true;
        }
        let shared = self.clone();
        let raw = |shared: &Self| {
            let handle = shared.handle.lock().unwrap_or_else(PoisonError::into_inner);
            handle.as_ref().map(|handle| handle.raw)
        };
        let work = move || shared.free(|| raw(&shared));
        let thread = std::thread::Builder::new().name("NCCL revoke".to_owned());
        thread.spawn(work).is_ok()
    }

    /// Revokes it, if it is there and the loaded NCCL can. Once: NCCL refuses to do it again.
    fn free(&self, comm: impl FnOnce() -> Option<ncclComm_t>) {
        let Ok(revoke) = self.nccl.api.ncclCommRevoke() else { return };
        let mut is_done = self.revoking.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(raw), false) = (comm(), *is_done) else { return };
        let Some(_inside) = exit::enter(self.id) else { return };
        *is_done = true;
        // SAFETY: the communicator lives: its end waits for the lock, or is what asks. NCCL lets another
        // thread revoke it while its own is inside a call.
        let result = unsafe { revoke(raw, NCCL_REVOKE_DEFAULT) };
        if let Err(error) = self.nccl.check("ncclCommRevoke", None, result) {
            log::warn!("{error}");
        }
    }

    /// Makes a call that divides it; none if it has ended. The end waits for it.
    pub(super) fn divides<R>(&self, call: impl FnOnce(ncclComm_t) -> R) -> Option<R> {
        let _dividing = self.dividing.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let raw = handle.as_ref().map(|handle| handle.raw);
        drop(handle);
        raw.map(call)
    }

    /// Whether it can only be aborted.
    pub(super) fn is_revoked(&self) -> bool {
        self.revoked.load(Relaxed)
    }

    /// Looks for what NCCL found out by itself, and for ranks that call something else.
    pub(super) fn look(&self, health: &Health) {
        if !health.is_well() {
            return;
        }
        if let Some(error) = self.async_error() {
            // A process that dies takes its connections with it; that it died is heard a moment later.
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

    fn desync(&self) -> Option<Error> {
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        self.family.desync(self.rank, &mut compared)
    }

    pub(super) fn async_error(&self) -> Option<Error> {
        // Somebody else asks, or ends it.
        let handle = match self.handle.try_lock() {
            Ok(handle) => handle,
            Err(TryLockError::Poisoned(handle)) => handle.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let comm = handle.as_ref()?.raw;
        let mut state = ncclResult_t::ncclSuccess;
        // SAFETY: the communicator lives: its end takes the handle out of the lock first. NCCL lets
        // one thread ask while another enqueues.
        let asked = unsafe { (self.nccl.async_error)(comm, &raw mut state) };
        let result = if asked == ncclResult_t::ncclSuccess { state } else { asked };
        match result {
            ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress => None,
            _ => Some(self.nccl.failed("ncclCommGetAsyncError", None, result)),
        }
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

/// How long others may take to free a stream.
const SETTLING: Duration = Duration::from_millis(700);

/// How long a stream may take for which everything has come.
const SOON: Duration = Duration::from_millis(20);

/// Waits for a stream that others are about to free: NCCL's abort of a communicator whose stream waits
/// for a signal may not return. Whether it is free.
fn settle(stream: &CudaStream, limit: Duration) -> bool {
    let started = Instant::now();
    while !stream.is_idle() {
        if started.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

// SAFETY: NCCL's kernels are over when their streams say so, and memory is given out again only then;
// memory in windows stays until every rank of the process has ended.
unsafe impl Lifecycle for CudaBackend {
    type Comm = Comm;
    type Operator = Operator;
    type Joining = Joining;
    type Dividing = Making;

    fn release() -> String {
        // Without one, joining says why.
        super::library::version()
            .map_or_else(|_| String::new(), |version| format!("NCCL {version}"))
    }

    fn place(ordinal: u32) -> Option<String> {
        Gpu::open(ordinal).ok()?.place()
    }

    fn offers(config: &CommConfig) -> Result<()> {
        config::offers(Nccl::load()?, config)
    }

    fn join(join: Join, from: Option<Making>) -> Result<Joining> {
        Joining::start(join, from)
    }

    fn divide(comm: &Comm, part: &Part) -> Result<Option<Making>> {
        comm.divide(part)
    }

    fn leaves_out(comm: &Comm) -> bool {
        comm.leaves_out()
    }

    fn divided(dividing: &mut Making) -> Result<bool> {
        dividing.poll().map(|over| over.is_some())
    }

    fn joined(joining: &mut Joining) -> Result<Option<Comm>> {
        joining.made()
    }

    fn keep(comm: &Comm) {
        let mut handle = comm.shared.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = &mut *handle {
            handle.is_lent = false;
        }
    }

    fn can_suspend(comm: &Comm) -> Result<()> {
        comm.can_suspend()
    }

    fn suspend(comm: &Comm) -> Result<Option<Making>> {
        comm.suspend().map(Some)
    }

    fn resume(comm: &Comm) -> Result<Option<Making>> {
        comm.resume().map(Some)
    }

    fn memory(comm: &Comm) -> Result<MemoryStats> {
        comm.memory_stats()
    }

    fn properties(comm: &Comm, known: Properties) -> Result<Properties> {
        comm.properties(known)
    }

    fn absent(id: u64, rank: Rank, why: &str) {
        family::absent(id, rank, why);
    }

    fn is_idle(comm: &Comm) -> bool {
        comm.streams.borrow().iter().all(|stream| stream.is_idle())
    }

    fn pace(comm: &Comm) -> Box<dyn Pace> {
        let family = Arc::downgrade(&comm.shared.family);
        Box::new(Place { family, rank: comm.shared.rank })
    }

    fn departer(comm: &Comm) -> Departer {
        let shared = comm.shared.clone();
        Box::new(move |why, how| shared.family.depart(shared.rank, why, how))
    }

    fn pre_mul_sum(comm: &Comm, dtype: DType, mut scalar: [u8; 8]) -> Result<Operator> {
        let residence = ncclScalarResidence_t::ncclScalarHostImmediate;
        let number = create(comm, dtype, scalar.as_mut_ptr().cast(), residence)?;
        Ok(Operator { number, scalar: None })
    }

    fn pre_mul_sum_device(
        comm: &Comm,
        dtype: DType,
        scalar: &Arc<Allocation<Self>>,
    ) -> Result<Operator> {
        let residence = ncclScalarResidence_t::ncclScalarDevice;
        let number = create(comm, dtype, scalar.block().address(), residence)?;
        comm.held.borrow_mut().push((None, scalar.clone()));
        Ok(Operator { number, scalar: Some(scalar.clone()) })
    }

    fn drop_operator(comm: &Comm, operator: Operator) {
        let Ok(destroy) = comm.nccl.api.ncclRedOpDestroy() else { return };
        // SAFETY: the operator is this communicator's, and no call names it any more.
        let result = unsafe { destroy(operator.number, comm.handle) };
        if let Err(error) = comm.check("ncclRedOpDestroy", result) {
            log::warn!("{error}");
        } else if let Some(scalar) = operator.scalar {
            comm.let_go(&scalar);
        }
    }

    fn last_words(comm: &Comm) -> Vec<u8> {
        comm.shared.family.last_words()
    }

    fn conclude(comm: &Comm, words: &[Arc<[u8]>]) -> Result<()> {
        for (rank, words) in words.iter().enumerate() {
            comm.shared.family.hear_last_words(rank, words);
        }
        comm.shared.desync().map_or(Ok(()), Err)
    }

    fn unawaited(comm: &Comm) -> Vec<Surplus> {
        comm.shared.family.signals.unawaited(comm.shared.rank)
    }

    fn unmet(comm: &Comm) -> Option<Error> {
        comm.shared.family.unmet(comm.shared.rank)
    }

    fn finalize(mut comm: Comm) {
        // What NCCL found out by itself makes destroying an error that leaves a group open.
        let error = comm.shared.async_error();
        let Some(handle) = comm.end() else { return };
        let destroy = comm.nccl.api.ncclCommDestroy();
        // Nobody revokes or divides it from here on: the handle is out of the lock.
        let shared = &comm.shared;
        let busy = shared.revoking.try_lock().is_err() || shared.dividing.try_lock().is_err();
        let (None, Ok(destroy), false) = (&error, destroy, busy) else {
            return comm.shared.abort(handle, None);
        };
        let Some(_inside) = exit::enter(comm.shared.id) else { return };
        // SAFETY: every rank is idle and nobody else has the handle. NCCL finalises by itself when the
        // last rank of this process destroys.
        let result = unsafe { destroy(handle.raw) };
        match comm.nccl.check("ncclCommDestroy", None, result) {
            Ok(()) => comm.shared.family.leave(),
            // NCCL may still name what is parked: it stays.
            Err(error) => log::warn!("{error}"),
        }
    }

    fn abort(mut comm: Comm, why: &str) {
        comm.shared.family.depart(comm.shared.rank, why, Departure::AtOnce);
        comm.release_waits();
        let owing = comm.shared.family.owing(comm.shared.rank);
        let (last, all) = (comm.last_one_sided.take(), comm.streams.borrow().clone());
        let waits = last.zip(owing).map(|(stream, owing)| Waits { stream, owing, all });
        if let Some(handle) = comm.end() {
            comm.shared.abort(handle, waits);
        }
    }
}

fn create(
    comm: &Comm,
    dtype: DType,
    scalar: *mut c_void,
    residence: ncclScalarResidence_t,
) -> Result<ncclRedOp_t> {
    comm.gpu.bind()?;
    values::knows(comm.nccl, dtype)?;
    let missing = |missing| unsupported("an operator", missing);
    let create = comm.nccl.api.ncclRedOpCreatePreMulSum().map_err(missing)?;
    let mut number = ncclRedOp_t::ncclSum;
    // SAFETY: `number` is a place for an operator; the scalar is one element of the type, on the host
    // and read before the call returns, or on the device and kept until the communicator ends.
    let result =
        unsafe { create(&raw mut number, scalar, values::dtype(dtype), residence, comm.handle) };
    comm.check("ncclRedOpCreatePreMulSum", result).map_err(|error| comm.poison(error))?;
    Ok(number)
}

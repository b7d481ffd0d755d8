//! Streams.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use cudarc::driver::{self as theirs, DriverError, result, sys};

use super::event::Event;
use super::{CudaBackend, Gpu, Recorded, driver};
use crate::Result;
use crate::backend::{Blame, Keeps, Streams, Timing};
use crate::error::Error;
use crate::lock::Mutex;
use crate::nccl::{Captured, Traffic};

/// The streams of one GPU.
#[derive(Default)]
pub(super) struct StreamPool {
    /// All of them.
    all: Mutex<Vec<Raw>>,
    /// Streams out of use, each with its priority. Work enqueued on them may still run.
    free: Mutex<Vec<(i32, Raw)>>,
    /// Streams that capture from time to time: never asked whether they are busy.
    capture: Mutex<Vec<Raw>>,
    /// All streams that capture.
    captures: Mutex<Vec<Raw>>,
}

impl StreamPool {
    pub(super) fn any_busy(&self) -> bool {
        let all = self.all.lock().clone();
        // After a fault nothing runs any more.
        all.into_iter().any(|raw| !is_idle(raw).unwrap_or(true))
    }
}

#[derive(Clone, Copy)]
struct Raw(sys::CUstream);

impl Raw {
    /// A new stream; the GPU's context is current. 0 is the default priority.
    fn new(gpu: &Gpu, priority: i32) -> Result<Self> {
        let made = match priority {
            0 => result::stream::create(result::stream::StreamKind::NonBlocking),
            _ => with_priority(priority),
        };
        made.map(Self).map_err(|error| driver::failed("opening a stream", gpu.ordinal(), error))
    }
}

// SAFETY: a stream of CUDA's may be used from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above; the driver locks it.
unsafe impl Sync for Raw {}

/// A queue of work on a GPU. Streams of ours and CUDA's default stream do not wait for each other.
pub struct CudaStream {
    raw: Raw,
    gpu: &'static Gpu,
    origin: Origin,
    /// Set if it is known to wait for something that never comes.
    lost: AtomicBool,
    /// The communicators that used it, for reports.
    pub(crate) traffic: Traffic,
    /// The capture, if there is one.
    captured: Option<Arc<Mutex<Captured>>>,
}

enum Origin {
    Ours {
        priority: i32,
    },
    /// Ours, for captures.
    Captures,
    /// Made by others; holds the guard if cudarc made it.
    Theirs(Option<Arc<theirs::CudaStream>>),
    /// Made by others, who keep it alive as long as this exists.
    Kept(Keeps),
}

impl CudaStream {
    /// A stream of this priority.
    pub(crate) fn open(gpu: &'static Gpu, priority: i32) -> Result<Arc<Self>> {
        gpu.bind()?;
        let mut free = gpu.streams.free.lock();
        // A stream whose work is over is as good as a new one.
        let is_like = |&(other, raw): &(i32, Raw)| other == priority && is_idle(raw) == Ok(true);
        let idle = free.iter().position(is_like).map(|index| free.swap_remove(index).1);
        drop(free);
        let raw = match idle {
            Some(raw) => raw,
            None => {
                let raw = Raw::new(gpu, priority)?;
                gpu.streams.all.lock().push(raw);
                raw
            }
        };
        Ok(Self::of(gpu, raw, Origin::Ours { priority }, None))
    }

    /// A stream for captures.
    pub(super) fn capturing(
        gpu: &'static Gpu,
        captured: Arc<Mutex<Captured>>,
    ) -> Result<Arc<Self>> {
        gpu.bind()?;
        let free = gpu.streams.capture.lock().pop();
        let raw = match free {
            Some(raw) => raw,
            None => {
                let raw = Raw::new(gpu, 0)?;
                gpu.streams.captures.lock().push(raw);
                raw
            }
        };
        Ok(Self::of(gpu, raw, Origin::Captures, Some(captured)))
    }

    /// Adopts a stream that others made.
    ///
    /// # Safety
    /// It belongs to the GPU's primary context, and lives as long as `keeps`.
    pub(crate) unsafe fn adopt(
        gpu: &'static Gpu,
        handle: *mut c_void,
        keeps: Option<Arc<theirs::CudaStream>>,
    ) -> Arc<Self> {
        Self::of(gpu, Raw(handle.cast()), Origin::Theirs(keeps), None)
    }

    /// Adopts a stream that others made.
    ///
    /// # Safety
    /// As for [`adopt`](Self::adopt).
    pub(crate) unsafe fn keep(gpu: &'static Gpu, handle: *mut c_void, keeps: Keeps) -> Arc<Self> {
        Self::of(gpu, Raw(handle.cast()), Origin::Kept(keeps), None)
    }

    fn of(
        gpu: &'static Gpu,
        raw: Raw,
        origin: Origin,
        captured: Option<Arc<Mutex<Captured>>>,
    ) -> Arc<Self> {
        let (lost, traffic) = (AtomicBool::new(false), Traffic::default());
        Arc::new(Self { raw, gpu, origin, lost, traffic, captured })
    }

    /// Whether it is capturing.
    pub(crate) fn is_capturing(&self) -> bool {
        self.captured.is_some()
    }

    /// Updates the capture's record.
    pub(crate) fn captures(&self, note: impl FnOnce(&mut Captured)) {
        if let Some(captured) = &self.captured {
            note(&mut captured.lock());
        }
    }

    #[inline]
    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw.0
    }

    /// The handle for NCCL.
    #[inline]
    pub(crate) fn handle(&self) -> *mut c_void {
        self.raw.0.cast()
    }

    /// The stream for cudarc.
    pub(super) fn to_cudarc(&self) -> Arc<theirs::CudaStream> {
        match &self.origin {
            Origin::Theirs(Some(theirs)) => return theirs.clone(),
            // cudarc's stream can outlive this one, so the handle is never released.
            Origin::Kept(keeps) => std::mem::forget(keeps.clone()),
            _ => {}
        }
        // SAFETY: streams of ours are never destroyed, a kept stream is not destroyed from now on,
        // and for any other the caller of `adopt` promised it.
        unsafe { self.gpu.context().wrap_borrowed_stream(self.raw.0) }
    }

    /// Orders later work here after the present work on `other`, a stream of this GPU.
    pub(crate) fn after(&self, other: sys::CUstream) -> Result<()> {
        self.gpu.bind()?;
        self.wait(self.raw.0, &Event::recorded(self.gpu, other)?)
    }

    /// Orders later work on `other`, a stream of this GPU, after the present work here.
    pub(crate) fn before(&self, other: sys::CUstream) -> Result<()> {
        self.gpu.bind()?;
        self.wait(other, &Event::recorded(self.gpu, self.raw.0)?)
    }

    fn wait(&self, stream: sys::CUstream, event: &Event) -> Result<()> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: both are alive; the driver keeps what it needs of the event.
        unsafe { result::stream::wait_event(stream, event.raw(), flags) }
            .map_err(|error| driver::failed("waiting for an event", self.gpu.ordinal(), error))
    }

    pub(super) fn wait_for_launch(&self, event: &Event) -> Result<()> {
        self.wait(self.raw.0, event)
    }

    pub(super) fn gpu(&self) -> &'static Gpu {
        self.gpu
    }

    /// Whether everything enqueued so far is over.
    pub(crate) fn is_idle(&self) -> bool {
        // After a fault nothing runs any more; the events report it to waiters.
        self.gpu.bind().is_err() || is_idle(self.raw).unwrap_or(true)
    }

    /// Whether it is of this GPU, and has work that is not over. A stream that captures has none,
    /// and a query would break its capture.
    pub(crate) fn is_busy_on(&self, ordinal: u32) -> bool {
        self.gpu.ordinal() == ordinal
            && self.gpu.is_captured(self.raw.0) == Ok(false)
            && !self.is_idle()
    }

    /// Whether it has work that is not over, as [`is_busy_on`](Self::is_busy_on) sees it.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy_on(self.gpu.ordinal())
    }

    /// Marks a stream that waits for something that never comes, so that it is not waited for.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Relaxed)
    }
}

impl Gpu {
    /// Whether a stream is capturing a graph, or is one that captures from time to time.
    pub(crate) fn is_captured(&'static self, stream: sys::CUstream) -> Result<bool> {
        let captures = self.streams.captures.lock();
        if captures.iter().any(|raw| raw.0 == stream) {
            return Ok(true);
        }
        drop(captures);
        self.bind()?;
        // SAFETY: the stream is alive, as the caller who named it promised.
        match unsafe { result::stream::is_capturing(stream) } {
            Ok(status) => Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE),
            Err(error) => Err(driver::failed("looking at a stream", self.ordinal(), error)),
        }
    }
}

fn with_priority(priority: i32) -> Result<sys::CUstream, DriverError> {
    let mut stream = MaybeUninit::uninit();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: a context is current, and there is room for the stream.
    let made = unsafe { sys::cuStreamCreateWithPriority(stream.as_mut_ptr(), flags, priority) };
    made.result()?;
    // SAFETY: CUDA has succeeded, and so has written it.
    Ok(unsafe { stream.assume_init() })
}

/// The most and the least urgent priority that streams of the current context can have.
fn priorities() -> Result<RangeInclusive<i32>, DriverError> {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: a context is current, and both are written.
    unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest) }.result()?;
    Ok(greatest..=least)
}

impl Gpu {
    /// The priorities of streams, the most urgent one first.
    pub(crate) fn priorities(&self) -> Result<RangeInclusive<i32>> {
        self.bind()?;
        priorities().map_err(|error| {
            driver::failed("asking for the priorities of streams", self.ordinal(), error)
        })
    }
}

fn is_idle(raw: Raw) -> Result<bool, DriverError> {
    driver::is_asked();
    // SAFETY: streams of ours are never destroyed, others are kept.
    match unsafe { sys::cuStreamQuery(raw.0) } {
        sys::CUresult::CUDA_SUCCESS => Ok(true),
        sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        error => Err(DriverError(error)),
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        match self.origin {
            Origin::Ours { priority } => self.gpu.streams.free.lock().push((priority, self.raw)),
            Origin::Captures => self.gpu.streams.capture.lock().push(self.raw),
            _ => {}
        }
    }
}

// SAFETY: an event is reached when all work enqueued before it is over, and the driver makes the
// device's writes visible to the thread that queries it; a stream that waits for an event runs
// later work after it.
unsafe impl Streams for CudaBackend {
    const ENDS_REACH_POINTS: bool = true;

    type Stream = Arc<CudaStream>;
    type Point = Recorded;

    fn open(ordinal: u32) -> Result<Arc<CudaStream>> {
        CudaStream::open(Gpu::open(ordinal)?, 0)
    }

    unsafe fn theirs(ordinal: u32, handle: usize, keeps: Option<Keeps>) -> Result<Arc<CudaStream>> {
        let (gpu, handle) = (Gpu::open(ordinal)?, std::ptr::with_exposed_provenance_mut(handle));
        Ok(match keeps {
            // SAFETY: the caller's promise.
            Some(keeps) => unsafe { CudaStream::keep(gpu, handle, keeps) },
            // SAFETY: as above.
            None => unsafe { CudaStream::adopt(gpu, handle, None) },
        })
    }

    fn captures(stream: &Arc<CudaStream>) -> Result<bool> {
        stream.gpu.is_captured(stream.raw.0)
    }

    fn point(stream: &Arc<CudaStream>) -> Result<Recorded> {
        Recorded::now(stream)
    }

    fn wait_for(stream: &Arc<CudaStream>, point: &Recorded) -> Result<()> {
        stream.gpu.bind()?;
        stream.wait(stream.raw.0, point.event())
    }

    fn reached(point: &Recorded) -> Result<bool> {
        point.reached()
    }

    fn is_drained(stream: &Arc<CudaStream>) -> bool {
        stream.is_idle()
    }

    fn pause(point: &Recorded, at_most: Duration) {
        // Short work is over before a sleep would be; an error is for the caller to see.
        let started = Instant::now();
        loop {
            if point.reached().unwrap_or(true) {
                return;
            }
            let waited = started.elapsed();
            if waited >= at_most {
                return;
            }
            match waited < SPIN {
                true => std::hint::spin_loop(),
                false => std::thread::sleep(NAP.min(at_most - waited)),
            }
        }
    }

    fn blame(point: &Recorded) -> Option<Blame> {
        point.stream().traffic.blame()
    }

    fn take_error(_: &Recorded) -> Option<Error> {
        None
    }
}

// SAFETY: the point is one of `Streams`.
unsafe impl Timing for CudaBackend {
    type Time = Recorded;

    fn timed(stream: &Arc<CudaStream>) -> Result<(Recorded, Recorded)> {
        let point = Recorded::timed(stream)?;
        Ok((point.clone(), point))
    }

    fn between(start: &Recorded, end: &Recorded) -> Result<Option<Duration>> {
        end.since(start)
    }
}

/// How long a wait spins before it sleeps.
const SPIN: Duration = Duration::from_micros(100);

/// How long each sleep is.
const NAP: Duration = Duration::from_micros(50);

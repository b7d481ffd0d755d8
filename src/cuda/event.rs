//! Events: points in a stream's order, reused once nothing refers to them.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{DriverError, result, sys};

use super::{CudaStream, Gpu, driver};
use crate::Result;
use crate::config::{LaunchEvent, RawEvent};
use crate::error::Error;
use crate::lock::{Mutex, MutexGuard};

/// Unused events of one GPU.
#[derive(Default)]
pub(super) struct EventPool {
    plain: Mutex<Vec<Raw>>,
    timed: Mutex<Vec<Raw>>,
}

impl EventPool {
    fn of(&self, timed: bool) -> MutexGuard<'_, Vec<Raw>> {
        let pool = if timed { &self.timed } else { &self.plain };
        pool.lock()
    }
}

#[derive(Clone, Copy)]
struct Raw(sys::CUevent);

// SAFETY: an event of CUDA's may be used from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above; the driver locks it.
unsafe impl Sync for Raw {}

/// A recorded event.
pub(super) struct Event {
    raw: Raw,
    gpu: &'static Gpu,
    /// Whether it records the time, which costs the device more.
    timed: bool,
}

impl Event {
    /// Records a point in a stream of `gpu`, whose context is current.
    pub(super) fn recorded(gpu: &'static Gpu, stream: sys::CUstream) -> Result<Self> {
        Self::new(gpu, false)?.record(stream)
    }

    fn record(self, stream: sys::CUstream) -> Result<Self> {
        // SAFETY: both are the driver's, of one device, and alive.
        unsafe { result::event::record(self.raw.0, stream) }
            .map_err(|error| driver::failed("recording an event", self.gpu.ordinal(), error))?;
        Ok(self)
    }

    /// Records the point after all work on the device, on any stream. `None` if the driver cannot
    /// (before CUDA 12.5), or cannot now (a stream is capturing).
    pub(super) fn of_all(gpu: &'static Gpu) -> Result<Option<Self>> {
        let Some(record) = driver::record_all() else { return Ok(None) };
        let event = Self::new(gpu, false)?;
        // SAFETY: both are the driver's, of one device, and alive.
        match unsafe { record(gpu.context().cu_ctx(), event.raw.0) } {
            sys::CUresult::CUDA_SUCCESS => Ok(Some(event)),
            sys::CUresult::CUDA_ERROR_NOT_SUPPORTED
            | sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => Ok(None),
            error => {
                let error = DriverError(error);
                Err(driver::failed("recording an event", gpu.ordinal(), error))
            }
        }
    }

    /// An event of `gpu`, whose context is current.
    fn new(gpu: &'static Gpu, timed: bool) -> Result<Self> {
        let pooled = gpu.events.of(timed).pop();
        let flags = match timed {
            true => sys::CUevent_flags::CU_EVENT_DEFAULT,
            false => sys::CUevent_flags::CU_EVENT_DISABLE_TIMING,
        };
        let raw = match pooled {
            Some(raw) => raw,
            None => Raw(result::event::create(flags)
                .map_err(|error| driver::failed("recording an event", gpu.ordinal(), error))?),
        };
        // It returns to the list by itself.
        Ok(Self { raw, gpu, timed })
    }

    /// Whether all work before it is over. Never blocks.
    pub(super) fn reached(&self) -> Result<bool> {
        driver::is_asked();
        // SAFETY: the event is alive: it returns to the list only when `self` is dropped.
        match unsafe { result::event::query(self.raw.0) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(driver::failed("work", self.gpu.ordinal(), error)),
        }
    }

    pub(super) fn raw(&self) -> sys::CUevent {
        self.raw.0
    }

    /// Blocks until it is reached.
    pub(super) fn sync(&self) -> Result<(), DriverError> {
        // SAFETY: as in `reached`.
        unsafe { result::event::synchronize(self.raw.0) }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // Recording it again moves it; streams that already wait keep waiting for the old point.
        self.gpu.events.of(self.timed).push(self.raw);
    }
}

/// An event for NCCL to record at a collective's launch.
pub(crate) fn launch_event(gpu: &'static Gpu) -> Result<LaunchEvent> {
    gpu.bind()?;
    Event::new(gpu, false).map(LaunchEvent::new)
}

/// Makes later work on a stream wait for an event recorded at a launch.
pub(crate) fn hold(event: &LaunchEvent, stream: &Arc<CudaStream>) -> Result<()> {
    let Some(event) = event.raw::<Event>() else {
        return Err(Error::other(
            "`wait_launched` takes events of `Cuda::launch_event`; for one of another library, call `cudaStreamWaitEvent`",
        ));
    };
    event.gpu.bind()?;
    stream.wait_for_launch(event)
}

impl RawEvent for Event {
    fn ordinal(&self) -> u32 {
        self.gpu.ordinal()
    }

    fn handle(&self) -> *mut c_void {
        self.raw().cast()
    }
}

/// A point in a stream's order.
#[derive(Clone)]
pub struct Recorded(Arc<Inner>);

struct Inner {
    event: Event,
    stream: Arc<CudaStream>,
}

impl Recorded {
    pub(super) fn now(stream: &Arc<CudaStream>) -> Result<Self> {
        Self::of(stream, false)
    }

    /// A point that records when it is reached.
    pub(super) fn timed(stream: &Arc<CudaStream>) -> Result<Self> {
        Self::of(stream, true)
    }

    fn of(stream: &Arc<CudaStream>, timed: bool) -> Result<Self> {
        let gpu = stream.gpu();
        gpu.bind()?;
        let event = Event::new(gpu, timed)?.record(stream.raw())?;
        Ok(Self(Arc::new(Inner { event, stream: stream.clone() })))
    }

    /// The time from `start` to this point; both are timed, and of one device.
    pub(super) fn since(&self, start: &Self) -> Result<Option<Duration>> {
        if !start.reached()? || !self.reached()? {
            return Ok(None);
        }
        let (start, end) = (start.event(), self.event());
        end.gpu.bind()?;
        let failed = |error| driver::failed("timing", end.gpu.ordinal(), DriverError(error));
        let elapsed = driver::elapsed();
        let elapsed = elapsed.ok_or_else(|| failed(sys::CUresult::CUDA_ERROR_NOT_FOUND))?;
        let mut milliseconds = 0.0;
        // SAFETY: both are alive, of one device, and recorded; the number is valid for the write.
        match unsafe { elapsed(&raw mut milliseconds, start.raw(), end.raw()) } {
            sys::CUresult::CUDA_SUCCESS => {}
            error => return Err(failed(error)),
        }
        let seconds = f64::from(milliseconds) / 1e3;
        // Negative if the end came first.
        Ok(Some(Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    }

    pub(super) fn reached(&self) -> Result<bool> {
        self.0.event.reached()
    }

    pub(super) fn event(&self) -> &Event {
        &self.0.event
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.0.stream
    }
}

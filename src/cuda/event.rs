//! Events: points in a stream's order. Used again when nobody names them.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{DriverError, result, sys};

use super::{CudaStream, Gpu, driver};
use crate::Result;

/// Events of one GPU that nobody names.
#[derive(Default)]
pub(super) struct EventPool(Mutex<Vec<Raw>>);

#[derive(Clone, Copy)]
struct Raw(sys::CUevent);

// SAFETY: an event of CUDA's may be used from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above; the driver locks it.
unsafe impl Sync for Raw {}

/// An event that was recorded.
pub(super) struct Event {
    raw: Raw,
    gpu: &'static Gpu,
}

impl Event {
    /// Records a point in a stream of `gpu`, whose context is current.
    pub(super) fn recorded(gpu: &'static Gpu, stream: sys::CUstream) -> Result<Self> {
        let event = Self::new(gpu)?;
        // SAFETY: both are the driver's, of one device, and alive.
        unsafe { result::event::record(event.raw.0, stream) }
            .map_err(|error| driver::failed("recording an event", gpu.ordinal(), error))?;
        Ok(event)
    }

    /// Records the point after everything that the device does, on whoever's streams. None where the
    /// driver cannot (before CUDA 12.5), or not now (a stream of somebody's records a graph).
    pub(super) fn of_all(gpu: &'static Gpu) -> Result<Option<Self>> {
        let Some(record) = driver::record_all() else { return Ok(None) };
        let event = Self::new(gpu)?;
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
    fn new(gpu: &'static Gpu) -> Result<Self> {
        let pooled = gpu.events.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let raw = match pooled {
            Some(raw) => raw,
            None => Raw(result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
                .map_err(|error| driver::failed("recording an event", gpu.ordinal(), error))?),
        };
        // It goes back to the list by itself.
        Ok(Self { raw, gpu })
    }

    /// Whether what was enqueued before it is over. Never blocks.
    pub(super) fn reached(&self) -> Result<bool> {
        // SAFETY: the event is alive: it goes back to the list when `self` is dropped.
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
        // Recording it again gives it a new meaning; streams that were told to wait for the old one
        // keep that.
        self.gpu.events.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.raw);
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
        let gpu = stream.gpu();
        gpu.bind()?;
        let event = Event::recorded(gpu, stream.raw())?;
        Ok(Self(Arc::new(Inner { event, stream: stream.clone() })))
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

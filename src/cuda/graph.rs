//! CUDA graphs: capture on streams, launch, and disposal.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::{CudaStream, Gpu, driver};
use crate::Result;
use crate::lock::Mutex;
use crate::nccl::Captured;

/// Graphs of one GPU that are no longer launched.
#[derive(Default)]
pub(super) struct GraphPool(Mutex<Vec<Raw>>);

struct Raw(sys::CUgraphExec);

// SAFETY: a CUDA graph is bound to no thread; one thread at a time has it.
unsafe impl Send for Raw {}

/// An executable graph.
pub struct CudaGraph {
    /// Taken only by `drop`.
    raw: Raw,
    gpu: &'static Gpu,
    /// The calls that each launch makes.
    pub(crate) calls: Captured,
}

impl CudaGraph {
    /// Captures the work that `enqueue` enqueues on this many streams, which are forked from the
    /// first and joined again.
    pub(crate) fn capture(
        gpu: &'static Gpu,
        streams: usize,
        enqueue: impl FnOnce(&[Arc<CudaStream>]) -> Result<()>,
    ) -> Result<Self> {
        gpu.end_graphs();
        let calls = Arc::<Mutex<Captured>>::default();
        let stream = |_| CudaStream::capturing(gpu, calls.clone());
        let streams: Vec<_> = (0..streams.max(1)).map(stream).collect::<Result<_>>()?;
        let capturing = Capturing::begin(gpu, &streams[0])?;
        for other in &streams[1..] {
            streams[0].before(other.raw())?;
        }
        enqueue(&streams)?;
        for other in &streams[1..] {
            streams[0].after(other.raw())?;
        }
        let raw = capturing.end()?;
        let calls = std::mem::take(&mut *calls.lock());
        Ok(Self { raw, gpu, calls })
    }

    /// Enqueues it.
    ///
    /// # Safety
    /// The memory that the graph touches lives until the launch is over.
    pub(crate) unsafe fn launch(&self, stream: &CudaStream) -> Result<()> {
        self.gpu.bind()?;
        // SAFETY: graph and stream are alive, of one context; the rest is the caller's promise.
        unsafe { result::graph::launch(self.raw.0, stream.raw()) }
            .map_err(|error| driver::failed("launching a graph", self.gpu.ordinal(), error))
    }
}

impl Drop for CudaGraph {
    fn drop(&mut self) {
        let raw = Raw(self.raw.0);
        self.gpu.graphs.0.lock().push(raw);
    }
}

impl Gpu {
    /// Destroys unused graphs, before anything that they refer to ends. A launch that is under way
    /// continues.
    pub(crate) fn end_graphs(&'static self) {
        let ended = std::mem::take(&mut *self.graphs.0.lock());
        if ended.is_empty() || self.bind().is_err() {
            return;
        }
        for Raw(graph) in ended {
            // SAFETY: it is on no list any more, and nobody launches it.
            if let Err(error) = unsafe { result::graph::exec_destroy(graph) } {
                log::warn!("{}", driver::failed("ending a graph", self.ordinal(), error));
            }
        }
    }
}

/// A capturing stream; dropping it discards the capture.
struct Capturing<'s> {
    gpu: &'static Gpu,
    stream: &'s CudaStream,
    is_over: bool,
}

impl<'s> Capturing<'s> {
    fn begin(gpu: &'static Gpu, stream: &'s CudaStream) -> Result<Self> {
        gpu.bind()?;
        // Relaxed mode: other threads continue as usual, and so does this one, since the first
        // operation of its kind connects ranks, for which NCCL maps memory.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream is alive, and nobody else has it.
        unsafe { result::stream::begin_capture(stream.raw(), mode) }
            .map_err(|error| driver::failed("capturing", gpu.ordinal(), error))?;
        Ok(Self { gpu, stream, is_over: false })
    }

    fn end(mut self) -> Result<Raw> {
        self.is_over = true;
        let failed = |error| driver::failed("capturing", self.gpu.ordinal(), error);
        // SAFETY: the capture was begun on this thread.
        let graph = unsafe { result::stream::end_capture(self.stream.raw()) }.map_err(failed)?;
        let flags = sys::CUgraphInstantiate_flags(0);
        // SAFETY: the graph was made above.
        let made = unsafe { result::graph::instantiate(graph, flags) }.map(Raw);
        // SAFETY: as above; the executable graph does not need it.
        let destroyed = unsafe { result::graph::destroy(graph) };
        destroyed.map_err(failed)?;
        made.map_err(failed)
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // SAFETY: the capture was begun on this thread.
        match unsafe { result::stream::end_capture(self.stream.raw()) } {
            Ok(graph) if !graph.is_null() => {
                // SAFETY: it was made above.
                let _ = unsafe { result::graph::destroy(graph) };
            }
            // The capture broke, so there is no graph.
            _ => {}
        }
    }
}

//! CUDA graphs: what a stream captures, and what becomes of it.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::{CudaStream, Gpu, driver};
use crate::Result;
use crate::lock::Mutex;
use crate::nccl::Captured;

/// Graphs of one GPU that nobody launches any more.
#[derive(Default)]
pub(super) struct GraphPool(Mutex<Vec<Raw>>);

struct Raw(sys::CUgraphExec);

// SAFETY: a graph of CUDA's is bound to no thread; one thread at a time has it.
unsafe impl Send for Raw {}

/// A graph that can be launched.
pub struct CudaGraph {
    /// Taken by `drop` only.
    raw: Raw,
    gpu: &'static Gpu,
    /// What a launch of it calls.
    pub(crate) calls: Captured,
}

impl CudaGraph {
    /// Captures what `enqueue` enqueues on so many streams, which are forked from the first and joined
    /// again.
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
    /// What it touches is there until the launch is over.
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
    /// Ends the graphs that nobody launches any more: before what they name ends. A launch that is under
    /// way goes on.
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

/// A stream that captures; dropped, it is thrown away what it captured.
struct Capturing<'s> {
    gpu: &'static Gpu,
    stream: &'s CudaStream,
    is_over: bool,
}

impl<'s> Capturing<'s> {
    fn begin(gpu: &'static Gpu, stream: &'s CudaStream) -> Result<Self> {
        gpu.bind()?;
        // Other threads go on with whatever they do, and this one too: an operation that is the first of its
        // kind connects ranks, for which NCCL maps memory.
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
        // SAFETY: as above; what was instantiated does not need it.
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
            // It was broken: there is none.
            _ => {}
        }
    }
}

//! Graphs: operations that are enqueued once and launched often.

use std::sync::Arc;

use super::{Allocation, Backend, Op, Operations};
use crate::Result;

/// Graphs.
///
/// # Safety
/// A launch touches the memory that the captured operations name, in stream order, and nothing
/// else.
pub unsafe trait Graphs: Operations {
    /// Whether the device captures graphs. Otherwise a launch repeats the calls.
    const ARE_CAPTURED: bool;

    /// A graph on the device. It is dropped before the communicators it was captured on end, and
    /// before a window that it names is closed. Dropping it does not call the device.
    type Graph: Send + 'static;

    /// Allows two threads to use the memory from now on: its owner's, and one that launches a graph
    /// over it.
    fn lease(comm: &Self::Comm, allocation: &Arc<Allocation<Self>>)
    where
        Self: Backend,
    {
        let _ = (comm, allocation);
    }

    /// Repeats the calls of a launch, if the device does not capture. If one of their closures
    /// panics, this rank refuses the operations after it.
    ///
    /// # Errors
    /// Those of `calls`.
    fn replay(stream: &Self::Stream, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        let _ = stream;
        calls()
    }

    /// The device memory that holds an operator's scalar, read at each launch.
    fn scalar(operator: &Self::Operator) -> Option<&Arc<Allocation<Self>>>
    where
        Self: Backend,
    {
        let _ = operator;
        None
    }

    /// Checks whether an operation can be captured, before any is.
    ///
    /// # Errors
    /// It cannot.
    fn can_capture(comm: &Self::Comm, op: &Op<'_, Self>) -> Result<()>
    where
        Self: Backend,
    {
        let _ = (comm, op);
        Ok(())
    }

    /// Describes how NCCL knows the memory of an operation, if NCCL's choice of path depends on it;
    /// empty otherwise. A graph requires the same on all ranks.
    fn memory_of(comm: &Self::Comm, op: &Op<'_, Self>) -> &'static str
    where
        Self: Backend,
    {
        let _ = (comm, op);
        ""
    }

    /// Captures what `enqueue` enqueues on the given number of streams, all of which start after
    /// earlier work on the first. Called only if graphs [`ARE_CAPTURED`](Self::ARE_CAPTURED).
    /// `enqueue` enqueues operations of these communicators only.
    ///
    /// # Errors
    /// Those of `enqueue`; the device reports an error. The communicators are then poisoned,
    /// because other ranks may have captured more than this one.
    fn capture(
        comms: &[&Self::Comm],
        streams: usize,
        enqueue: impl FnOnce(&[Self::Stream]) -> Result<()>,
    ) -> Result<Self::Graph>;

    /// Enqueues a graph; the host does not wait.
    ///
    /// # Errors
    /// The device reports an error. The communicators are then poisoned, because other ranks may
    /// have launched the graph.
    ///
    /// # Safety
    /// The communicators are those that it was captured on. Its memory stays alive until the launch
    /// has completed, and every earlier conflicting use of it is ordered before the launch.
    unsafe fn launch_graph(
        comms: &[&Self::Comm],
        stream: &Self::Stream,
        graph: &Self::Graph,
    ) -> Result<()>;
}

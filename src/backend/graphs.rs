//! Graphs: operations that are enqueued once and launched often.

use std::sync::Arc;

use super::{Allocation, Backend, Op, Operations};
use crate::Result;

/// Graphs.
///
/// # Safety
/// A launch touches the memory that the captured operations name, in stream order, and nothing else.
pub unsafe trait Graphs: Operations {
    /// Whether a device captures what is enqueued; else a launch makes the same calls again.
    const ARE_CAPTURED: bool;

    /// A graph that the device has. It is dropped before the communicators that it was captured on end, and
    /// before a window that it names is closed; dropping it does not call the device.
    type Graph: Send + 'static;

    /// From now on two threads may use the memory: the one that has it, and the one that launches a graph
    /// over it.
    fn lease(comm: &Self::Comm, allocation: &Arc<Allocation<Self>>)
    where
        Self: Backend,
    {
        let _ = (comm, allocation);
    }

    /// Makes the calls of a launch again, where a device does not capture them. If a closure among them
    /// panics, this rank refuses its part in the operations behind it.
    ///
    /// # Errors
    /// Those of `calls`.
    fn replay(stream: &Self::Stream, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        let _ = stream;
        calls()
    }

    /// The device memory from which an operator's scalar is read at each launch.
    fn scalar(operator: &Self::Operator) -> Option<&Arc<Allocation<Self>>>
    where
        Self: Backend,
    {
        let _ = operator;
        None
    }

    /// Whether an operation can be captured: asked before any is.
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

    /// How NCCL knows the memory of an operation, for people, where it chooses its way by that; else nothing.
    /// Ranks of which it is not the same have no graph.
    fn memory_of(comm: &Self::Comm, op: &Op<'_, Self>) -> &'static str
    where
        Self: Backend,
    {
        let _ = (comm, op);
        ""
    }

    /// Captures what `enqueue` enqueues on the streams that it is given: as many as are asked for, all of
    /// them after what was enqueued on the first one before. Asked where graphs
    /// [`ARE_CAPTURED`](Self::ARE_CAPTURED). The communicators are all that it enqueues operations of.
    ///
    /// # Errors
    /// Those of `enqueue`; the device reports one. The communicators are poisoned then: their ranks may have
    /// captured more than this one.
    fn capture(
        comms: &[&Self::Comm],
        streams: usize,
        enqueue: impl FnOnce(&[Self::Stream]) -> Result<()>,
    ) -> Result<Self::Graph>;

    /// Enqueues a graph; the host does not wait.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// The communicators are those that it was captured on. Its memory is there until the launch is over,
    /// and every earlier use of it that conflicts is before the launch in stream order.
    unsafe fn launch_graph(
        comms: &[&Self::Comm],
        stream: &Self::Stream,
        graph: &Self::Graph,
    ) -> Result<()>;
}

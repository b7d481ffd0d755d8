//! Graphs: operations that NCCL enqueues on a capturing stream, and their launches.

use std::sync::Arc;

use super::comm::Comm;
use super::exact;
use super::family::Family;
use super::issue::{call, count, poison_all, possible};
use super::recorder::{Leg, Recorder};
use super::values::Operator;
use crate::Result;
use crate::backend::{Allocation, Graphs, Op, RankOps, Refusal};
use crate::cuda::{CudaBackend, CudaGraph, CudaStream};
use crate::error::Call;

/// The calls of each launch of a graph, which the comparison of the ranks' calls needs.
#[derive(Default)]
pub(crate) struct Captured {
    entries: Vec<Entry>,
    /// For each communicator, the driver's handle of the stream that captured its last kernel.
    last: Vec<(u64, usize)>,
}

struct Entry {
    recorder: Arc<Recorder>,
    family: Arc<Family>,
    rank: usize,
    what: What,
}

/// What a launch counts.
pub(super) enum What {
    /// A call, its turn, and, for a collective, which operands are in windows.
    Call(Call, Refusal, u8),
    /// A leg made by a kernel.
    Leg(Leg),
}

impl What {
    fn of(comm: &Comm, op: &Op<'_, CudaBackend>) -> Self {
        let memory = match op {
            Op::Collective(collective) => comm.memory(collective),
            _ => 0,
        };
        Self::Call(op.call(), op.refusal(), memory)
    }

    fn is_one_sided(&self) -> bool {
        matches!(self, Self::Call(_, Refusal::Signal(..) | Refusal::Wait(..), _))
    }
}

impl Entry {
    /// Counts it once more.
    fn count(&self) {
        let Self { recorder, family, rank, what } = self;
        match what {
            What::Call(call, turn, how) => count(recorder, (family, *rank), (call, *turn), *how),
            What::Leg(leg) => recorder.leg(leg),
        }
    }
}

/// Enqueues operations on a capturing stream. Nothing runs yet, so nothing is counted.
pub(super) fn capture(
    comm: &Comm,
    stream: &Arc<CudaStream>,
    ops: &[Op<'_, CudaBackend>],
) -> Result<()> {
    ops.iter().try_for_each(|op| {
        possible(comm, op)?;
        exact::prepare(comm, op, true)
    })?;
    record(comm, stream, ops.iter().map(|op| What::of(comm, op)));
    let part = RankOps { comm, stream, ops };
    comm.inside(|| call(std::slice::from_ref(&part)))
}

/// Records a captured kernel, and orders it after the previous one of its communicator.
pub(super) fn capture_kernel(
    comm: &Comm,
    stream: &Arc<CudaStream>,
    calls: Vec<What>,
) -> Result<()> {
    record(comm, stream, calls);
    follow_captured(comm, stream)
}

fn record(comm: &Comm, stream: &CudaStream, calls: impl IntoIterator<Item = What>) {
    stream.captures(|captured| {
        captured.entries.extend(calls.into_iter().map(|what| Entry {
            recorder: comm.recorder.clone(),
            family: comm.shared.family.clone(),
            rank: comm.shared.rank,
            what,
        }));
    });
}

/// Orders later work on a capturing stream after the communicator's last kernel in the graph.
pub(super) fn follow_captured(comm: &Comm, stream: &Arc<CudaStream>) -> Result<()> {
    let (id, here) = (comm.health.id(), stream.handle().addr());
    let mut last = None;
    stream.captures(|captured| {
        last = match captured.last.iter_mut().find(|(known, _)| *known == id) {
            Some((_, last)) => Some(std::mem::replace(last, here)),
            None => {
                captured.last.push((id, here));
                None
            }
        };
    });
    match last.filter(|last| *last != here) {
        Some(last) => stream.after(std::ptr::with_exposed_provenance_mut(last)),
        None => Ok(()),
    }
}

// SAFETY: a graph captures NCCL's calls and closures, which only access the memory they were given.
unsafe impl Graphs for CudaBackend {
    const ARE_CAPTURED: bool = true;

    type Graph = CudaGraph;

    fn scalar(operator: &Operator) -> Option<&Arc<Allocation<Self>>> {
        operator.scalar.as_ref()
    }

    fn can_capture(comm: &Comm, op: &Op<'_, Self>) -> Result<()> {
        comm.nccl.environment.allows_graphs()?;
        possible(comm, op)?;
        exact::prepare(comm, op, true)
    }

    fn memory_of(comm: &Comm, op: &Op<'_, Self>) -> &'static str {
        match op {
            Op::Collective(collective) => match comm.memory(collective) {
                0 => "",
                1 => ", sent from a window or registered memory",
                2 => ", received in a window or registered memory",
                _ => ", both sides in windows or registered memory",
            },
            // In a capture, NCCL registers memory of its own allocator by itself, and no other
            // memory.
            Op::Transfer(transfer) if transfer.span.allocation().block().is_nccls() => {
                ", in memory of NCCL's allocator"
            }
            _ => "",
        }
    }

    fn capture(
        comms: &[&Comm],
        streams: usize,
        enqueue: impl FnOnce(&[Arc<CudaStream>]) -> Result<()>,
    ) -> Result<CudaGraph> {
        // NCCL may have counted calls that the other ranks have not.
        CudaGraph::capture(comms[0].gpu, streams, enqueue)
            .map_err(|error| poison_all(comms.iter().copied(), error))
    }

    unsafe fn launch_graph(
        comms: &[&Comm],
        stream: &Arc<CudaStream>,
        graph: &CudaGraph,
    ) -> Result<()> {
        let launch = || {
            let calls = &graph.calls.entries;
            if calls.iter().any(|entry| entry.what.is_one_sided()) {
                comms[0].one_after_the_other(stream)?;
            }
            comms.iter().for_each(|comm| comm.note(stream));
            let mut resources = comms.iter().filter_map(|comm| comm.kernel_resources.get());
            resources.try_for_each(|one| one.order(stream))?;
            comms.iter().try_for_each(|comm| comm.scratch.order(stream))?;
            calls.iter().for_each(Entry::count);
            // As outside of graphs: a peer that ended before it could see the waits has poisoned
            // the communicator.
            if calls.iter().any(|entry| matches!(entry.what, What::Call(_, Refusal::Wait(..), _))) {
                comms[0].health.check()?;
            }
            // SAFETY: the caller's promise.
            comms[0].inside(|| unsafe { graph.launch(stream) })
        };
        // The other ranks launch it, so their kernels would wait for this rank on each of them.
        launch().map_err(|error| poison_all(comms.iter().copied(), error))
    }
}

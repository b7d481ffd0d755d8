//! Graphs: operations that are recorded once, compared once, and launched often.
//!
//! [`Communicator::capture`](crate::Communicator::capture) runs a closure that records. As in a
//! group, nothing is sent while it runs. Then the ranks compare their recordings, and either each
//! of them creates a graph or none does. On GPUs that is a CUDA graph, created by enqueueing the
//! recording once on a capturing stream. On the host a launch repeats the recorded calls.
//!
//! A [`Graph`] keeps all memory that it uses alive and borrows nothing: buffers stay with their
//! owners, who use them between launches, in stream order. The device's part of a graph belongs to
//! the communicator and ends with it, because NCCL waits for its graphs when a communicator ends.

mod agree;
mod capture;
mod recording;
mod registry;
mod work;

pub use capture::{Capture, NeverInACapture};

pub(crate) use agree::CaptureSummary;
pub(crate) use capture::{all_captured, all_ready};
pub(crate) use recording::{Leases, Recording};
pub(crate) use registry::GraphRegistry;

use std::sync::Arc;

use crate::backend::{Backend, Graphs, WindowId};
use crate::communicator::{CanEnqueue, Core, Maker, On, State};
use crate::derived::debug;
use crate::error::{Error, OtherDevice, Site};
use crate::memory::Booking;
use crate::one_thread::{SeveralThreads, ShareGraph};
use crate::stream::StreamCore;
use crate::{Communicator, Device, Result, Stream, World};
use recording::Step;
use registry::GraphEntry;

type Back<W> = <<W as World>::Device as Device>::Backend;

/// Operations that the ranks of a communicator captured together. Created by
/// [`Communicator::capture`](crate::Communicator::capture), and usable only with that communicator.
///
/// It keeps the memory that it uses alive and borrows nothing, so it can be stored in a struct
/// beside its communicator and its buffers. `Send`, not `Sync`. Dropping it neither waits nor calls
/// the device; enqueued launches still run.
///
/// ```
/// # use typed_nccl::{Graph, Host, Seat, Sum};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
/// let mut graph: Graph<Host> = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
/// for _ in 0..3 {
///     graph.launch(&comm)?; // one call, however many operations
/// }
/// assert_eq!(x.to_vec()?, [1.0; 4]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct Graph<W: World> {
    steps: Vec<Step<Back<W>>>,
    held: Held<Back<W>>,
    maker: Maker,
}

/// A graph's memory and its part of the communicators.
pub(crate) struct Held<B: Backend> {
    leases: Leases<B>,
    entry: Arc<GraphEntry<B>>,
    /// Whether it waits for signals, and so for peers' writes to windows.
    has_waits: bool,
}

impl<W: World> Graph<W> {
    /// Enqueues all captured operations on the communicator's own stream; the host does not wait.
    /// All ranks must launch the same graphs in the same order among their other calls. NCCL: in a
    /// CUDA graph, 2.9.
    ///
    /// A launch counts as one use of each buffer that the graph names, ordered after uses enqueued
    /// before, on any stream, and before uses enqueued later. If another thread is in a call that
    /// uses one of them (a closure that it launches on a GPU, a host copy), the host waits for that
    /// call.
    ///
    /// If a closure panics on the host, this rank's next host wait returns [`Error::Panicked`]. The
    /// graph's operations after it are refused: the other ranks get [`Error::Refused`] for them,
    /// and the ranks are in step for the next launch.
    ///
    /// # Errors
    /// [`Error::WrongCommunicator`]; [`Error::Stale`]: since the capture the communicator's ranks
    /// changed, it was suspended, or a window or a device communicator that the graph uses was
    /// closed; [`Error::MemoryInUse`]: the call is inside a closure that was launched with memory
    /// that the graph uses; a poisoned communicator. Nothing is sent then. A deadline that passes
    /// while the host waits for another thread's call poisons the communicator.
    #[track_caller]
    pub fn launch<S: State + CanEnqueue>(&mut self, comm: &Communicator<W, S>) -> Result<()> {
        self.launch_in(&comm.here(), Site::caller())
    }

    /// [`launch`](Self::launch) on another stream.
    ///
    /// # Errors
    /// As [`launch`](Self::launch); [`Error::OtherDevice`].
    #[track_caller]
    pub fn launch_on<S: State + CanEnqueue>(
        &mut self,
        comm: &Communicator<W, S>,
        stream: &Stream<W::Device>,
    ) -> Result<()> {
        self.launch_in(&comm.on(stream), Site::caller())
    }

    /// The number of steps: calls, groups, copies and closures.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing was captured.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn launch_in(&mut self, on: &On<'_, W>, site: Site) -> Result<()> {
        let (core, stream) = (on.core, on.stream);
        core.comm()?;
        core.resources.made(self.maker, WHAT)?;
        if let Some(why) = &self.held.entry.state().stale {
            return Err(core.resources.stale(WHAT, why.clone()));
        }
        if let Some(error) = stream.in_a_step("launch", site) {
            return Err(error);
        }
        let at = (stream.ordinal(), core.ordinal);
        OtherDevice::unless_same("launch", "stream", W::Device::KIND, at, site)?;
        // A step of a plan may launch it, and its memory is not the step's.
        let _own = stream.teamed(0);
        match Back::<W>::ARE_CAPTURED {
            true => self.held.launch(&[core], stream),
            false => Back::<W>::replay(stream.raw(), || {
                let mut steps = self.steps.iter().enumerate();
                steps.try_for_each(|(at, step)| {
                    // The other ranks would wait for the steps that this one does not issue.
                    again(core, stream, step).inspect_err(|error| {
                        if at > 0 || !is_refused(error) {
                            core.health.fail(error.clone())
                        }
                    })
                })
            }),
        }
    }
}

impl<B: Backend> Held<B> {
    /// `names` are the windows and device communicators that it uses on any rank.
    pub(crate) fn new(
        cores: &[&Core<B>],
        (leases, has_waits): (Leases<B>, bool),
        names: Vec<WindowId>,
        executable: Option<B::Graph>,
    ) -> Self {
        let entry = GraphEntry::new(names, executable);
        cores.iter().for_each(|core| core.graphs.add(entry.clone()));
        Self { leases, entry, has_waits }
    }

    /// Whether it can be launched.
    pub(crate) fn is_alive(&self) -> bool {
        self.entry.state().stale.is_none()
    }

    /// Launches the graph that the device captured on these communicators.
    pub(crate) fn launch(&self, cores: &[&Core<B>], stream: &StreamCore<B>) -> Result<()> {
        let state = self.entry.state();
        let Some(graph) = &state.executable else { return Ok(()) };
        let (one, several);
        let comms = match cores {
            [core] => {
                one = [core.comm()?];
                &one[..]
            }
            _ => {
                several = cores.iter().map(|core| core.comm()).collect::<Result<Vec<_>>>()?;
                &several
            }
        };
        let fail = |error: &Error| {
            if !is_refused(error) {
                cores.iter().for_each(|core| core.health.fail(error.clone()));
            }
        };
        // The device failed or a deadline passed, so the other ranks would wait for this one.
        let booking = Booking::of_graph(stream, &self.leases).inspect_err(fail)?;
        cores.iter().for_each(|core| core.note(stream));
        let begins = |core: &&Core<B>| {
            let journal = core.journal.clone()?;
            let number = journal.begins_work(stream, "graph", Site::nowhere());
            Some((journal, number))
        };
        let recorded: Vec<_> = cores.iter().filter_map(begins).collect();
        // SAFETY: `launch_graph` needs live communicators, live memory and ordered uses. The
        // communicators it was captured on are alive, because their end takes the graph out of
        // `life`, whose lock is held. The leases keep its memory, which is released only after the
        // streams that used it have passed that use. The booking makes the stream wait for earlier
        // uses.
        let launched = unsafe { B::launch_graph(comms, stream.raw(), graph) };
        for (journal, number) in recorded {
            journal.enqueued(stream, number, &launched);
        }
        drop(booking);
        if self.has_waits {
            cores.iter().for_each(|core| core.resources.windows_written(stream));
        }
        launched
    }
}

/// Whether a launch is refused that would wait for its own thread.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::MemoryInUse(it) if it.waited.is_none())
}

/// Its name in messages.
const WHAT: &str = "graph";

/// Repeats the calls of a step.
fn again<B: Backend>(core: &Core<B>, stream: &StreamCore<B>, step: &Step<B>) -> Result<()> {
    match step {
        Step::Operations(kept, refusals) => {
            let mut lists = core.lists();
            lists.ops.extend(kept.iter().map(recording::lend));
            let issued = core.issue(stream, &mut lists.ops, refusals);
            core.keep_lists(lists);
            issued
        }
        Step::Kernel(kernel) => {
            let _booking = Booking::new(stream, kernel)?;
            step.enqueue(core.comm()?, stream.raw())
        }
        Step::Work(work) => {
            let _booking = Booking::new(stream, work)?;
            (work.enqueue)(stream.raw())
        }
    }
}

debug!([W: World] Graph<W>, self => "Graph of {} steps on {}", self.len(), W::NAME);

// SAFETY: never applies: nothing implements `ShareGraph`, and no other crate can.
unsafe impl<W: World> Sync for Graph<W> where SeveralThreads: ShareGraph<Self> {}

#[cfg(test)]
mod tests {
    use static_assertions::{assert_impl_all, assert_not_impl_any};

    use super::{Capture, Graph};
    use crate::Host;

    // A graph may move between threads: it consists of data, `Send` closures, and memory whose uses
    // are recorded under a lock.
    assert_impl_all!(Graph<Host>: Send);
    assert_not_impl_any!(Graph<Host>: Sync);
    assert_not_impl_any!(Capture<'static, Host>: Send, Sync);
}

//! Recording a graph, and comparing the recordings.

use std::ops::Deref;

use super::agree::{CaptureSummary, differ};
use super::recording::{Recording, Step};
use super::{Back, Graph, Held};
use crate::backend::{Backend, Graphs, Streams, WindowId};
use crate::communicator::{CanEnqueue, Core, GraphUse, Live, On, State};
use crate::derived::debug;
use crate::error::{Abort, CapturesDiffer, Error, Site, Unsupported};
use crate::group::{self, Group};
use crate::stream::Capturing;
use crate::{Communicator, Result, Stream, World, unwind};

/// Records the operations of a graph. [`capture`](Communicator::capture) passes it to its closure;
/// helper functions take `&mut Capture<'_, W>`.
///
/// It has the operations of [`On`] (collectives, transfers, puts, signals and waits), which run in
/// the order recorded, and adds groups, copies and closures. A call borrows its operands only while
/// it records; the graph keeps their memory alive.
///
/// ```
/// # use typed_nccl::{Buffer, Capture, Host, Result, Seat, Sum, World};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn record<W: World>(g: &mut Capture<'_, W>, x: &mut Buffer<f32, W::Device>) -> Result<()> {
///     g.all_reduce_in_place(x, Sum)?;
///     g.fill(&mut x.slice_mut(0..1), 0.0)
/// }
/// let mut x = comm.device().from_slice(&[1.0_f32; 2])?;
/// comm.capture(|g| record(g, &mut x))?.launch(&comm)?;
/// assert_eq!(x.to_vec()?, [0.0, 1.0]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct Capture<'c, W: World> {
    on: On<'c, W>,
    pub(crate) stream: &'c Stream<W::Device>,
}

impl<'c, W: World> Deref for Capture<'c, W> {
    type Target = On<'c, W>;

    fn deref(&self) -> &On<'c, W> {
        &self.on
    }
}

/// Required by operations that a graph cannot contain.
#[diagnostic::on_unimplemented(
    message = "the host cannot wait in a capture",
    label = "this waits on the host, but none of the captured work has run yet",
    note = "a graph is recorded first and runs when it is launched: wait after `graph.launch(&comm)?`"
)]
pub trait NeverInACapture {
    #[doc(hidden)]
    fn never(&self) -> !;
}

impl<W: World> Capture<'_, W> {
    /// Records several operations as one, as [`Communicator::group`] issues them.
    ///
    /// # Errors
    /// The closure's own error; the first refusal of an operation in it. Either one fails the
    /// capture.
    #[track_caller]
    pub fn group<'e, R>(
        &'e mut self,
        record: impl FnOnce(&mut Group<'e, W>) -> Result<R>,
    ) -> Result<R> {
        group::run(self.on, record, Site::caller())
    }

    /// Not available in a capture, because it waits on the host.
    ///
    /// # Errors
    /// It cannot be called.
    pub fn barrier(&self) -> Result<()>
    where
        Self: NeverInACapture,
    {
        self.never()
    }

    /// Not available in a capture, because it waits on the host.
    ///
    /// # Errors
    /// It cannot be called.
    pub fn sync(&self) -> Result<()>
    where
        Self: NeverInACapture,
    {
        self.never()
    }

    /// This process's rank.
    pub fn rank(&self) -> crate::Rank {
        self.on.core.own()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.on.core.size
    }
}

debug!(
    [W: World] Capture<'_, W>,
    self => "Capture on {}, rank {} of {}", W::NAME, self.rank(), self.size()
);

/// # Graphs
impl<W: World, S: State> Communicator<W, S> {
    /// Captures the operations that `record` records as a graph, which costs one launch however
    /// many operations it has. All ranks must call it and record matching operations; the host
    /// waits for them to compare. NCCL: in a CUDA graph, 2.9.
    ///
    /// ```
    /// use typed_nccl::{Communicator, Device, Result, Sum, World, launch};
    ///
    /// fn body<W: World>(mut comm: Communicator<W>) -> Result<()> {
    ///     let mut x = comm.device().zeros::<f32>(1024)?;
    ///     let mut graph = comm.capture(|g| {
    ///         g.all_reduce_in_place(&mut x, Sum)?;
    ///         g.fill(&mut x.slice_mut(0..1), 0.0)
    ///     })?;
    ///     for step in 1..4 {
    ///         x.copy_from(&[step as f32; 1024])?;
    ///         graph.launch(&comm)?;
    ///         let sums = x.to_vec()?;
    ///         assert_eq!(sums[..2], [0.0, (step * comm.size()) as f32]);
    ///     }
    ///     comm.finish()
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     launch!(body)
    /// }
    /// ```
    ///
    /// Nothing is sent while the closure runs, and the host may not wait in it. The graph keeps the
    /// memory that it uses alive; the buffers stay yours, to be read and written between launches.
    /// In a graph, a rank raises its next signal to a peer only after the peer has awaited the last
    /// one, so every put needs a matching wait, and a wait takes one signal. Signals in graphs are
    /// separate from all others.
    ///
    /// # Errors
    /// The closure's own error, or the first refusal of an operation that it recorded; the other
    /// ranks then get [`Error::CapturesDiffer`]. All ranks get that error if their recordings do
    /// not match. In both cases no rank has a graph, and the communicator is unharmed. A lost peer;
    /// a passed deadline; an error of the device. These poison the communicator, as does a closure
    /// that panics while a GPU captures it: the panic goes on, and the other ranks get its message.
    #[track_caller]
    pub fn capture(
        &mut self,
        record: impl FnOnce(&mut Capture<'_, W>) -> Result<()>,
    ) -> Result<Graph<W>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let live = S::live_mut(&mut self.body);
        live.core.may_call(OPERATION, site)?;
        let (mut recording, recorded) = live.record(record);
        if let Err(error) = allowed(&live.core) {
            recording.error.get_or_insert(error);
        }
        let why = match (&recorded, &recording.error) {
            (Err(panic), _) => Some(format!("its closure panicked: {}", panic.message())),
            (_, Some(error)) => Some(error.to_string()),
            (Ok(Err(error)), None) => Some(error.to_string()),
            (Ok(Ok(())), None) => None,
        };
        let names = live.compare(&recording, why, site);
        let outcome = recorded.unwrap_or_else(|panic| panic.resume());
        outcome?;
        if let Some(error) = recording.error {
            return Err(error);
        }
        live.graph(recording, names?, site)
    }
}

const OPERATION: &str = "capture";

/// Fails if this rank's communicator was configured without graphs.
fn allowed<B: Backend>(core: &Core<B>) -> Result<()> {
    if core.config.graphs != GraphUse::None {
        return Ok(());
    }
    Err(Error::from(Unsupported {
        what: "a graph".to_owned(),
        needs: "a communicator whose `CommConfig::graphs` is not `GraphUse::None`".to_owned(),
        found: format!("this rank's of {} was made with it", core.health.name()),
    }))
}

impl<W: World> Live<W> {
    /// Runs the closure, which records.
    fn record<R>(
        &self,
        record: impl FnOnce(&mut Capture<'_, W>) -> R,
    ) -> (Recording<Back<W>>, Result<R, unwind::Panic>) {
        let core = &self.core;
        // Nothing is enqueued on this stream.
        let raw = self.stream.core.raw().clone();
        let stream = Stream::recording(&self.device, raw);
        core.recording.replace(Some(Recording::new()));
        let on = On::new(core, &stream.core);
        let recorded = {
            let _capturing = Capturing::enter();
            unwind::catch(|| record(&mut Capture { on, stream: &stream }))
        };
        (core.recording.take().unwrap_or_else(Recording::new), recorded)
    }

    /// Compares the ranks' recordings. Returns the windows and device communicators that any of
    /// them uses.
    fn compare(
        &self,
        recording: &Recording<Back<W>>,
        why: Option<String>,
        site: Site,
    ) -> Result<Vec<WindowId>> {
        let core = &self.core;
        let said = match why {
            Some(why) => CaptureSummary::refuses(why),
            None => {
                let names = core.resources.named_by(recording.leases.allocations());
                CaptureSummary::of(core.comm()?, &recording.steps, names)
            }
        };
        agree(core, &said, site)
    }

    /// Creates the graph of a recording that the ranks have agreed on.
    fn graph(
        &self,
        recording: Recording<Back<W>>,
        names: Vec<WindowId>,
        site: Site,
    ) -> Result<Graph<W>> {
        let core = &self.core;
        let Recording { steps, leases, .. } = recording;
        let executable = match Back::<W>::ARE_CAPTURED && !steps.is_empty() {
            true => Some(self.captured(&steps, site)?),
            false => None,
        };
        let has_waits = steps.iter().any(Step::waits);
        let held = Held::new(&[core], (leases, has_waits), names, executable);
        Ok(Graph { steps, held, maker: core.resources.maker() })
    }

    /// Makes the device capture a recording, on all ranks or on none.
    fn captured(&self, steps: &[Step<Back<W>>], site: Site) -> Result<<Back<W> as Graphs>::Graph> {
        let core = &self.core;
        let comm = core.comm()?;
        let enqueue = |streams: &[<Back<W> as Streams>::Stream]| {
            steps.iter().try_for_each(|step| step.enqueue(comm, &streams[0]))
        };
        let captured = unwind::catch(|| Back::<W>::capture(&[comm], 1, enqueue));
        all_captured(&[core], captured, site)
    }
}

/// Compares the ranks' summaries. Returns the windows and device communicators that any of them
/// uses.
fn agree<B: Backend>(core: &Core<B>, said: &CaptureSummary, site: Site) -> Result<Vec<WindowId>> {
    let all = core.gather(said, OPERATION, site)?;
    if let Some(parts) = differ(&all) {
        return Err(CapturesDiffer { name: core.health.name(), parts, site }.into());
    }
    let mut names: Vec<_> = all.into_iter().flat_map(|said| said.names).collect();
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Returns this rank's value if all ranks are ready to capture matching operations.
pub(crate) fn all_ready<B: Backend, T>(
    core: &Core<B>,
    own: Result<T>,
    said: CaptureSummary,
    site: Site,
) -> Result<T> {
    let own = own.and_then(|own| allowed(core).map(|()| own));
    let said = own.as_ref().map_or_else(|why| CaptureSummary::refuses(why.to_string()), |_| said);
    let agreed = agree(core, &said, site);
    own.and_then(|own| agreed.map(|_| own))
}

/// Returns this rank's captured graph once all ranks have one. A rank that fails or panics has
/// captured only a part of it, so all of its communicators are poisoned, before it waits for a
/// rank: the others may be inside NCCL, whose first operations connect to this one.
pub(crate) fn all_captured<B: Backend>(
    cores: &[&Core<B>],
    captured: Result<Result<B::Graph>, unwind::Panic>,
    site: Site,
) -> Result<B::Graph> {
    let captured = captured.unwrap_or_else(|panic| {
        let message = panic.message();
        let why = format!("a graph could not be captured: a closure in it panicked: {message}");
        for core in cores {
            let (why, by) = (why.clone(), core.own());
            core.health.fail(Abort { why, by, at: site }.into());
        }
        panic.resume()
    });
    // The backend has poisoned the communicators if this is an error.
    let graph = captured?;
    cores[0].barrier(OPERATION, site)?;
    Ok(graph)
}

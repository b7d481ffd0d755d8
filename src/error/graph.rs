//! Operations that cannot be captured, and captures that differ.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::Site;
use super::report::ByRanks;
use crate::Rank;

/// A call that cannot be captured. No rank gets a graph.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, Sum, error::CaptureFault};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (device, mut x) = (comm.device().clone(), vec![1.0_f32; 4]);
/// let refused =
///     device.lend(&mut x, |x| comm.capture(|g| g.all_reduce_in_place(x, Sum)).map(drop));
/// let Err(Error::NotCapturable(not)) = refused else { panic!("it would outlive the loan") };
/// assert_eq!((not.operation, not.fault), ("all_reduce", CaptureFault::Lent));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{operation} cannot be captured (at {site}): {fault}")]
pub struct NotCapturable {
    /// The method.
    pub operation: &'static str,
    /// Why it cannot.
    pub fault: CaptureFault,
    /// The call site.
    pub site: Site,
}

/// Why a call cannot be captured.
///
/// See the example of [`NotCapturable`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum CaptureFault {
    /// Its memory is lent for the duration of a closure.
    #[error(
        "its memory is lent for the time of a closure, and a graph uses it later; copy it into a buffer, or adopt it"
    )]
    Lent,
    /// It waits for several signals of one rank in one slot.
    #[error(
        "it waits for {count} signals of rank {peer} at once, and in a graph a rank raises its next signal only when the last one was awaited; wait for each by itself, after each put"
    )]
    SeveralSignals {
        /// The rank that raises them.
        peer: Rank,
        /// The number of signals.
        count: u32,
    },
    /// It has a launch event (`CallConfig::launched`).
    #[error(
        "it has a launch event, which CUDA records at no launch of a graph; leave `CallConfig::launched` out"
    )]
    LaunchEvent,
    /// A step of a captured plan uses memory that does not belong to the plan.
    #[error(
        "it uses memory that is not the plan's, which later runs would use without keeping it; make it a buffer of the plan and give it to the step, or leave `#[capture]` out"
    )]
    NotThePlans,
    /// A step of a captured plan orders another stream with its own.
    #[error(
        "a step of a captured plan has its stream alone, and what another stream does with it later runs would neither repeat in order nor keep memory for; give the plan a second stream and a step on it, in order by `after`, or leave `#[capture]` out"
    )]
    OtherStream,
    /// A step of a captured plan copies from or to pinned memory.
    #[error(
        "later runs of a captured plan would copy from or to pinned memory that nobody keeps; copy beside the run, to or from a buffer of the plan, or leave `#[capture]` out"
    )]
    Pinned,
    /// A step of a captured plan calls a communicator.
    #[error(
        "a step of a captured plan calls a communicator: no other rank compares the call, and later runs keep nothing of what it names; make it a statement of the plan, or leave `#[capture]` out"
    )]
    Communicates,
    /// A step of a captured plan uses a device communicator of a communicator that the plan does
    /// not have.
    #[error(
        "it takes a device communicator of {of}, which is none of the plan's communicators: later runs would take it after its end; make it with the communicator that the plan is bound to, or leave `#[capture]` out"
    )]
    OtherDevComm {
        /// That communicator's name.
        of: &'static str,
    },
}

/// A call that waits on the host, inside a capture's closure.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat, Sum};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (mut x, side) = (comm.device().zeros::<f32>(4)?, comm.device().stream()?);
/// let refused = comm.capture(|g| {
///     g.all_reduce_in_place(&mut x, Sum)?;
///     side.sync() // nothing has run yet
/// });
/// let Err(Error::WaitInCapture(wait)) = refused else { panic!("{refused:?}") };
/// assert_eq!(wait.operation, "sync");
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation} waits on the host, and the closure of a capture only records (at {site}): nothing of it has run; wait after `graph.launch(..)`"
)]
pub struct WaitInCapture {
    /// The method.
    pub operation: &'static str,
    /// The call site.
    pub site: Site,
}

/// An operation needs memory of a graph that is in use: either by this thread, which launches the
/// graph inside a closure that was launched with that memory, or by another thread for longer than
/// the deadline.
///
/// ```
/// use typed_nccl::{Buffer, Error, Result, World};
///
/// /// `None` if another thread still uses the memory with its graph.
/// fn values<W: World>(x: &Buffer<f32, W::Device>) -> Result<Option<Vec<f32>>> {
///     match x.to_vec() {
///         Ok(values) => Ok(Some(values)),
///         Err(Error::MemoryInUse(busy)) if busy.waited.is_some() => Ok(None),
///         Err(other) => Err(other),
///     }
/// }
/// # let host = typed_nccl::Host::local().expect("a host");
/// # let x = host.zeros(2).expect("memory");
/// # assert_eq!(values::<typed_nccl::Host>(&x), Ok(Some(vec![0.0; 2])));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct MemoryInUse {
    /// How long another thread's use was waited for; `None` for this thread's own use.
    pub waited: Option<Duration>,
}

impl fmt::Display for MemoryInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.waited {
            None => f.write_str(
                "a graph is launched inside a closure that was launched with memory which the graph names: the closure has that memory until it returns; launch the graph after it",
            ),
            Some(waited) => write!(
                f,
                "another thread is in a call that uses the same memory, which a graph names, and is after {waited:?}: a closure launched on a GPU, or a host copy that waits; let neither wait for this thread"
            ),
        }
    }
}

/// The ranks' captures do not match, or a rank could not capture.
///
/// ```
/// # use typed_nccl::{Error, Host, Sum, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let mut x = comm.device().zeros::<f32>(4)?;
/// let part = 0..3 + comm.rank().index();
/// let captured = comm.capture(|g| g.all_reduce_in_place(&mut x.slice_mut(part), Sum));
/// assert!(matches!(captured, Err(Error::CapturesDiffer(it)) if it.parts.len() == 2));
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the captures of {name}'s ranks do not fit together (at {site}):{}; capture operations that match on all ranks; no rank has a graph, and the communicator is unharmed", ByRanks(.parts))]
pub struct CapturesDiffer {
    /// The communicator's name.
    pub name: &'static str,
    /// What each rank captured, or why it could not.
    pub parts: Vec<String>,
    /// Where this rank captured.
    pub site: Site,
}

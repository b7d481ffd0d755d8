//! The input of an executor: every rank's calls, in the order in which its host makes them.

use serde::{Deserialize, Serialize};

use crate::ir::{CollectiveKind, CommunicatorId, Location, Reduction, SignalId, StreamId};
use crate::lower::Leg;
use crate::verdict::Sizes;

/// An instance of a plan, ready to run: the plan's units, joined where nothing is lost.
///
/// # Runs
///
/// A rank's host makes its calls in order, and never waits. Before a call, its stream waits for the
/// events in [`waits`](Call::waits), which earlier calls of this run recorded, and for those in
/// [`carried`](Call::carried), which later calls recorded in the previous run. In CUDA both are the
/// same: `cuStreamWaitEvent` waits for the last record of an event, and does nothing before the
/// first. So runs follow one another without a barrier, and overlap as far as memory and `after`
/// allow. The two copies of a buffer swap between runs, and [`Elements::next`] refers to the other
/// one in either.
///
/// NCCL's own order needs no events: operations of one communicator run in the order of the calls,
/// on any streams. A captured plan carries nothing, since graph launches follow one another as a
/// whole; the capture forks all its streams from one and joins them again.
///
/// In serialized form, `carried`, `why_waits` and `why_kernels` may be missing, and are empty then.
///
/// ```
/// use typed_nccl_plan::build::{PlanBuilder, ring};
/// use typed_nccl_plan::lower::{Schedule, lower};
/// use typed_nccl_plan::verdict::Sizes;
///
/// let mut plan = PlanBuilder::new("shift");
/// plan.ranks(1..);
/// let (a, b) = (plan.input::<f32>("a", 4), plan.output::<f32>("b", 4));
/// let net = plan.stream("net");
/// plan.on(net).transfer(a, ring(1), b);
/// let checked = plan.check()?;
/// let sizes = Sizes { extents: vec![3], ..Sizes::default() };
/// let schedule: Schedule = lower(checked.plan(), &sizes).expect("it is right for three ranks");
/// assert_eq!(schedule.ranks.len(), 3);
/// # Ok::<(), typed_nccl_plan::build::Refused>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The plan's name.
    pub plan: String,
    /// Its sizes.
    pub sizes: Sizes,
    /// One for each rank.
    pub ranks: Vec<RankSchedule>,
    /// Operations to run once before the first run, on all ranks, in this order, because their
    /// first use is secretly collective.
    pub warm_ups: Vec<WarmUp>,
    /// Why statements were joined, or not.
    pub reasons: Vec<Reason>,
    /// Why streams wait for each other.
    #[serde(default)]
    pub why_waits: Vec<WhyWait>,
    /// Why operations use a kernel or NCCL, if kernels were considered.
    #[serde(default)]
    pub why_kernels: Vec<WhyKernel>,
}

/// One rank's calls, in the order of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSchedule {
    /// The calls.
    pub calls: Vec<Call>,
    /// The number of events that it needs.
    pub events: u32,
}

/// A compute step, or a group, with the events around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its stream.
    pub stream: StreamId,
    /// Events that the stream waits for first, recorded earlier in this run.
    pub waits: Vec<Event>,
    /// Events of the previous run that the stream waits for first, recorded by later calls of this
    /// list. In the first run there is nothing to wait for.
    #[serde(default)]
    pub carried: Vec<Event>,
    /// The work.
    pub work: Work,
    /// The event to record after it, if another call waits for it.
    pub records: Option<Event>,
    /// The locations of the plan's statements that it comes from.
    pub from: Vec<Location>,
}

/// An event, by its number on its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Event(pub u32);

/// The work of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The user's own work.
    Compute {
        /// Its name.
        name: String,
        /// Its numeric arguments.
        arguments: Vec<i64>,
        /// The elements that it reads.
        reads: Vec<Elements>,
        /// The elements that it writes.
        writes: Vec<Elements>,
        /// The number of parts of each region that the statement reads, then of each that it
        /// writes: one, or the length of an array that it takes as a whole.
        #[serde(default)]
        regions: (Vec<u32>, Vec<u32>),
    },
    /// Local work of this library: each element of `to` becomes the reduction of those of `of`.
    Assign {
        /// The elements that it writes.
        to: Elements,
        /// The reduction; a single region is copied.
        by: Reduction,
        /// The elements that it reads, as many from each region, also of other ranks' windows.
        of: Vec<Elements>,
    },
    /// Operations that NCCL launches as one; one alone needs no group.
    Group(Vec<Operation>),
    /// One kernel of this library, with all ranks of a communicator. Only
    /// [`Schedule::with_kernels`] makes these.
    Kernel {
        /// This rank's operations: collectives of one kind, or messages.
        operations: Vec<Operation>,
        /// For messages, how they match; empty for collectives.
        legs: Vec<Leg>,
    },
}

impl Work {
    /// Its operations; empty for local work.
    pub fn operations(&self) -> &[Operation] {
        match self {
            Self::Group(operations) | Self::Kernel { operations, .. } => operations,
            Self::Compute { .. } | Self::Assign { .. } => &[],
        }
    }
}

/// Elements of one buffer: of this rank, unless [`rank`](Self::rank) names another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Elements {
    /// The buffer, by its index in the plan.
    pub buffer: u32,
    /// The index in an array; 0 for a single buffer.
    pub index: u32,
    /// Whether it is the other one of two copies.
    pub next: bool,
    /// The first element.
    pub start: u64,
    /// The end, excluded.
    pub end: u64,
    /// The number that a run passes for how many there are, by its place in
    /// [`Plan::counts`](crate::ir::Plan::counts) and their lists: at most `end - start`.
    #[serde(default)]
    pub count: Option<u32>,
    /// The rank of the plan whose window an assignment reads, if it is another one.
    #[serde(default)]
    pub rank: Option<u32>,
}

impl Elements {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The memory of these elements: buffer, index in an array, copy.
    pub(crate) fn object(&self) -> (u32, u32, bool) {
        (self.buffer, self.index, self.next)
    }
}

/// One of NCCL's operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A collective. `in_place` says whether `send` and `recv` overlap as NCCL requires for that.
    Collective {
        /// The collective; its root, if it has one, is a rank of the communicator.
        kind: CollectiveKind<u32>,
        /// The communicator.
        among: CommunicatorId,
        /// The elements to send; none on a rank that only receives.
        send: Option<Elements>,
        /// The destination; none on a rank that only sends.
        recv: Option<Elements>,
        /// Whether it runs in place.
        in_place: bool,
    },
    /// Sends to a rank of the plan.
    Send {
        /// The elements.
        from: Elements,
        /// The receiver.
        peer: u32,
        /// The communicator.
        among: CommunicatorId,
    },
    /// Receives from a rank of the plan.
    Receive {
        /// The destination.
        to: Elements,
        /// The sender.
        peer: u32,
        /// The communicator.
        among: CommunicatorId,
    },
    /// Writes into the window of a rank of the plan.
    Put {
        /// The elements.
        from: Elements,
        /// The rank whose window is written.
        peer: u32,
        /// The destination in the window.
        to: Elements,
        /// The signal to raise.
        signal: Option<SignalId>,
        /// The communicator.
        among: CommunicatorId,
    },
    /// Raises a signal at a rank of the plan.
    Signal {
        /// The signal.
        signal: SignalId,
        /// The receiver.
        peer: u32,
        /// The communicator.
        among: CommunicatorId,
    },
    /// Waits for signals of ranks of the plan.
    Wait {
        /// The signals, their senders and how often each is raised.
        signals: Vec<(SignalId, u32, u32)>,
        /// The communicator.
        among: CommunicatorId,
    },
}

impl Operation {
    /// The communicator of the operation.
    pub fn among(&self) -> CommunicatorId {
        match self {
            Self::Collective { among, .. }
            | Self::Send { among, .. }
            | Self::Receive { among, .. }
            | Self::Put { among, .. }
            | Self::Signal { among, .. }
            | Self::Wait { among, .. } => *among,
        }
    }
}

/// An operation that every rank must do once before the first run, in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// The first one-sided operation of a communicator sets up signals on all its ranks.
    OneSided(CommunicatorId),
    /// The first messages between two ranks connect them: pairs of ranks of the plan.
    Connections {
        /// The communicator.
        among: CommunicatorId,
        /// The pairs, each once, the smaller rank first.
        pairs: Vec<(u32, u32)>,
    },
    /// The first collective of a kind connects the communicator's ranks.
    Collectives(CommunicatorId),
}

/// Why two neighbouring statements became one group, or did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The earlier one.
    pub first: Location,
    /// The later one.
    pub second: Location,
    /// Whether they are one group now.
    pub joined: bool,
    /// Why, in one sentence.
    pub why: String,
}

/// Why a stream waits for another, on some rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyWait {
    /// The call that waits.
    pub waiter: Location,
    /// The call that records the event.
    pub recorder: Location,
    /// The stream that waits.
    pub stream: StreamId,
    /// The stream that it waits for.
    pub other: StreamId,
    /// Whether the event belongs to the previous run.
    pub carried: bool,
    /// Why, in one sentence.
    pub why: String,
}

/// Why operations use a kernel of this library, or NCCL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyKernel {
    /// The first of them.
    pub at: Location,
    /// Whether it is a kernel.
    pub chosen: bool,
    /// Why, in one sentence.
    pub why: String,
}

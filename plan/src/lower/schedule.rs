//! What an executor runs: every rank's calls, in the order in which its host makes them.

use serde::{Deserialize, Serialize};

use crate::ir::{CollectiveKind, CommunicatorId, Location, SignalId, StreamId};
use crate::lower::Leg;
use crate::verdict::Sizes;

/// An instance of a plan, ready to run: the same units as the plan's, joined where nothing is lost.
///
/// # Runs
///
/// A rank's host makes its calls in order, and never waits. Before a call, its stream waits for the events
/// in [`waits`](Call::waits), which calls before it recorded in this run, and for those in
/// [`carried`](Call::carried), which calls after it recorded in the run before. In CUDA both are one thing:
/// `cuStreamWaitEvent` takes an event as it was recorded last, and does nothing before the first time. So
/// runs follow one another without a barrier, and overlap as far as memory and `after` allow. The two copies
/// of a buffer swap between runs, and [`Elements::next`] names the other one in either.
///
/// What NCCL orders itself has no events: operations of one communicator run in the order of the calls, on
/// whatever stream. A captured plan carries nothing, as one graph launch follows another whole; whoever
/// captures it forks all its streams from one and joins them again.
///
/// In serialized form, `carried`, `why_waits` and `why_kernels` may be missing: then they are empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The plan's name.
    pub plan: String,
    /// The sizes that it is for.
    pub sizes: Sizes,
    /// One for each rank.
    pub ranks: Vec<RankSchedule>,
    /// What must run once before the first run, on all ranks, in this order: it is collective in secret.
    pub warm_ups: Vec<WarmUp>,
    /// Why steps were joined, or not.
    pub reasons: Vec<Reason>,
    /// Why streams wait for each other.
    #[serde(default)]
    pub why_waits: Vec<WhyWait>,
    /// Why operations are a kernel's, or NCCL's, where kernels were thought of.
    #[serde(default)]
    pub why_kernels: Vec<WhyKernel>,
}

/// One rank's calls, in the order of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSchedule {
    /// The calls.
    pub calls: Vec<Call>,
    /// How many events it needs.
    pub events: u32,
}

/// A compute step, or a group, with the events around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its stream.
    pub stream: StreamId,
    /// Events that the stream waits for first: recorded earlier in this run.
    pub waits: Vec<Event>,
    /// Events of the run before that the stream waits for first: recorded by calls that stand later in this
    /// list. In the first run there is nothing to wait for.
    #[serde(default)]
    pub carried: Vec<Event>,
    /// What runs.
    pub work: Work,
    /// The event that is recorded after it, where somebody waits for it.
    pub records: Option<Event>,
    /// The plan's statements that it comes from, by place.
    pub from: Vec<Location>,
}

/// An event, by its number on its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Event(pub u32);

/// What a call does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A step of the user's.
    Compute {
        /// What it is called.
        name: String,
        /// The numbers that it gets.
        arguments: Vec<i64>,
        /// What it reads.
        reads: Vec<Elements>,
        /// What it writes.
        writes: Vec<Elements>,
        /// How many parts each region has that the statement reads, and each that it writes: one, or the
        /// length of an array whose buffers it takes all.
        #[serde(default)]
        regions: (Vec<u32>, Vec<u32>),
    },
    /// Operations that NCCL launches as one; one alone needs no group.
    Group(Vec<Operation>),
    /// What one kernel of this library does, with all ranks of a communicator. Only [`Schedule::with_kernels`] makes
    /// them.
    Kernel {
        /// This rank's operations: collectives of one kind, or messages.
        operations: Vec<Operation>,
        /// Of messages, how they meet; empty for collectives.
        legs: Vec<Leg>,
    },
}

impl Work {
    /// Its operations; none of a compute step.
    pub fn operations(&self) -> &[Operation] {
        match self {
            Self::Group(operations) | Self::Kernel { operations, .. } => operations,
            Self::Compute { .. } => &[],
        }
    }
}

/// Elements of one buffer of this rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Elements {
    /// The buffer, by its place in the plan.
    pub buffer: u32,
    /// Which one of an array; 0 for a single buffer.
    pub index: u32,
    /// The other one of two copies.
    pub next: bool,
    /// The first element.
    pub start: u64,
    /// Before which it ends.
    pub end: u64,
}

impl Elements {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// The memory that they are of: a buffer, a place in an array, a copy.
    pub(crate) fn object(&self) -> (u32, u32, bool) {
        (self.buffer, self.index, self.next)
    }
}

/// One of NCCL's operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A collective. `in_place` says that it runs where `send` and `recv` overlap as NCCL wants it.
    Collective {
        /// Which one; its root, if it has one, is a rank of the communicator.
        kind: CollectiveKind<u32>,
        /// Among whom.
        among: CommunicatorId,
        /// What it sends; nothing on a rank that only receives.
        send: Option<Elements>,
        /// Where it receives; nothing on a rank that only sends.
        recv: Option<Elements>,
        /// Whether it runs in place.
        in_place: bool,
    },
    /// Sends to a rank of the plan.
    Send {
        /// What.
        from: Elements,
        /// To whom.
        peer: u32,
        /// Through which communicator.
        among: CommunicatorId,
    },
    /// Receives from a rank of the plan.
    Receive {
        /// Where it goes.
        to: Elements,
        /// From whom.
        peer: u32,
        /// Through which communicator.
        among: CommunicatorId,
    },
    /// Writes into the window of a rank of the plan.
    Put {
        /// What.
        from: Elements,
        /// Whose window.
        peer: u32,
        /// Where in it.
        to: Elements,
        /// The signal that it raises.
        signal: Option<SignalId>,
        /// Through which communicator.
        among: CommunicatorId,
    },
    /// Raises a signal at a rank of the plan.
    Signal {
        /// Which.
        signal: SignalId,
        /// At whom.
        peer: u32,
        /// Through which communicator.
        among: CommunicatorId,
    },
    /// Waits for signals of ranks of the plan.
    Wait {
        /// Which, from whom, how often.
        signals: Vec<(SignalId, u32, u32)>,
        /// Through which communicator.
        among: CommunicatorId,
    },
}

impl Operation {
    /// The communicator that it goes through.
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

/// What every rank must do once before the first run, in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUp {
    /// The first one-sided operation of a communicator sets up signals on all its ranks.
    OneSided(CommunicatorId),
    /// The first messages between two ranks connect them: pairs of ranks of the plan.
    Connections {
        /// Through which communicator.
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
    /// The call whose event it waits for.
    pub recorder: Location,
    /// The stream that waits.
    pub stream: StreamId,
    /// The stream that it waits for.
    pub other: StreamId,
    /// Whether the event is the run before's.
    pub carried: bool,
    /// Why, in one sentence.
    pub why: String,
}

/// Why operations are a kernel's of this library, or NCCL's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyKernel {
    /// The first of them.
    pub at: Location,
    /// Whether it is a kernel.
    pub chosen: bool,
    /// Why, in one sentence.
    pub why: String,
}

//! The statements of a plan.

use serde::{Deserialize, Serialize};

use super::shape;
use super::words::words;
use super::{
    AxisId, Claim, CollectiveKind, CommunicatorId, Condition, Expr, Location, LoopId, MOST_NESTING,
    MOST_OF_ONE, Region, SignalId, Source, StreamId,
};

/// A statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its kind and operands.
    #[serde(rename = "do")]
    pub kind: StepKind,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

/// A statement's kind and operands. Every rank runs it, unless a guard says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The user's own work on a stream.
    Compute(Compute),
    /// A collective: every member of the communicator takes part.
    Collective(Collective),
    /// A message in the global view: rank r sends, `to` receives. Both halves are in one group,
    /// unless the step is inside a [`StepKind::Sequence`].
    Transfer(Transfer),
    /// The sending half of a message, in the local view.
    Send(Send),
    /// The receiving half of a message, in the local view.
    Receive(Receive),
    /// Writes into a peer's window, and optionally raises a signal there.
    Put(Put),
    /// Raises a signal at a peer.
    Signal(Signal),
    /// Waits in stream order until peers have raised signals.
    Wait(Wait),
    /// Communication that NCCL launches as one.
    Group(#[serde(deserialize_with = "shape::body")] Vec<Step>),
    /// A loop.
    Loop(Loop),
    /// Statements for the ranks on which a condition holds.
    When(When),
    /// Statements in rank order: rank r's come after those of rank r - 1, as far as messages
    /// between them require. Contains compute steps and transfers along open axes, which become
    /// halves: a rank receives from lower ranks before its own statements, and from higher ranks
    /// after them.
    Sequence(#[serde(deserialize_with = "shape::body")] Vec<Step>),
    /// Local work of this library: an element-wise copy or reduction.
    Assign(Assign),
    /// A claim about memory where it stands, for the checker alone: it runs nothing. It holds of
    /// what the rank's statements before it leave, whatever their streams.
    Here(Claim),
}

/// The stream of a step, and the streams that it runs after.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The stream.
    pub on: StreamId,
    /// Streams whose earlier steps must all have ended.
    #[serde(default)]
    pub after: Vec<StreamId>,
}

/// The user's own work: a method of the plan's steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// Its name.
    pub name: String,
    /// Its numeric arguments.
    #[serde(default)]
    pub arguments: Vec<Expr>,
    /// The regions that it reads.
    #[serde(default)]
    pub reads: Vec<Region>,
    /// The regions that it writes.
    #[serde(default)]
    pub writes: Vec<Region>,
    /// Its results, as far as the plan declares them.
    #[serde(default)]
    pub computes: Vec<Equation>,
    /// Where it runs.
    pub place: Place,
}

/// The declared result of a compute step in a region, element by element: `b += a`,
/// `b = min(a, c)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equation {
    /// The index of the written region.
    pub to: u32,
    /// The reduction that combines the regions.
    pub by: Reduction,
    /// The indices of the read regions, with their content at the start. A single one is copied.
    pub of: Vec<u32>,
}

/// Local work that this library does on the stream: `b += a`, `b = min(a, c)`, `b = a`,
/// `b = u of rank + 1`.
///
/// Each element of `to` becomes the reduction of the elements of `of` in its place, with their
/// content at the start. Sources of other ranks are read where they lie, in those ranks' windows:
/// the statement waits for nobody, and nothing happens there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assign {
    /// The written region.
    pub to: Region,
    /// The reduction that combines the regions.
    pub by: Reduction,
    /// The regions that it reads, each as long as `to`. A single one is copied. One of them may be
    /// `to`; otherwise none of this rank overlaps it. A source past the end of an open axis is left
    /// out; without any source, `to` keeps its content.
    pub of: Vec<Source>,
    /// Where it runs.
    pub place: Place,
}

words! {
    /// A reduction.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[allow(missing_docs, reason = "the names are NCCL's")]
    pub enum Reduction {
        Sum = "sum",
        Prod = "prod",
        Min = "min",
        Max = "max",
        Avg = "avg",
    }
}

/// A collective with its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// The collective.
    pub kind: CollectiveKind,
    /// The region to send; unused on a rank that sends nothing.
    pub send: Region,
    /// The region to receive into; unused on a rank that receives nothing. Equal to `send` if the
    /// collective runs in place.
    pub recv: Region,
    /// The communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// Another rank, as seen from rank r.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// The rank at these distances along axes, each of which occurs at most once.
    Shift(Vec<Hop>),
    /// The rank with that number in the whole plan.
    Rank(Expr),
    /// One of two ranks, depending on a condition.
    Cases(#[serde(deserialize_with = "shape::cases")] Box<Cases>),
}

/// Another rank by two cases: `if rank % 2 == 0 { rank + 1 } else { rank - 1 }`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// The condition.
    pub condition: Condition,
    /// The peer if it holds.
    pub then: Peer,
    /// The peer if it does not.
    pub otherwise: Peer,
}

/// A distance along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The axis.
    pub axis: AxisId,
    /// The distance, negative towards lower ranks. The same on every rank.
    pub by: Expr,
    /// Whether the axis is a ring. On an open one, a step towards a rank that does not exist does
    /// nothing.
    pub wrap: bool,
}

/// A message in the global view. Its expressions are evaluated on the sender, r.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The region that r sends.
    pub from: Region,
    /// The receiver.
    pub peer: Peer,
    /// The destination: a region of the receiver's memory, computed with the sender's r.
    pub to: Region,
    /// The communicator.
    pub among: CommunicatorId,
    /// The place of both halves.
    pub place: Place,
}

/// The sending half of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// The region to send.
    pub from: Region,
    /// The receiver.
    pub peer: Peer,
    /// The communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// The receiving half of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// The region to receive into.
    pub to: Region,
    /// The sender.
    pub peer: Peer,
    /// The communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// A write into a peer's window.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// The local source: part of a window.
    pub from: Region,
    /// The peer whose window is written.
    pub peer: Peer,
    /// The destination there, computed with this rank's r. `next` is the same copy on both ranks.
    pub to: Region,
    /// The signal to raise there once the data has arrived.
    #[serde(default)]
    pub signal: Option<SignalId>,
    /// The communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// Raises a signal at a peer, after all earlier puts of this rank there have arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// The signal.
    pub signal: SignalId,
    /// The peer.
    pub peer: Peer,
    /// The communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// Waits for signals. The stream waits, the host does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The signals.
    pub signals: Vec<Awaited>,
    /// The communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// A signal to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Awaited {
    /// The signal.
    pub signal: SignalId,
    /// The peer that raises it.
    pub peer: Peer,
    /// How many times.
    pub times: Expr,
}

/// Statements repeated for each value of a counter, from `from` to before `to`: every number, or
/// the powers of one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// The counter.
    pub counter: LoopId,
    /// Its first value.
    pub from: Expr,
    /// The end, excluded.
    pub to: Expr,
    /// The base, at least 2 and the same on every rank, if the counter takes only its powers: of 2,
    /// the values 1, 2, 4 and so on.
    #[serde(default)]
    pub powers: Option<Expr>,
    /// Whether it takes its values from the last to the first.
    #[serde(default)]
    pub reverse: bool,
    /// The statements.
    #[serde(deserialize_with = "shape::body")]
    pub body: Vec<Step>,
}

/// A guard.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The ranks that take part.
    pub condition: Condition,
    /// Their statements.
    #[serde(deserialize_with = "shape::body")]
    pub body: Vec<Step>,
}

/// The operands that kinds of communication share.
pub(crate) struct Communication<'a> {
    /// The region that is sent or put.
    pub(crate) from: Option<&'a Region>,
    /// The region that is received or written.
    pub(crate) to: Option<&'a Region>,
    pub(crate) peer: Option<&'a Peer>,
    /// The signal that is raised.
    pub(crate) signal: Option<SignalId>,
    pub(crate) among: CommunicatorId,
    pub(crate) place: &'a Place,
}

impl StepKind {
    /// The shared operands; `None` for local work and for statements around others.
    pub(crate) fn communication(&self) -> Option<Communication<'_>> {
        let (among, place) = match self {
            Self::Collective(this) => (this.among, &this.place),
            Self::Transfer(this) => (this.among, &this.place),
            Self::Send(this) => (this.among, &this.place),
            Self::Receive(this) => (this.among, &this.place),
            Self::Put(this) => (this.among, &this.place),
            Self::Signal(this) => (this.among, &this.place),
            Self::Wait(this) => (this.among, &this.place),
            _ => return None,
        };
        let (from, to, peer, signal) = match self {
            Self::Collective(this) => (Some(&this.send), Some(&this.recv), None, None),
            Self::Transfer(this) => (Some(&this.from), Some(&this.to), Some(&this.peer), None),
            Self::Send(this) => (Some(&this.from), None, Some(&this.peer), None),
            Self::Receive(this) => (None, Some(&this.to), Some(&this.peer), None),
            Self::Put(this) => (Some(&this.from), Some(&this.to), Some(&this.peer), this.signal),
            Self::Signal(this) => (None, None, Some(&this.peer), Some(this.signal)),
            _ => (None, None, None, None),
        };
        Some(Communication { from, to, peer, signal, among, place })
    }
}

impl Peer {
    /// A peer by cases, unless it is more than [`MOST_NESTING`] deep or has more than
    /// [`MOST_OF_ONE`] parts.
    pub fn of_cases(cases: Cases) -> Option<Self> {
        let peer = Self::Cases(Box::new(cases));
        let mut parts = 0_usize;
        for (one, depth) in peer.all() {
            let decides = match one {
                Self::Cases(cases) => cases.condition.size(),
                Self::Rank(_) => 0,
                Self::Shift(hops) => hops.len(),
            };
            parts = parts.saturating_add(1 + decides);
            if depth > MOST_NESTING || parts > MOST_OF_ONE {
                return None;
            }
        }
        Some(peer)
    }

    /// This peer and those of its cases, each with its depth, from 1. Without recursion, since
    /// plans from files may be deep.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Self, usize)> {
        let mut left = vec![(self, 1)];
        std::iter::from_fn(move || {
            let (peer, depth) = left.pop()?;
            if let Self::Cases(cases) = peer {
                left.extend([(&cases.otherwise, depth + 1), (&cases.then, depth + 1)]);
            }
            Some((peer, depth))
        })
    }
}

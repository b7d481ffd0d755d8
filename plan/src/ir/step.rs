//! What a plan does, statement by statement.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::shape;
use super::{
    AxisId, CollectiveKind, CommunicatorId, Condition, Expr, Location, LoopId, MOST_NESTING,
    MOST_OF_ONE, Region, SignalId, StreamId,
};

/// A statement of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it does.
    #[serde(rename = "do")]
    pub kind: StepKind,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

/// What a statement does. Every rank runs it, unless a guard says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Work of the user's on a stream.
    Compute(Compute),
    /// A collective: every member of the communicator takes part.
    Collective(Collective),
    /// A message in the global view: rank r sends, `to` receives. Both halves are in one group, unless
    /// the step is inside a [`StepKind::Sequence`].
    Transfer(Transfer),
    /// A message's sending half, in the local view.
    Send(Send),
    /// A message's receiving half, in the local view.
    Receive(Receive),
    /// Writes into a peer's window, and raises a signal there when it says so.
    Put(Put),
    /// Raises a signal at a peer.
    Signal(Signal),
    /// Waits until signals of peers were raised, in stream order.
    Wait(Wait),
    /// Communication that NCCL launches as one.
    Group(#[serde(deserialize_with = "shape::body")] Vec<Step>),
    /// Statements again and again.
    Loop(Loop),
    /// Statements of the ranks for which a condition holds.
    When(When),
    /// Statements in the order of the ranks: rank r's come after those of rank r - 1, as far as messages
    /// between them say so. Holds compute steps and transfers along open axes, which become halves: a
    /// rank receives what lower ranks send it before its own statements, and what higher ranks send it
    /// after them.
    Sequence(#[serde(deserialize_with = "shape::body")] Vec<Step>),
}

/// On which stream a step runs, and after which others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The stream.
    pub on: StreamId,
    /// Streams all of whose earlier steps must have ended.
    #[serde(default)]
    pub after: Vec<StreamId>,
}

/// Work of the user's: a method of the plan's steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    /// What it is called.
    pub name: String,
    /// Numbers that it gets.
    #[serde(default)]
    pub arguments: Vec<Expr>,
    /// What it reads.
    #[serde(default)]
    pub reads: Vec<Region>,
    /// What it writes.
    #[serde(default)]
    pub writes: Vec<Region>,
    /// What it leaves in what it writes, as far as the plan says.
    #[serde(default)]
    pub computes: Vec<Equation>,
    /// Where it runs.
    pub place: Place,
}

/// What a compute step leaves in a region, element by element: `b += a`, `b = min(a, c)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Equation {
    /// Which of the regions that the step writes.
    pub to: u32,
    /// How the elements of several regions become one.
    pub by: Reduction,
    /// Which of the regions that the step reads, as they are when it begins. One alone is copied.
    pub of: Vec<u32>,
}

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are NCCL's")]
pub enum Reduction {
    Sum,
    Prod,
    Min,
    Max,
    Avg,
}

/// A collective with its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collective {
    /// Which one.
    pub kind: CollectiveKind,
    /// What it sends; on a rank that sends nothing, unused.
    pub send: Region,
    /// Where it receives; on a rank that receives nothing, unused. The same region as `send` where the
    /// collective runs in place.
    pub recv: Region,
    /// Among whom.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// Another rank, seen from rank r.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    /// The rank that many places further along these axes. Each axis stands here once at most.
    Shift(Vec<Hop>),
    /// The rank of that number in the whole plan.
    Rank(Expr),
    /// One rank or another, as a condition says.
    Cases(#[serde(deserialize_with = "shape::cases")] Box<Cases>),
}

/// Another rank by two cases: `if rank % 2 == 0 { rank + 1 } else { rank - 1 }`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// What decides.
    pub condition: Condition,
    /// The rank where it holds.
    pub then: Peer,
    /// The rank where it does not.
    pub otherwise: Peer,
}

/// A distance along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// The axis.
    pub axis: AxisId,
    /// How far; negative to come from the other side. The same on every rank.
    pub by: Expr,
    /// Whether the axis is a ring. On an open one, a step towards a rank that is not there does nothing.
    pub wrap: bool,
}

/// A message in the global view. Its expressions are seen from the sender, r.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// What r sends.
    pub from: Region,
    /// Whom r sends it.
    pub peer: Peer,
    /// Where that rank puts it: a region of the receiver's memory, computed with the sender's r.
    pub to: Region,
    /// Through which communicator.
    pub among: CommunicatorId,
    /// Where both halves run.
    pub place: Place,
}

/// The sending half of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    /// What is sent.
    pub from: Region,
    /// To whom.
    pub peer: Peer,
    /// Through which communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// The receiving half of a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// Where it goes.
    pub to: Region,
    /// From whom.
    pub peer: Peer,
    /// Through which communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// A write into a peer's window.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// What is read here: part of a window.
    pub from: Region,
    /// Whose window is written.
    pub peer: Peer,
    /// Which part of it, computed with this rank's r. `next` is the same copy on both ranks.
    pub to: Region,
    /// The signal to raise there when the data has arrived.
    #[serde(default)]
    pub signal: Option<SignalId>,
    /// Through which communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// Raises a signal at a peer: it says that everything this rank put there before has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signal {
    /// Which signal.
    pub signal: SignalId,
    /// At whom.
    pub peer: Peer,
    /// Through which communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// Waits for signals. The stream waits, the host does not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// Which signals.
    pub signals: Vec<Awaited>,
    /// Through which communicator.
    pub among: CommunicatorId,
    /// Where it runs.
    pub place: Place,
}

/// A signal of a peer, awaited.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Awaited {
    /// Which signal.
    pub signal: SignalId,
    /// Raised by whom.
    pub peer: Peer,
    /// How many times.
    pub times: Expr,
}

/// A counter from `from` to before `to`, and what is done for each of its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// The counter.
    pub counter: LoopId,
    /// Its first value.
    pub from: Expr,
    /// The value before which it ends.
    pub to: Expr,
    /// Whether it counts down, from `to - 1` to `from`.
    #[serde(default)]
    pub reverse: bool,
    /// What is done.
    #[serde(deserialize_with = "shape::body")]
    pub body: Vec<Step>,
}

/// A guard.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Who takes part.
    pub condition: Condition,
    /// What they do.
    #[serde(deserialize_with = "shape::body")]
    pub body: Vec<Step>,
}

impl Peer {
    /// One rank or another, unless that is more than [`MOST_NESTING`] deep or has more than [`MOST_OF_ONE`] parts.
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

    /// This peer and those of its cases, each with its depth, from 1. No recursion: plans from files may be deep.
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

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        })
    }
}

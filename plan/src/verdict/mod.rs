//! The result of a check as data: the violated rule, its location, the sizes, who waits for whom,
//! and the remedy.

mod render;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ir::Location;

macro_rules! checks {
    ($(#[$meta:meta])* pub enum Check { $($(#[$doc:meta])+ $name:ident,)+ }) => {
        $(#[$meta])*
        pub enum Check {
            $($(#[$doc])+ $name,)+
        }

        impl Check {
            /// All of them, in order.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];
        }
    };
}

checks! {
    /// The checks, with the numbers of the [model](crate#what-must-hold).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Check {
        /// A1: every message has both halves.
        Matching,
        /// A2: element types, lengths, reductions and roots agree.
        Agreement,
        /// A3: a rank sends to itself within one group.
        SelfMessages,
        /// A4: the members of a communicator run the same collectives in the same order.
        CollectiveOrder,
        /// A5: ranks do not wait for each other in a cycle.
        Deadlock,
        /// A6: nor once the plan is captured.
        CapturedCredit,
        /// A7: operations of several communicators have one order on each device.
        CommunicatorOrder,
        /// A8: groups contain only operations that may share one.
        Groups,
        /// A9: no access races with a write.
        Hazards,
        /// A10: nor with one of the next run.
        ReplayHazards,
        /// A11: signals are raised as often as they are awaited.
        Signals,
        /// A12: everything lies inside its buffer, array and communicator.
        Bounds,
        /// A13: regions that the plan claims to fill are filled.
        Coverage,
        /// A14: the plan computes what it claims to.
        Postcondition,
        /// A15: memory is written before it is read; outputs are written.
        Initialised,}
}

/// What kind of problem a plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// It violates a rule, at the given sizes.
    Broken(Check),
    /// It is malformed: a name that is not declared, a condition that no size fulfils.
    Malformed,
    /// It is larger than the checker supports.
    TooLarge,
    /// It was not looked at to the end in the time that there was.
    OutOfTime,
    /// What it computes was not followed: a warning, for which no plan is refused.
    NotFollowed,
    /// It is allowed, and most likely not meant: a warning.
    Doubtful,
}

/// One error in a plan, and its story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Its kind.
    pub kind: ProblemKind,
    /// The error in one sentence without a final full stop.
    pub title: String,
    /// The location that the sentence is about.
    pub at: Location,
    /// The smallest sizes at which it occurs, if it depends on them: `n = 2`.
    pub sizes: Option<Sizes>,
    /// The events that lead to it, in order.
    pub story: Vec<Line>,
    /// Remedies, the best first.
    pub help: Vec<String>,
}

/// One line of a story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The rank that it is about, if any.
    pub rank: Option<usize>,
    /// The rank that this one waits for, or whose message or memory it concerns.
    pub other: Option<usize>,
    /// The location in the plan.
    pub at: Location,
    /// The event in words.
    pub text: String,
}

impl Line {
    /// A line about a rank alone.
    pub(crate) fn of(rank: usize, at: Location, text: impl Into<String>) -> Self {
        Self { rank: Some(rank), other: None, at, text: text.into() }
    }
}

/// An instance of a plan: its extents and parameters.
///
/// See the example of [`Schedule`](crate::lower::Schedule).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sizes {
    /// The extents, in the order of the plan's axes.
    pub extents: Vec<i64>,
    /// The parameters in order, each a number or the elements of a list.
    pub params: Vec<Vec<i64>>,
    /// Both as text, with their names: `n = 2, len = 4`.
    pub text: String,
}

/// All errors of a plan; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The plan's name.
    pub plan: String,
    /// Its files.
    pub files: Vec<String>,
    /// The problems, by location.
    pub problems: Vec<Problem>,
}

impl Check {
    /// Its number: `A5` is 5.
    pub fn number(self) -> usize {
        self as usize + 1
    }
}

impl Problem {
    /// A problem without a story, regardless of sizes.
    pub(crate) fn new(
        kind: ProblemKind,
        title: impl Into<String>,
        at: Location,
        help: &str,
    ) -> Self {
        let (title, help) = (title.into(), vec![help.to_owned()]);
        Self { kind, title, at, sizes: None, story: Vec::new(), help }
    }

    /// The same, at these sizes.
    pub(crate) fn at_sizes(self, sizes: &Sizes) -> Self {
        Self { sizes: Some(sizes.clone()), ..self }
    }

    /// The check that found it, if any.
    pub fn check(&self) -> Option<Check> {
        match self.kind {
            ProblemKind::Broken(check) => Some(check),
            ProblemKind::Malformed
            | ProblemKind::TooLarge
            | ProblemKind::OutOfTime
            | ProblemKind::NotFollowed
            | ProblemKind::Doubtful => None,
        }
    }

    /// Whether a rule is violated.
    pub fn is_broken(&self) -> bool {
        matches!(self.kind, ProblemKind::Broken(_))
    }
}

impl Rejected {
    /// Whether this rule is violated.
    pub fn breaks(&self, check: Check) -> bool {
        self.problems.iter().any(|problem| problem.kind == ProblemKind::Broken(check))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "A{}", self.number())
    }
}

impl std::error::Error for Rejected {}

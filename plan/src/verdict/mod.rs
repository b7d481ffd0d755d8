//! What a check says, as data: which rule, where, for which sizes, who waits for whom, and what would be right.

mod render;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ir::Location;

/// The checks. Their letters and numbers are those of the [model](crate#what-must-hold).
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
    /// A5: nobody waits in a circle.
    Deadlock,
    /// A6: nobody waits in a circle once the plan is captured.
    CapturedCredit,
    /// A7: operations of several communicators have one order on each device.
    CommunicatorOrder,
    /// A8: what may stand in one group.
    Groups,
    /// A9: nobody reads or writes what another is writing.
    Hazards,
    /// A10: nor does the next run.
    ReplayHazards,
    /// A11: signals are raised as often as they are awaited.
    Signals,
    /// A12: everything lies inside its buffer, array and communicator.
    Bounds,
    /// A13: regions that the plan says it fills are filled.
    Coverage,
    /// A14: the plan computes what it says.
    Postcondition,
    /// A15: what is read was written; outputs are written.
    Initialised,
}

/// What kind of problem a plan has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// It breaks a rule, for the sizes that are named.
    Broken(Check),
    /// It is no plan: a name that is not declared, a condition that no size fulfils.
    Malformed,
    /// It is larger than what is checked.
    TooLarge,
    /// It was not looked at to the end in the time that there was.
    OutOfTime,
}

/// One thing that is wrong with a plan, and its story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Which kind.
    pub kind: ProblemKind,
    /// What is wrong, in one sentence without a final stop.
    pub title: String,
    /// The place in the plan that the sentence is about.
    pub at: Location,
    /// The smallest sizes at which it happens, where it depends on them: `n = 2`.
    pub sizes: Option<Sizes>,
    /// What happens, in order.
    pub story: Vec<Line>,
    /// What would be right, the best first.
    pub help: Vec<String>,
}

/// One line of a story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The rank that it is about, if it is about one.
    pub rank: Option<usize>,
    /// The rank that this one waits for, or whose message or memory it is about.
    pub other: Option<usize>,
    /// Where in the plan.
    pub at: Location,
    /// What happens there.
    pub text: String,
}

/// Sizes and parameters: an instance of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sizes {
    /// The extents, in the order of the plan's axes.
    pub extents: Vec<i64>,
    /// The parameters, in their order: one number, or the elements of a list.
    pub params: Vec<Vec<i64>>,
    /// Both with their names, for people: `n = 2, len = 4`.
    pub text: String,
}

/// Everything that is wrong with a plan; at least one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The plan's name.
    pub plan: String,
    /// Its files.
    pub files: Vec<String>,
    /// What is wrong, by place.
    pub problems: Vec<Problem>,
}

impl Check {
    /// All of them, in order.
    pub const ALL: [Self; 15] = [
        Self::Matching,
        Self::Agreement,
        Self::SelfMessages,
        Self::CollectiveOrder,
        Self::Deadlock,
        Self::CapturedCredit,
        Self::CommunicatorOrder,
        Self::Groups,
        Self::Hazards,
        Self::ReplayHazards,
        Self::Signals,
        Self::Bounds,
        Self::Coverage,
        Self::Postcondition,
        Self::Initialised,
    ];

    /// Its number: `A5` is 5.
    pub fn number(self) -> usize {
        self as usize + 1
    }
}

impl Problem {
    /// One without a story, whatever the sizes.
    pub(crate) fn new(kind: ProblemKind, title: String, at: Location, help: &str) -> Self {
        let help = vec![help.to_owned()];
        Self { kind, title, at, sizes: None, story: Vec::new(), help }
    }

    /// The same, at these sizes.
    pub(crate) fn at_sizes(self, sizes: &Sizes) -> Self {
        Self { sizes: Some(sizes.clone()), ..self }
    }

    /// The check that found it, if it was one.
    pub fn check(&self) -> Option<Check> {
        match self.kind {
            ProblemKind::Broken(check) => Some(check),
            ProblemKind::Malformed | ProblemKind::TooLarge | ProblemKind::OutOfTime => None,
        }
    }

    /// Whether it is a rule that is broken.
    pub fn is_broken(&self) -> bool {
        matches!(self.kind, ProblemKind::Broken(_))
    }
}

impl Rejected {
    /// Whether this rule is broken.
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

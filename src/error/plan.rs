//! Failures of plans when they are bound by all ranks, and when they run.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::refusal::UNHARMED;
use super::report::ByRanks;
use crate::{DType, Rank};

/// The ranks bind different plans, or one of them cannot bind its own.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the ranks of {name} bind different plans (at {site}):{}; bind the same plan with the same sizes on all ranks; none is bound", ByRanks(.parts))]
pub struct PlansDiffer {
    /// The communicator's name.
    pub name: &'static str,
    /// What each rank binds (the plan, its sizes, its hash), or why it cannot.
    pub parts: Vec<String>,
    /// Where this rank binds.
    pub site: Site,
}

/// A bound plan is run with a communicator that it was not bound to.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BoundElsewhere {
    /// The plan's name.
    pub plan: String,
    /// The communicator that it was bound to, and its size.
    pub bound: (&'static str, usize),
    /// The communicator that it was run with, and its size.
    pub found: (&'static str, usize),
    /// The call site.
    pub site: Site,
}

impl fmt::Display for BoundElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, bound, found, site } = self;
        write!(f, "plan `{plan}` is bound to ")?;
        match bound.1 == found.1 {
            true => write!(f, "another communicator than this {}", found.0)?,
            false => {
                write!(f, "{} of {} ranks, and this {} has {}", bound.0, bound.1, found.0, found.1)?
            }
        }
        write!(f, " (at {}): bind it again, to this one; nothing was sent", site)
    }
}

/// A plan for one run is run again without binding it again: a second run was not checked.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "plan `{plan}` is for one run, and has had it (at {site}): bind it again for another run, or declare it without `#[once]`; nothing was sent"
)]
pub struct RanAlready {
    /// The plan's name.
    pub plan: String,
    /// The call site.
    pub site: Site,
}

/// Memory that does not fit the plan it was passed to.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BadArgument {
    /// The plan's name.
    pub plan: String,
    /// The plan's name for the memory.
    pub buffer: String,
    /// What is wrong with it.
    pub why: ArgumentFault,
    /// The call site.
    pub site: Site,
}

/// Why memory does not fit a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentFault {
    /// It was not passed.
    Missing,
    /// The plan does not take such memory.
    Unknown {
        /// The names of the memory it takes.
        known: Vec<String>,
    },
    /// It was passed twice.
    Twice,
    /// It was passed as read-only, and the plan writes it.
    ReadOnly,
    /// It has a different element type.
    DataType {
        /// Its type.
        found: DType,
        /// The plan's type.
        needed: DType,
    },
    /// It has a different length; in an array, the buffer at `index`.
    Length {
        /// The buffer's index in an array.
        index: Option<usize>,
        /// Its length in elements.
        found: usize,
        /// The plan's length in elements.
        needed: usize,
    },
    /// A different number of buffers; 1 for a single one.
    Count {
        /// The number of buffers.
        found: usize,
        /// The plan's number.
        needed: usize,
    },
    /// The plan expects a window and this is not one, or the reverse.
    Registration {
        /// Whether the plan expects a window.
        needed: bool,
    },
    /// The ranks' lengths of the window differ.
    Uneven,
    /// Another rank passed a different window for the same run.
    OtherWindow {
        /// The window's number.
        found: u64,
        /// The other rank.
        by: Rank,
        /// The number of the other rank's window.
        theirs: u64,
    },
    /// The plan expects two copies and this is not, or the reverse.
    Copies {
        /// Whether the plan expects two copies.
        needed: bool,
    },
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, buffer, why, site } = self;
        write!(f, "plan `{plan}`: `{buffer}` ")?;
        match why {
            ArgumentFault::Missing => f.write_str("is not given; give all that the plan names"),
            ArgumentFault::Unknown { known } if known.is_empty() => {
                f.write_str("is given, and the plan takes no memory")
            }
            ArgumentFault::Unknown { known } => {
                write!(f, "is no memory of the plan's, which are `{}`", known.join("`, `"))
            }
            ArgumentFault::Twice => f.write_str("is given twice"),
            ArgumentFault::ReadOnly => {
                f.write_str("is written by the plan, and given to be read; give it with `write`")
            }
            ArgumentFault::DataType { found, needed } => {
                write!(f, "has elements of {found}, the plan's are {needed}")
            }
            ArgumentFault::Length { index, found, needed } => {
                if let Some(index) = index {
                    write!(f, "[{index}] ")?;
                }
                write!(
                    f,
                    "has {found} elements, the plan's has {needed}: give one of that length, or bind the plan for this one"
                )
            }
            ArgumentFault::Count { found, needed } => {
                write!(f, "is {found} buffers, the plan's are {needed}")
            }
            ArgumentFault::Registration { needed: true } => {
                f.write_str("is a buffer, the plan's is a window: `comm.window(len)` makes one")
            }
            ArgumentFault::Registration { needed: false } => {
                f.write_str("is a window, the plan's is a buffer")
            }
            ArgumentFault::Uneven => f.write_str(
                "is a window whose parts differ in length, the plan's are alike: `comm.window(len)`",
            ),
            ArgumentFault::OtherWindow { found, by, theirs } => write!(
                f,
                "is window #{found}, and rank {by} gave window #{theirs} for the same run, so puts would miss: give the same windows on all ranks, in the order in which they were made"
            ),
            ArgumentFault::Copies { needed: true } => {
                f.write_str("is one, the plan's are two copies that swap: `Swapped::new(a, b)`")
            }
            ArgumentFault::Copies { needed: false } => {
                f.write_str("is two copies that swap, the plan's is one")
            }
        }?;
        write!(f, " (at {}); {UNHARMED}", site)
    }
}

/// A compute step that requests what its plan does not provide.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("plan `{plan}`, step `{step}`: {why}; {UNHARMED}")]
pub struct BadStep {
    /// The plan's name.
    pub plan: String,
    /// The step's name.
    pub step: String,
    /// What is wrong.
    pub why: String,
}

//! Failures of plans: when the ranks bind them together, and when they run.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::refusal::UNHARMED;
use super::report::ByRanks;
use crate::{DType, Rank};

/// The ranks bind plans that differ, or one of them cannot bind its own.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the ranks of {name} bind different plans (at {site}):{}; bind the same plan with the same sizes on all ranks; none is bound", ByRanks(.parts))]
pub struct PlansDiffer {
    /// The communicator's name.
    pub name: &'static str,
    /// What each rank binds: the plan, its sizes, its hash; or why it cannot.
    pub parts: Vec<String>,
    /// Where this rank does.
    pub site: Site,
}

/// A bound plan is run with another communicator than it was bound to.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BoundElsewhere {
    /// The plan's name.
    pub plan: String,
    /// The communicator that it was bound to, and how many ranks that has.
    pub bound: (&'static str, usize),
    /// The one that it is run with.
    pub found: (&'static str, usize),
    /// Where.
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

/// A plan for one run is run again without being bound again: nothing was checked of a second run.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "plan `{plan}` is for one run, and has had it (at {site}): bind it again for another run, or declare it without `#[once]`; nothing was sent"
)]
pub struct RanAlready {
    /// The plan's name.
    pub plan: String,
    /// Where.
    pub site: Site,
}

/// Memory that is given to a plan and does not fit it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct BadArgument {
    /// The plan's name.
    pub plan: String,
    /// What the plan calls the memory.
    pub buffer: String,
    /// What is wrong with it.
    pub why: ArgumentFault,
    /// Where.
    pub site: Site,
}

/// What is wrong with memory that is given to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentFault {
    /// It is not given.
    Missing,
    /// The plan has no such memory to give.
    Unknown {
        /// The names of the memory that it takes.
        known: Vec<String>,
    },
    /// It was given already.
    Twice,
    /// It is given to be read, and the plan writes it.
    ReadOnly,
    /// Its elements are of another type.
    DataType {
        /// Which.
        found: DType,
        /// What the plan has.
        needed: DType,
    },
    /// It has another length; in an array, the buffer of that number.
    Length {
        /// The buffer's number in an array.
        index: Option<usize>,
        /// How many elements it has.
        found: usize,
        /// How many the plan has.
        needed: usize,
    },
    /// Another number of buffers: 1 for a single one.
    Count {
        /// How many there are.
        found: usize,
        /// How many the plan has.
        needed: usize,
    },
    /// The plan has a window there, and this is none; or the reverse.
    Registration {
        /// Whether the plan has a window.
        needed: bool,
    },
    /// The ranks' parts of the window differ in length.
    Uneven,
    /// Another rank gave another window for the same run.
    OtherWindow {
        /// The window's number.
        found: u64,
        /// The other rank.
        by: Rank,
        /// The number of the one that it gave.
        theirs: u64,
    },
    /// The plan has two copies there, and this is one; or the reverse.
    Copies {
        /// Whether the plan has two copies.
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

/// A compute step that asks for something that its plan does not give it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("plan `{plan}`, step `{step}`: {why}; {UNHARMED}")]
pub struct BadStep {
    /// The plan's name.
    pub plan: String,
    /// The step's.
    pub step: String,
    /// What is wrong.
    pub why: String,
}

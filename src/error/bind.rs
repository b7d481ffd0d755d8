//! Why a plan cannot be bound.

use std::fmt;

use serde::{Deserialize, Serialize};
use typed_nccl_plan::NotClaimed;
use typed_nccl_plan::verdict::Rejected;

use super::Site;
use crate::DType;

/// A plan that cannot be bound as it is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadPlan {
    /// The plan's name.
    pub plan: String,
    /// What is wrong.
    pub why: BindFault,
    /// Where it is bound.
    pub site: Site,
}

impl fmt::Display for BadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, why, site } = self;
        write!(f, "plan `{plan}` cannot be bound (at {}): {why}", site)
    }
}

/// Why a plan cannot be bound as it is asked for. Its text says what mends it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BindFault {
    /// A value is given for an axis or a parameter that the plan does not have.
    Unknown {
        /// Which of the two: `axis`, `parameter`.
        what: &'static str,
        /// The name.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A parameter has no value.
    NoValue {
        /// Which.
        name: String,
        /// Whether it is a list of numbers.
        is_list: bool,
    },
    /// One of several axes has no extent.
    NoExtent {
        /// Which.
        axis: String,
    },
    /// Elements of a type that the plan leaves open have none.
    NoElement {
        /// What the plan calls the type.
        name: String,
    },
    /// The extents of the axes are not those of the communicator's ranks.
    OtherRanks {
        /// The axes, each with its extent.
        extents: Vec<(String, i64)>,
        /// How many ranks the communicator has.
        found: usize,
    },
    /// The plan is not for such values.
    NotClaimed(NotClaimed),
    /// It is wrong at these sizes. The first rank finds it, and tells the others.
    Wrong(Box<Wrong>),
    /// It has a put without a signal, which takes a signal that nobody awaits, and the communicator has
    /// none left.
    NoSpareSignal {
        /// How many signals the communicator would need.
        needed: u32,
    },
    /// It averages integers, which NCCL would truncate.
    Averages {
        /// Their type.
        dtype: DType,
    },
    /// What `plan!` left of it does not read.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// A plan that is wrong at the sizes at hand.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wrong {
    /// What is wrong.
    pub rejected: Rejected,
    /// What made it so.
    pub because: WrongBecause,
}

/// What made a plan wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WrongBecause {
    /// It is so as it is written.
    Written,
    /// Its windows belong to the communicator that it is bound to.
    AllRanks {
        /// The communicator of some of the ranks through which it puts and signals.
        through: String,
    },
    /// One signal stands for all of the plan's.
    OneSignal {
        /// How many the plan has.
        needed: usize,
        /// How many the communicator has.
        found: u32,
    },
}

impl fmt::Display for BindFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { what, name, known } => {
                write!(f, "it has no {what} `{name}`; what it has: ")?;
                match known.as_slice() {
                    [] => f.write_str("none"),
                    known => write!(f, "`{}`", known.join("`, `")),
                }
            }
            Self::NoValue { name, is_list } => {
                let kind = if *is_list { "list" } else { "number" };
                write!(f, "`{name}` has no value: `Values::new().{kind}(\"{name}\", ..)`")
            }
            Self::NoExtent { axis } => write!(f, "axis `{axis}` has no extent: it is a mesh"),
            Self::NoElement { name } => write!(
                f,
                "its elements `{name}` have no type: `Values::new().element::<f32>(\"{name}\")`"
            ),
            Self::OtherRanks { extents, found } => {
                for (at, (axis, extent)) in extents.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{axis} = {extent}")?;
                }
                let mut extents = extents.iter().map(|(_, extent)| *extent);
                match extents.try_fold(1_i64, i64::checked_mul) {
                    Some(ranks) => write!(f, " make {ranks} ranks")?,
                    None => f.write_str(" make too many ranks")?,
                }
                write!(f, ", and the communicator has {found}")
            }
            Self::NotClaimed(why) => why.fmt(f),
            Self::Wrong(wrong) => wrong.fmt(f),
            Self::NoSpareSignal { needed } => write!(
                f,
                "it has a put without a signal, which takes one that nobody awaits: configure `CommConfig::builder().signals({needed})`, or let the put raise a signal of the plan's"
            ),
            Self::Averages { dtype } => write!(
                f,
                "it averages {dtype}, which NCCL would truncate: use a sum, and divide where the result is read"
            ),
            Self::Unreadable { why } => f.write_str(why),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.because {
            WrongBecause::Written => {}
            WrongBecause::AllRanks { through } => write!(
                f,
                "its windows belong to the communicator that it is bound to, so its puts and signals through `{through}` go through all ranks, where operations follow each other; that would be wrong:"
            )?,
            WrongBecause::OneSignal { needed, found } => write!(
                f,
                "it has {needed} signals, and the communicator {found}: configure `CommConfig::builder().signals({needed})`; with one signal for all it would be wrong:"
            )?,
        }
        write!(f, "\n{}", self.rejected)
    }
}

impl From<NotClaimed> for BindFault {
    fn from(why: NotClaimed) -> Self {
        Self::NotClaimed(why)
    }
}

impl From<Wrong> for BindFault {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(Box::new(wrong))
    }
}

impl From<Rejected> for Wrong {
    fn from(rejected: Rejected) -> Self {
        Self { rejected, because: WrongBecause::Written }
    }
}

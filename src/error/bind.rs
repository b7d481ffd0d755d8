//! Why a plan cannot be bound.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use typed_nccl_plan::NotClaimed;
use typed_nccl_plan::verdict::Rejected;

use super::Site;
use crate::DType;

/// A plan that cannot be bound as it is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("plan `{plan}` cannot be bound (at {site}): {why}")]
pub struct BadPlan {
    /// The plan's name.
    pub plan: String,
    /// What is wrong.
    pub why: BindFault,
    /// Where it is bound.
    pub site: Site,
}

/// Why a plan cannot be bound as it is asked for. Its text says what mends it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum BindFault {
    /// A value is given for an axis or a parameter that the plan does not have.
    #[error("it has no {what} `{name}`; what it has: {}", listed(.known))]
    Unknown {
        /// Which of the two: `axis`, `parameter`.
        what: &'static str,
        /// The name.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// A parameter has no value.
    #[error("`{name}` has no value: `Values::new().{}(\"{name}\", ..)`", kind(.is_list))]
    NoValue {
        /// Which.
        name: String,
        /// Whether it is a list of numbers.
        is_list: bool,
    },
    /// One of several axes has no extent.
    #[error("axis `{axis}` has no extent: it is a mesh")]
    NoExtent {
        /// Which.
        axis: String,
    },
    /// Elements of a type that the plan leaves open have none.
    #[error("its elements `{name}` have no type: `Values::new().element::<f32>(\"{name}\")`")]
    NoElement {
        /// What the plan calls the type.
        name: String,
    },
    /// The extents of the axes are not those of the communicator's ranks.
    #[error("{} make {}, and the communicator has {found}", axes(.extents), ranks(.extents))]
    OtherRanks {
        /// The axes, each with its extent.
        extents: Vec<(String, i64)>,
        /// How many ranks the communicator has.
        found: usize,
    },
    /// The plan is not for such values.
    #[error("{0}")]
    NotClaimed(NotClaimed),
    /// It is wrong at these sizes. The first rank finds it, and tells the others.
    #[error("{0}")]
    Wrong(Box<Wrong>),
    /// It has a put without a signal, which takes a signal that nobody awaits, and the communicator has
    /// none left.
    #[error(
        "it has a put without a signal, which takes one that nobody awaits: configure `CommConfig::builder().signals({needed})`, or let the put raise a signal of the plan's"
    )]
    NoSpareSignal {
        /// How many signals the communicator would need.
        needed: u32,
    },
    /// It averages integers, which NCCL would truncate.
    #[error(
        "it averages {dtype}, which NCCL would truncate: use a sum, and divide where the result is read"
    )]
    Averages {
        /// Their type.
        dtype: DType,
    },
    /// What `plan!` left of it does not read.
    #[error("{why}")]
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

fn listed(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { format!("`{}`", known.join("`, `")) }
}

fn kind(is_list: &bool) -> &'static str {
    if *is_list { "list" } else { "number" }
}

fn axes(extents: &[(String, i64)]) -> String {
    let axes = extents.iter().map(|(axis, extent)| format!("{axis} = {extent}"));
    axes.collect::<Vec<_>>().join(", ")
}

fn ranks(extents: &[(String, i64)]) -> String {
    let ranks = extents.iter().try_fold(1_i64, |ranks, (_, extent)| ranks.checked_mul(*extent));
    ranks.map_or_else(|| "too many ranks".to_owned(), |ranks| format!("{ranks} ranks"))
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

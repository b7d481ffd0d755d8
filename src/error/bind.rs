//! Failures to bind a plan.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use typed_nccl_plan::NotClaimed;
use typed_nccl_plan::verdict::Rejected;

use super::Site;
use crate::{DType, Rank, ReductionName};

/// A plan that cannot be bound as requested.
///
/// ```
/// # use typed_nccl::{Error, Host};
/// # use typed_nccl::{Seat, error::{BindFault, WrongBecause}, plans::hierarchical_all_reduce};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let params = hierarchical_all_reduce::Params { nodes: 2, local: 4, len: 1024 };
/// let bound = hierarchical_all_reduce::bind::<f32, _>(&mut comm, params).map(drop);
/// let Err(Error::BadPlan(bad)) = bound else { panic!("it is for 8 ranks") };
/// match bad.why {
///     BindFault::OtherRanks { found, .. } => assert_eq!(found, 1),
///     BindFault::Wrong(wrong) if wrong.because == WrongBecause::Written => {
///         panic!("mend the plan: {}", wrong.rejected)
///     }
///     why => panic!("{why}"),
/// }
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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

/// Why a plan cannot be bound as requested. The message includes the remedy.
///
/// See the example of [`BadPlan`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum BindFault {
    /// A value is given for an axis or a parameter that the plan does not have.
    #[error("it has no {what} `{name}`; what it has: {}", listed(.known))]
    Unknown {
        /// `axis` or `parameter`.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that the plan has.
        known: Vec<String>,
    },
    /// A parameter has no value.
    #[error("`{name}` has no value: `Values::new().{}(\"{name}\", ..)`", kind(.is_list))]
    NoValue {
        /// Its name.
        name: String,
        /// Whether it is a list of numbers.
        is_list: bool,
    },
    /// One of several axes has no extent.
    #[error("axis `{axis}` has no extent: it is a mesh")]
    NoExtent {
        /// Its name.
        axis: String,
    },
    /// An element type that the plan leaves open was not given.
    #[error("its elements `{name}` have no type: `Values::new().element::<f32>(\"{name}\")`")]
    NoElement {
        /// The plan's name for the type.
        name: String,
    },
    /// The extents of the axes do not multiply to the number of ranks.
    #[error("{} make {}, and the communicator has {found}", axes(.extents), ranks(.extents))]
    OtherRanks {
        /// The axes, each with its extent.
        extents: Vec<(String, i64)>,
        /// The communicator's number of ranks.
        found: usize,
    },
    /// The plan does not claim to work for such values.
    #[error("{0}")]
    NotClaimed(NotClaimed),
    /// It is wrong at these sizes. The first rank checks it for all.
    #[error("{0}")]
    Wrong(Box<Wrong>),
    /// It has a put without a signal. Such a put uses a signal that is never awaited, and the
    /// communicator has none to spare.
    #[error(
        "it has a put without a signal, which takes one that nobody awaits: configure `CommConfig::builder().signals({needed})`, or let the put raise a signal of the plan's"
    )]
    NoSpareSignal {
        /// The number of signals the communicator would need.
        needed: u32,
    },
    /// It reads the window of a rank whose memory this one does not reach.
    #[error(
        "it reads `{window}` of rank {peer}, whose memory this rank does not reach: send or put it instead, or bind the plan to ranks of one machine whose GPUs reach each other's memory"
    )]
    OutOfReach {
        /// The window's name in the plan.
        window: String,
        /// The rank.
        peer: Rank,
    },
    /// It averages integers, which NCCL would truncate.
    #[error(
        "it averages {dtype}, which NCCL would truncate: use a sum, and divide where the result is read"
    )]
    Averages {
        /// Their type.
        dtype: DType,
    },
    /// It reduces elements that its reduction does not take.
    #[error("it reduces {dtype} by `{reduction}`: {}", reduction.remedy(*dtype))]
    NotReducible {
        /// The reduction.
        reduction: ReductionName,
        /// Their type.
        dtype: DType,
    },
    /// The form in which `plan!` stored it cannot be decoded.
    #[error("{why}")]
    Unreadable {
        /// The reason.
        why: String,
    },
}

/// A plan that is wrong at the actual sizes.
///
/// See the example of [`BadPlan`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wrong {
    /// What is wrong.
    pub rejected: Rejected,
    /// The cause.
    pub because: WrongBecause,
}

/// The cause of a wrong plan.
///
/// See the example of [`BadPlan`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WrongBecause {
    /// The plan as it is written.
    Written,
    /// Its windows belong to the communicator that it is bound to.
    AllRanks {
        /// The communicator of some of the ranks through which it puts and signals.
        through: String,
    },
    /// A single signal stands in for all of the plan's.
    OneSignal {
        /// The number of signals of the plan.
        needed: usize,
        /// The number of signals of the communicator.
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

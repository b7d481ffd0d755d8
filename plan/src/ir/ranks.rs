//! Which ranks and parameters a plan is for.

use serde::{Deserialize, Serialize};

use super::{AxisId, Condition, Expr, Location};

/// The numbers that an axis, or a parameter, may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// This one.
    Exactly(i64),
    /// One of these.
    OneOf(Vec<i64>),
    /// From the first to the last, both among them.
    Range(i64, i64),
    /// This one or any above.
    AtLeast(i64),
}

/// One dimension of the plan's ranks.
///
/// A plain plan has one axis, whose extent is the number of ranks. A mesh has several: the ranks count
/// through the last one fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What the plan calls it.
    pub name: String,
    /// How many ranks it may have; from 1.
    pub extent: Values,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

/// A number, or a list of numbers, that is known when the plan is bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// What the plan calls it.
    pub name: String,
    /// What it, or each of its elements, may be.
    pub values: Values,
    /// For a list, how many elements it has. Mentions parameters declared before it.
    #[serde(default)]
    pub count: Option<Expr>,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

/// What the extents and the parameters promise: `where m >= 4 * h`. Mentions no rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// What holds.
    pub condition: Condition,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

/// A communicator of the plan: ranks that agree in every axis that it does not have.
///
/// The one with all axes is the world. On a mesh `[nodes, local]`, the one with `local` alone is the ranks
/// of a node. Its ranks count as the plan's do, through its last axis fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Communicator {
    /// What the plan calls it.
    pub name: String,
    /// The axes along which its ranks differ, in the order of the plan's axes.
    pub axes: Vec<AxisId>,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

impl Values {
    /// Whether `value` is one of them.
    pub fn contains(&self, value: i64) -> bool {
        match self {
            Self::Exactly(only) => value == *only,
            Self::OneOf(list) => list.contains(&value),
            Self::Range(first, last) => (*first..=*last).contains(&value),
            Self::AtLeast(first) => value >= *first,
        }
    }

    /// The smallest, if there is one.
    pub fn first(&self) -> Option<i64> {
        match self {
            Self::Exactly(only) => Some(*only),
            Self::OneOf(list) => list.iter().copied().min(),
            Self::Range(first, last) => (first <= last).then_some(*first),
            Self::AtLeast(first) => Some(*first),
        }
    }

    /// The largest, if there is one.
    pub fn last(&self) -> Option<i64> {
        match self {
            Self::Exactly(only) => Some(*only),
            Self::OneOf(list) => list.iter().copied().max(),
            Self::Range(first, last) => (first <= last).then_some(*last),
            Self::AtLeast(_) => None,
        }
    }
}

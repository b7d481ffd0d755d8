//! The ranks and parameters that a plan supports.

use serde::{Deserialize, Serialize};

use super::{AxisId, Condition, Each, Expr, Location};

/// The permitted values of an axis or a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// Only this one.
    Exactly(i64),
    /// One of these.
    OneOf(Vec<i64>),
    /// From the first to the last, inclusive.
    Range(i64, i64),
    /// This one or any above.
    AtLeast(i64),
    /// 1, this one, its square and so on; at least 2.
    Powers(i64),
}

/// One dimension of the plan's ranks.
///
/// A plan without a mesh has one axis, whose extent is the number of ranks. A mesh has several;
/// ranks are numbered with the last one fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The permitted numbers of ranks along it, at least 1.
    pub extent: Values,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

/// A number, or a list of numbers, that binding supplies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The permitted values of it, or of each of its elements.
    pub values: Values,
    /// For a list, its length. May depend on parameters declared before it.
    #[serde(default)]
    pub count: Option<Expr>,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

/// A condition on extents and parameters that holds whenever the plan is bound: `where m >= 4 * h`.
/// The same on every rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// The loops around it, the outermost first: it holds for each value of their counters.
    #[serde(default)]
    pub around: Vec<Each>,
    /// The condition.
    pub condition: Condition,
    /// Where it is written.
    #[serde(default)]
    pub at: Location,
}

/// A communicator of the plan: ranks that agree along every axis that it lacks.
///
/// The one with all axes is the world. On a mesh `[nodes, local]`, the one with only `local`
/// consists of the ranks of a node. Its ranks are numbered like the plan's, with its last axis
/// fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Communicator {
    /// Its name.
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
            Self::Powers(of) => powers(*of).any(|power| power == value),
        }
    }

    /// The smallest, if there is one.
    pub fn first(&self) -> Option<i64> {
        match self {
            Self::Exactly(only) => Some(*only),
            Self::OneOf(list) => list.iter().copied().min(),
            Self::Range(first, last) => (first <= last).then_some(*first),
            Self::AtLeast(first) => Some(*first),
            Self::Powers(_) => Some(1),
        }
    }

    /// The largest, if there is one.
    pub fn last(&self) -> Option<i64> {
        match self {
            Self::Exactly(only) => Some(*only),
            Self::OneOf(list) => list.iter().copied().max(),
            Self::Range(first, last) => (first <= last).then_some(*last),
            Self::AtLeast(_) | Self::Powers(_) => None,
        }
    }
}

/// 1 and so on, as far as 64 bits go. Only 1, if there are no more or no end to them.
pub(crate) fn powers(of: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(1_i64), move |power| power.checked_mul(of).filter(|_| of > 1))
}

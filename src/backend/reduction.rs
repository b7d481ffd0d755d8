//! The names of reductions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reduction as a value, which reports compare and print. Its variants have other names than the
/// operators, so that the compiler prints those without a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ReductionName {
    /// [`Sum`](struct@crate::Sum)
    Add,
    /// [`Prod`](struct@crate::Prod)
    Multiply,
    /// [`Min`](struct@crate::Min)
    Least,
    /// [`Max`](struct@crate::Max)
    Greatest,
    /// [`Avg`](struct@crate::Avg)
    Mean,
    /// [`PreMulSum`](struct@crate::PreMulSum)
    ScaledAdd,
}

impl fmt::Display for ReductionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "Sum",
            Self::Multiply => "Prod",
            Self::Least => "Min",
            Self::Greatest => "Max",
            Self::Mean => "Avg",
            Self::ScaledAdd => "PreMulSum",
        })
    }
}

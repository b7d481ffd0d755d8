//! The names of reductions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::DType;

/// A reduction as a value, which reports compare and print. Its variants have other names than the
/// operators, so that the compiler prints those without a path.
///
/// ```
/// # use typed_nccl::{Error, Host, Max, ReductionName, Sum, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let mut x = comm.device().zeros::<f32>(4)?;
/// match comm.rank().index() {
///     0 => comm.all_reduce_in_place(&mut x, Sum)?,
///     _ => comm.all_reduce_in_place(&mut x, Max)?,
/// }
/// let Err(Error::Mismatch(differ)) = x.to_vec() else { panic!("they differ") };
/// assert_eq!(differ.calls[0].1.reduction, Some(ReductionName::Add));
/// # comm.finish() }).expect("every rank ends well");
/// ```
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
    /// [`Sum::exact`](crate::Sum::exact)
    ExactAdd,
    /// [`Avg::exact`](crate::Avg::exact)
    ExactMean,
    /// [`Sum::in_f32`](crate::Sum::in_f32)
    WideAdd,
    /// [`Avg::in_f32`](crate::Avg::in_f32)
    WideMean,
    /// [`BitAnd`](struct@crate::BitAnd)
    BitwiseAnd,
    /// [`BitOr`](struct@crate::BitOr)
    BitwiseOr,
    /// [`BitXor`](struct@crate::BitXor)
    BitwiseXor,
    /// [`And`](struct@crate::And)
    LogicalAnd,
    /// [`Or`](struct@crate::Or)
    LogicalOr,
}

impl ReductionName {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 15] = [
        Self::Add,
        Self::Multiply,
        Self::Least,
        Self::Greatest,
        Self::Mean,
        Self::ScaledAdd,
        Self::ExactAdd,
        Self::ExactMean,
        Self::WideAdd,
        Self::WideMean,
        Self::BitwiseAnd,
        Self::BitwiseOr,
        Self::BitwiseXor,
        Self::LogicalAnd,
        Self::LogicalOr,
    ];

    /// Whether NCCL has it. The host has all.
    #[inline]
    pub const fn is_nccls(self) -> bool {
        (self as u8) <= Self::ScaledAdd as u8
    }

    /// Whether it divides by the number of ranks.
    #[inline]
    pub(crate) const fn averages(self) -> bool {
        matches!(self, Self::Mean | Self::ExactMean | Self::WideMean)
    }

    /// Whether it reduces elements of that type.
    #[inline]
    pub const fn reduces(self, dtype: DType) -> bool {
        match self {
            Self::Add | Self::Multiply => {
                dtype.is_integer() || dtype.is_float() || dtype.part().is_some()
            }
            Self::Least | Self::Greatest | Self::ScaledAdd => {
                dtype.is_integer() || dtype.is_float()
            }
            Self::Mean | Self::ExactAdd | Self::ExactMean => {
                dtype.is_float() || dtype.part().is_some()
            }
            Self::WideAdd | Self::WideMean => dtype.is_float() && dtype.size() < 4,
            Self::BitwiseAnd | Self::BitwiseOr | Self::BitwiseXor => dtype.is_integer(),
            Self::LogicalAnd | Self::LogicalOr => matches!(dtype, DType::Bool),
        }
    }

    /// What a reduction of this many elements computes with: sums and means of complex numbers are
    /// those of twice as many floats.
    #[inline]
    pub(crate) const fn computes_with(self, dtype: DType, count: usize) -> (DType, usize) {
        match dtype.part() {
            // An operand of so many bytes exists, or it was refused.
            Some(part) if !matches!(self, Self::Multiply) => (part, 2 * count),
            _ => (dtype, count),
        }
    }

    /// What mends a reduction of a type that it does not reduce.
    pub(crate) const fn remedy(self, dtype: DType) -> &'static str {
        match self {
            Self::Least | Self::Greatest if dtype.part().is_some() => {
                "complex numbers have no order; reduce their magnitudes"
            }
            Self::ScaledAdd if dtype.part().is_some() => {
                "a scalar multiplies floats and integers; multiply before the call, and use `Sum`"
            }
            Self::Add | Self::Multiply | Self::Least | Self::Greatest | Self::ScaledAdd => {
                "it needs a number; `And` and `Or` reduce truth values, and plain data can only be moved"
            }
            Self::Mean => {
                "an average needs a floating-point type; use `Sum`, and divide where you read the result"
            }
            Self::ExactAdd | Self::ExactMean => {
                "an exact sum needs a floating-point type; `Sum` of integers is exact unless it wraps"
            }
            Self::WideAdd | Self::WideMean => {
                "it sums floats of 16 and 8 bits in f32; use `Sum` or `Avg` for wider ones"
            }
            Self::BitwiseAnd | Self::BitwiseOr | Self::BitwiseXor => {
                "bits are combined in integers; `And` and `Or` reduce truth values"
            }
            Self::LogicalAnd | Self::LogicalOr => {
                "it reduces truth values (`Bool`); `BitAnd` and `BitOr` reduce integers"
            }
        }
    }
}

const _: () = {
    let mut i = 0;
    while i < ReductionName::ALL.len() {
        assert!(ReductionName::ALL[i] as usize == i);
        i += 1;
    }
};

impl fmt::Display for ReductionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "Sum",
            Self::Multiply => "Prod",
            Self::Least => "Min",
            Self::Greatest => "Max",
            Self::Mean => "Avg",
            Self::ScaledAdd => "PreMulSum",
            Self::ExactAdd => "Sum.exact()",
            Self::ExactMean => "Avg.exact()",
            Self::WideAdd => "Sum.in_f32()",
            Self::WideMean => "Avg.in_f32()",
            Self::BitwiseAnd => "BitAnd",
            Self::BitwiseOr => "BitOr",
            Self::BitwiseXor => "BitXor",
            Self::LogicalAnd => "And",
            Self::LogicalOr => "Or",
        })
    }
}

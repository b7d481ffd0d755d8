//! Converts our values to NCCL's numbers.

use std::ffi::c_int;
use std::sync::Arc;

use nccl_sys::{ncclDataType_t, ncclRedOp_t};

use super::api::Nccl;
use crate::backend::{Allocation, Reduction, form};
use crate::cuda::CudaBackend;
use crate::error::{Call, Error, Unsupported};
use crate::{DType, ReductionName, Result};

/// A number as C's `int`; the largest one if it does not fit.
pub(super) fn number(n: impl TryInto<c_int>) -> c_int {
    n.try_into().unwrap_or(c_int::MAX)
}

/// The data type's number. NCCL moves types that it lacks as bytes.
#[inline]
pub(super) fn dtype(dtype: DType) -> ncclDataType_t {
    dtype.nccl_number().map_or(ncclDataType_t::ncclUint8, |number| ncclDataType_t(number.into()))
}

/// As many of NCCL's elements as `count` elements are.
#[inline]
pub(super) fn count(dtype: DType, count: usize) -> usize {
    // An operand of so many bytes exists, or it was refused.
    if dtype.nccl_number().is_some() { count } else { count * dtype.size() }
}

/// The data type's number and the count for a collective; NCCL reduces complex numbers as floats.
#[inline]
pub(super) fn counted(call: &Call) -> (usize, ncclDataType_t) {
    let (dtype, count) = match call.reduction {
        Some(reduction) => reduction.computes_with(call.dtype, call.count),
        None => (call.dtype, call.count),
    };
    (self::count(dtype, count), self::dtype(dtype))
}

/// Whether every supported NCCL release knows the data type, and reduces it.
#[inline]
pub(super) fn always_known(dtype: DType) -> bool {
    matches!(dtype.nccl_number(), Some(number) if number < 10)
}

/// Fails if NCCL cannot reduce by that, or elements of that type.
pub(super) fn reduces(name: ReductionName, dtype: DType) -> Result<()> {
    let found = match name {
        _ if !name.is_nccls() => "NCCL, which has no such reduction",
        _ if name.computes_with(dtype, 0).0.nccl_number().is_none() => {
            "NCCL, which reduces no such data type"
        }
        _ => return Ok(()),
    };
    Err(Unsupported::error(format!("{name} of {dtype}"), "a communicator of `Host`", found))
}

/// The local work of plans has kernels for sums and means of complex numbers only.
#[cold]
pub(super) fn no_products(by: ReductionName, dtype: DType) -> Error {
    Unsupported::error(
        format!("{by} of {dtype} as local work"),
        "a communicator of `Host`",
        "a GPU, for which this library multiplies no complex numbers",
    )
}

/// Fails if the loaded NCCL does not know the data type.
pub(super) fn knows(nccl: &Nccl, dtype: DType) -> Result<()> {
    if always_known(dtype) {
        return Ok(());
    }
    let mut known = ncclDataType_t::VALUES.iter();
    match known.find(|(_, number, _)| *number == self::dtype(dtype)) {
        Some((.., since)) => nccl.needs_version(&format!("the data type {dtype}"), *since),
        None => Ok(()),
    }
}

/// Scaling 8-bit floats needs more than one rank.
#[cold]
pub(super) fn no_scaling(dtype: DType) -> Error {
    Unsupported::error(
        format!("PreMulSum of {dtype}"),
        "two ranks or more",
        "the communicator has one, where NCCL scales no 8-bit floats: scale them yourself",
    )
}

/// An operator that scales before it adds.
#[derive(Clone)]
pub struct Operator {
    pub(super) number: ncclRedOp_t,
    /// The scalar, if an operation reads it when it runs.
    pub(super) scalar: Option<Arc<Allocation<CudaBackend>>>,
}

/// The reduction's number. Collectives without a reduction ignore it.
#[inline]
pub(super) fn reduction(reduction: Option<Reduction<'_, CudaBackend>>) -> ncclRedOp_t {
    match reduction {
        Some(form::Reduction::Made(operator)) => operator.number,
        Some(form::Reduction::BuiltIn(name)) => match name {
            ReductionName::Multiply => ncclRedOp_t::ncclProd,
            ReductionName::Greatest => ncclRedOp_t::ncclMax,
            ReductionName::Least => ncclRedOp_t::ncclMin,
            ReductionName::Mean => ncclRedOp_t::ncclAvg,
            // Others were refused. `ScaledAdd` names an operator that a communicator made.
            _ => ncclRedOp_t::ncclSum,
        },
        None => ncclRedOp_t::ncclSum,
    }
}

#[cfg(test)]
mod tests {
    use nccl_sys::ncclDataType_t as N;

    use crate::DType;

    #[test]
    fn the_numbers_are_nccls() {
        let theirs = [
            N::ncclInt8,
            N::ncclUint8,
            N::ncclInt32,
            N::ncclUint32,
            N::ncclInt64,
            N::ncclUint64,
            N::ncclFloat16,
            N::ncclFloat32,
            N::ncclFloat64,
            N::ncclBfloat16,
            N::ncclFloat8e4m3,
            N::ncclFloat8e5m2,
        ];
        assert!(DType::ALL[..12].iter().copied().map(super::dtype).eq(theirs));
        let moved =
            DType::ALL[12..].iter().map(|dtype| (super::dtype(*dtype), super::count(*dtype, 3)));
        assert!(moved.eq([6, 6, 3, 24, 48].map(|bytes| (N::ncclUint8, bytes))));
    }
}

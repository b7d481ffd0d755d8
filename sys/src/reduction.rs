//! Element types and reduction operators.

use std::ffi::{c_int, c_void};

use crate::handles::ncclComm_t;
use crate::macros::{c_enum, functions};
use crate::result::ncclResult_t;

c_enum! {
    /// The type of an element.
    pub struct ncclDataType_t;
    since "2.18" {
        /// 8 bits, signed.
        ncclInt8 = 0;
        /// The same as `ncclInt8`.
        ncclChar = 0;
        /// 8 bits.
        ncclUint8 = 1;
        /// 32 bits, signed.
        ncclInt32 = 2;
        /// The same as `ncclInt32`.
        ncclInt = 2;
        /// 32 bits.
        ncclUint32 = 3;
        /// 64 bits, signed.
        ncclInt64 = 4;
        /// 64 bits.
        ncclUint64 = 5;
        /// IEEE half precision.
        ncclFloat16 = 6;
        /// The same as `ncclFloat16`.
        ncclHalf = 6;
        /// IEEE single precision.
        ncclFloat32 = 7;
        /// The same as `ncclFloat32`.
        ncclFloat = 7;
        /// IEEE double precision.
        ncclFloat64 = 8;
        /// The same as `ncclFloat64`.
        ncclDouble = 8;
        /// The upper half of a single. Older headers show it where CUDA's is seen only.
        ncclBfloat16 = 9;
    }
    since "2.24.3" {
        /// 8 bits, 4 of them exponent. Reducing it needs compute capability 9.0.
        ncclFloat8e4m3 = 10;
        /// 8 bits, 5 of them exponent. Reducing it needs compute capability 9.0.
        ncclFloat8e5m2 = 11;
        /// How many types 2.24 to 2.32.3 have; not a type.
        ncclNumTypes = 12;
    }
}

c_enum! {
    /// How elements are combined: one of five, or what `ncclRedOpCreatePreMulSum` wrote. Any value
    /// up to `ncclMaxRedOp` can be an operator.
    pub struct ncclRedOp_t;
    since "2.18" {
        /// The sum.
        ncclSum = 0;
        /// The product.
        ncclProd = 1;
        /// The largest.
        ncclMax = 2;
        /// The smallest.
        ncclMin = 3;
        /// The sum divided by the number of ranks.
        ncclAvg = 4;
        /// How many are built in; not an operator.
        ncclNumOps = 5;
        /// The largest value of an operator.
        ncclMaxRedOp = c_int::MAX;
    }
}

c_enum! {
    /// Where the scalar of a reduction operator lies, and when it is read.
    pub struct ncclScalarResidence_t;
    since "2.18" {
        /// Memory that the device sees, read while an operation runs.
        ncclScalarDevice = 0;
        /// Memory that the host sees, read before the creating call returns.
        ncclScalarHostImmediate = 1;
    }
}

functions! {
    /// Makes an operator that multiplies each rank's input by `scalar` and sums. It belongs to this
    /// communicator and this element type.
    fn ncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t,
        scalar: *mut c_void,
        datatype: ncclDataType_t,
        residence: ncclScalarResidence_t,
        comm: ncclComm_t,
    ) -> ncclResult_t;

    /// Frees an operator that was made on this communicator. Allowed as soon as the last call that
    /// got it has returned.
    fn ncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t;
}

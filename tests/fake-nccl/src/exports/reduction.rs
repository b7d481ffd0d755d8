//! Reduction operators of one's own. The log has a scalar on the host as `*scalar`, its bytes.

use std::ffi::{c_int, c_void};

use nccl_sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclScalarResidence_t};

use crate::books::Operator;
use crate::call::Value;
use crate::export::exports;
use crate::state::Refusal;

/// How many bytes an element has.
fn bytes_of(datatype: ncclDataType_t) -> usize {
    match datatype {
        ncclDataType_t::ncclFloat16 | ncclDataType_t::ncclBfloat16 => 2,
        ncclDataType_t::ncclInt32 | ncclDataType_t::ncclUint32 | ncclDataType_t::ncclFloat32 => 4,
        ncclDataType_t::ncclInt64 | ncclDataType_t::ncclUint64 | ncclDataType_t::ncclFloat64 => 8,
        _ => 1,
    }
}

exports! {
    answer fn ncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t,
        scalar: *mut c_void,
        datatype: ncclDataType_t,
        residence: ncclScalarResidence_t,
        comm: ncclComm_t,
    ) -> ncclResult_t = |state| {
        state.ready(comm)?;
        state.datatype(datatype)?;
        op.needed()?;
        if scalar.is_null() || residence.name().is_none() {
            return Err(Refusal::argument(format!("there is no scalar in {residence:?}")));
        }
        if residence == ncclScalarResidence_t::ncclScalarHostImmediate {
            let bytes = bytes_of(datatype);
            // SAFETY: the caller keeps NCCL's contract: the scalar is on the host, one of this type.
            let scalar = unsafe { scalar.bytes(bytes) };
            state.note("*scalar", Value::Bytes(scalar));
        }
        let number = ncclRedOp_t::ncclNumOps.0 + state.number() as c_int;
        state.operators.insert(number, Operator { comm: comm.address(), datatype });
        op.put(ncclRedOp_t(number))
    };

    answer fn ncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t = |state| {
        state.live(comm)?;
        match state.operators.get(&op.0) {
            Some(made) if made.comm == comm.address() => {
                state.operators.remove(&op.0);
                Ok(())
            }
            _ => Err(Refusal::argument(format!("{op:?} was not made on this communicator"))),
        }
    };
}

//! User-defined reduction operators. The log has a scalar on the host as `*scalar`, its bytes.

use std::ffi::{c_int, c_void};

use nccl_sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclScalarResidence_t};

use crate::books::Operator;
use crate::call::Value;
use crate::export::exports;
use crate::moves::{self, Operation};
use crate::state::Refusal;

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
        let mut operation = Operation::ScaledBy(scalar.exposed());
        if residence == ncclScalarResidence_t::ncclScalarHostImmediate {
            // SAFETY: by NCCL's contract, which the caller keeps, it is a scalar of this type on
            // the host.
            let scalar = unsafe { scalar.bytes(moves::width(datatype)) };
            let mut bytes = [0; 8];
            bytes[..scalar.len()].copy_from_slice(&scalar);
            operation = Operation::Scaled(bytes);
            state.note("*scalar", Value::Bytes(scalar));
        }
        let number = ncclRedOp_t::ncclNumOps.0 + state.number() as c_int;
        state.operators.insert(number, Operator { comm: comm.address(), datatype, operation });
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

//! Send and receive, which do neither.

use std::ffi::{c_int, c_void};

use nccl_sys::{cudaStream_t, ncclComm, ncclComm_t, ncclDataType_t, ncclResult_t};

use crate::export::exports;
use crate::pointer::Place;
use crate::state::{Answer, State};

fn check(
    state: &mut State,
    comm: Place<ncclComm>,
    datatype: ncclDataType_t,
    peer: c_int,
) -> Answer {
    state.ready(comm)?.has_rank(peer)?;
    state.datatype(datatype)
}

exports! {
    answer fn ncclSend(
        sendbuff: *const c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check(state, comm, datatype, peer);

    answer fn ncclRecv(
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check(state, comm, datatype, peer);
}

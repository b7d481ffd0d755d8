//! Collectives: their arguments are looked at, and no element moves.

use std::ffi::{c_int, c_void};

use nccl_sys::{
    cudaStream_t, ncclCollConfig_t, ncclComm, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t,
};

use crate::export::exports;
use crate::pointer::{Place, Source};
use crate::state::{Answer, State};

/// What all collectives ask for.
fn check(state: &mut State, comm: Place<ncclComm>, datatype: ncclDataType_t) -> Answer {
    state.ready(comm)?;
    state.datatype(datatype)
}

fn check_op(
    state: &mut State,
    comm: Place<ncclComm>,
    datatype: ncclDataType_t,
    op: ncclRedOp_t,
) -> Answer {
    check(state, comm, datatype)?;
    state.operator(comm, datatype, op)
}

fn check_root(
    state: &mut State,
    comm: Place<ncclComm>,
    datatype: ncclDataType_t,
    root: c_int,
) -> Answer {
    check(state, comm, datatype)?;
    state.live(comm)?.has_rank(root)
}

/// What a configuration of a call's own has to be.
fn check_config(config: Source<ncclCollConfig_t>) -> Answer {
    config.optional_header().map(|_| ())
}

exports! {
    answer fn ncclAllReduce(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check_op(state, comm, datatype, op);

    answer fn ncclBroadcast(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check_root(state, comm, datatype, root);

    answer fn ncclReduce(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        check_op(state, comm, datatype, op)?;
        check_root(state, comm, datatype, root)
    };

    answer fn ncclAllGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        sendcount: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check(state, comm, datatype);

    answer fn ncclReduceScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        recvcount: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check_op(state, comm, datatype, op);

    answer fn ncclAlltoAll(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check(state, comm, datatype);

    answer fn ncclGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check_root(state, comm, datatype, root);

    answer fn ncclScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check_root(state, comm, datatype, root);

    answer fn ncclBcast(
        buff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| check_root(state, comm, datatype, root);

    answer fn ncclAllReduceConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check_op(state, comm, datatype, op)
    };

    answer fn ncclBroadcastConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check_root(state, comm, datatype, root)
    };

    answer fn ncclReduceConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check_op(state, comm, datatype, op)?;
        check_root(state, comm, datatype, root)
    };

    answer fn ncclAllGatherConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        sendcount: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check(state, comm, datatype)
    };

    answer fn ncclReduceScatterConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        recvcount: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check_op(state, comm, datatype, op)
    };

    answer fn ncclAlltoAllConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check(state, comm, datatype)
    };

    answer fn ncclGatherConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check_root(state, comm, datatype, root)
    };

    answer fn ncclScatterConfig(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
        config: *const ncclCollConfig_t,
    ) -> ncclResult_t = |state| {
        check_config(config)?;
        check_root(state, comm, datatype, root)
    };
}

//! Collectives: their arguments are checked, and no element moves unless data moves.

use std::ffi::{c_int, c_void};

use nccl_sys::{
    cudaStream_t, ncclCollConfig_t, ncclComm, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t,
};

use crate::export::exports;
use crate::moves::{self, Collective, Kind, Operation, Work};
use crate::pointer::{Place, Source};
use crate::state::{Answer, State};

/// A call.
struct Call {
    kind: Kind,
    send: Source<c_void>,
    recv: Place<c_void>,
    count: usize,
    datatype: ncclDataType_t,
    op: Option<ncclRedOp_t>,
    root: Option<c_int>,
}

impl Call {
    fn new(
        kind: Kind,
        send: Source<c_void>,
        recv: Place<c_void>,
        count: usize,
        datatype: ncclDataType_t,
    ) -> Self {
        Self { kind, send, recv, count, datatype, op: None, root: None }
    }

    fn op(self, op: ncclRedOp_t) -> Self {
        Self { op: Some(op), ..self }
    }

    fn root(self, root: c_int) -> Self {
        Self { root: Some(root), ..self }
    }

    fn run(self, state: &mut State, comm: Place<ncclComm>, stream: Place<c_void>) -> Answer {
        state.ready(comm)?;
        state.is_captured(comm.address(), stream.address())?;
        state.datatype(self.datatype)?;
        let mut operation = Operation::BuiltIn(ncclRedOp_t::ncclSum);
        if let Some(op) = self.op {
            operation = state.operator(comm, self.datatype, op)?;
        }
        if let Some(root) = self.root {
            state.live(comm)?.has_rank(root)?;
        }
        // Without elements NCCL does nothing.
        let Some(member) = state.moving(comm).filter(|_| self.count > 0) else { return Ok(()) };
        let call = Collective {
            kind: self.kind,
            send: self.send.exposed(),
            recv: self.recv.exposed(),
            count: self.count,
            datatype: self.datatype,
            operation,
            root: self.root.unwrap_or(0) as usize,
        };
        moves::enqueue(state, &member, stream.exposed(), Work::Collective(call))
    }
}

/// Checks a call's own configuration.
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
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::AllReduce, sendbuff, recvbuff, count, datatype);
        call.op(op).run(state, comm, stream)
    };

    answer fn ncclBroadcast(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::Broadcast, sendbuff, recvbuff, count, datatype);
        call.root(root).run(state, comm, stream)
    };

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
        let call = Call::new(Kind::Reduce, sendbuff, recvbuff, count, datatype);
        call.op(op).root(root).run(state, comm, stream)
    };

    answer fn ncclAllGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        sendcount: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::AllGather, sendbuff, recvbuff, sendcount, datatype);
        call.run(state, comm, stream)
    };

    answer fn ncclReduceScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        recvcount: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::ReduceScatter, sendbuff, recvbuff, recvcount, datatype);
        call.op(op).run(state, comm, stream)
    };

    answer fn ncclAlltoAll(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::AllToAll, sendbuff, recvbuff, count, datatype);
        call.run(state, comm, stream)
    };

    answer fn ncclGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::Gather, sendbuff, recvbuff, count, datatype);
        call.root(root).run(state, comm, stream)
    };

    answer fn ncclScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::Scatter, sendbuff, recvbuff, count, datatype);
        call.root(root).run(state, comm, stream)
    };

    answer fn ncclBcast(
        buff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let call = Call::new(Kind::Broadcast, buff.source(), buff, count, datatype);
        call.root(root).run(state, comm, stream)
    };

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
        let call = Call::new(Kind::AllReduce, sendbuff, recvbuff, count, datatype);
        call.op(op).run(state, comm, stream)
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
        let call = Call::new(Kind::Broadcast, sendbuff, recvbuff, count, datatype);
        call.root(root).run(state, comm, stream)
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
        let call = Call::new(Kind::Reduce, sendbuff, recvbuff, count, datatype);
        call.op(op).root(root).run(state, comm, stream)
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
        let call = Call::new(Kind::AllGather, sendbuff, recvbuff, sendcount, datatype);
        call.run(state, comm, stream)
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
        let call = Call::new(Kind::ReduceScatter, sendbuff, recvbuff, recvcount, datatype);
        call.op(op).run(state, comm, stream)
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
        let call = Call::new(Kind::AllToAll, sendbuff, recvbuff, count, datatype);
        call.run(state, comm, stream)
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
        let call = Call::new(Kind::Gather, sendbuff, recvbuff, count, datatype);
        call.root(root).run(state, comm, stream)
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
        let call = Call::new(Kind::Scatter, sendbuff, recvbuff, count, datatype);
        call.root(root).run(state, comm, stream)
    };
}

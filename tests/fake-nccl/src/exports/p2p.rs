//! Send and receive, which do nothing unless data moves.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use nccl_sys::{cudaStream_t, ncclComm, ncclComm_t, ncclDataType_t, ncclResult_t};

use crate::export::exports;
use crate::moves::{self, Member, Work};
use crate::pointer::Place;
use crate::state::{Refusal, State};

/// The rank that moves data, if one does.
fn check(
    state: &mut State,
    comm: Place<ncclComm>,
    datatype: ncclDataType_t,
    peer: c_int,
    stream: Place<c_void>,
) -> Result<Option<Arc<Member>>, Refusal> {
    state.ready(comm)?.has_rank(peer)?;
    state.is_captured(comm.address(), stream.address())?;
    state.datatype(datatype)?;
    Ok(state.moving(comm))
}

exports! {
    answer fn ncclSend(
        sendbuff: *const c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let (member, bytes) = (check(state, comm, datatype, peer, stream)?, count.saturating_mul(moves::width(datatype)));
        let Some(member) = member else {
            state.transfers(comm, peer, (sendbuff.address(), bytes), true);
            return Ok(());
        };
        let work = Work::Send(peer as usize, sendbuff.exposed(), bytes);
        moves::enqueue(state, &member, stream.exposed(), work)
    };

    answer fn ncclRecv(
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let (member, bytes) = (check(state, comm, datatype, peer, stream)?, count.saturating_mul(moves::width(datatype)));
        let Some(member) = member else {
            state.transfers(comm, peer, (recvbuff.address(), bytes), false);
            return Ok(());
        };
        let work = Work::Recv(peer as usize, recvbuff.exposed(), bytes);
        moves::enqueue(state, &member, stream.exposed(), work)
    };
}

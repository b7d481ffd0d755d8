//! One-sided operations, which reach no one.

use std::ffi::{c_int, c_uint, c_void};

use nccl_sys::{
    cudaStream_t, ncclComm_t, ncclDataType_t, ncclResult_t, ncclWaitSignalDesc_t, ncclWindow_t,
};

use crate::export::exports;
use crate::state::Refusal;

exports! {
    answer fn ncclPutSignal(
        localbuff: *const c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        peerWin: ncclWindow_t,
        peerWinOffset: usize,
        sigIdx: c_int,
        ctx: c_int,
        flags: c_uint,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        state.ready(comm)?.has_rank(peer)?;
        state.datatype(datatype)?;
        let window = state.window_of(comm, peerWin)?;
        if peerWinOffset > window.size {
            let words = format!("{peerWinOffset} is behind a window of {}", window.size);
            return Err(Refusal::argument(words));
        }
        Ok(())
    };

    answer fn ncclSignal(
        peer: c_int,
        sigIdx: c_int,
        ctx: c_int,
        flags: c_uint,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| state.ready(comm)?.has_rank(peer);

    answer fn ncclWaitSignal(
        nDesc: c_int,
        signalDescs: *mut ncclWaitSignalDesc_t [nDesc],
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let found = state.ready(comm)?;
        // SAFETY: the caller keeps NCCL's contract: there are `nDesc` of them.
        let signals = unsafe { signalDescs.source().list(nDesc) };
        let signals = signals.ok_or_else(|| Refusal::argument("there is no signal to wait for"))?;
        signals.iter().try_for_each(|signal| found.has_rank(signal.peer))
    };
}

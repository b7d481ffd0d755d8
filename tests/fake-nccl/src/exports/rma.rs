//! One-sided operations, which reach no rank unless data moves.

use std::ffi::{c_int, c_uint, c_void};

use nccl_sys::{
    cudaStream_t, ncclComm_t, ncclDataType_t, ncclResult_t, ncclWaitSignalDesc_t, ncclWindow_t,
};

use crate::export::exports;
use crate::moves::{self, Member, Target, Wait, Work, Write};
use crate::state::Refusal;

/// A signal, if the communicator has it.
fn target(member: &Member, peer: c_int, signal: c_int, context: c_int) -> Result<Target, Refusal> {
    if !member.one_host {
        return Err(Refusal::argument("the ranks do not reach each other's memory"));
    }
    let slots = member.room.slots();
    let below =
        |number: c_int, limit: usize| usize::try_from(number).ok().filter(|number| *number < limit);
    let words = || Refusal::argument(format!("there is no signal {signal} in context {context}"));
    let context = below(context, slots.contexts).ok_or_else(words)?;
    let signal = below(signal, slots.signals).ok_or_else(words)?;
    Ok(Target { peer: peer as usize, context, signal })
}

/// Flags are reserved for later releases.
fn no_flags(flags: c_uint) -> Result<(), Refusal> {
    if flags == 0 { Ok(()) } else { Err(Refusal::argument("there are no flags")) }
}

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
        state.is_captured(comm.address(), stream.address())?;
        state.datatype(datatype)?;
        let window = state.window_of(comm, peerWin)?;
        if peerWinOffset > window.size {
            let words = format!("{peerWinOffset} is behind a window of {}", window.size);
            return Err(Refusal::argument(words));
        }
        let Some(member) = state.moving(comm) else { return Ok(()) };
        no_flags(flags)?;
        let target = target(&member, peer, sigIdx, ctx)?;
        let bytes = count * moves::width(datatype);
        let reach = member.window(peerWin.address());
        let size = reach.as_ref().and_then(|reach| reach.size_at(target.peer));
        let (Some(reach), Some(size)) = (reach, size) else {
            return Err(Refusal::argument("the window is no symmetric one"));
        };
        if !member.is_in_window(localbuff.address()) || peerWinOffset == size {
            return Err(Refusal::argument("the source is in no symmetric window, or it ends there"));
        }
        if peerWinOffset + bytes > size {
            let result = ncclResult_t::ncclUnhandledCudaError;
            return Err(Refusal { result, words: "it ends past the window".to_owned() });
        }
        let from = localbuff.exposed();
        let write = Write { window: reach, offset: peerWinOffset, from, bytes };
        let work = Work::Raise(target, Some(write));
        moves::enqueue(state, &member, stream.exposed(), work)
    };

    answer fn ncclSignal(
        peer: c_int,
        sigIdx: c_int,
        ctx: c_int,
        flags: c_uint,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let found = state.ready(comm)?;
        found.has_rank(peer)?;
        state.has_signals(found)?;
        state.is_captured(comm.address(), stream.address())?;
        let Some(member) = state.moving(comm) else { return Ok(()) };
        no_flags(flags)?;
        let target = target(&member, peer, sigIdx, ctx)?;
        moves::enqueue(state, &member, stream.exposed(), Work::Raise(target, None))
    };

    answer fn ncclWaitSignal(
        nDesc: c_int,
        signalDescs: *mut ncclWaitSignalDesc_t [nDesc],
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t = |state| {
        let found = state.ready(comm)?;
        state.has_signals(found)?;
        state.is_captured(comm.address(), stream.address())?;
        // SAFETY: the caller keeps NCCL's contract: there are `nDesc` of them.
        let signals = unsafe { signalDescs.source().list(nDesc) };
        let signals = signals.ok_or_else(|| Refusal::argument("there is no signal to wait for"))?;
        signals.iter().try_for_each(|signal| found.has_rank(signal.peer))?;
        let Some(member) = state.moving(comm) else { return Ok(()) };
        let wait = |signal: &ncclWaitSignalDesc_t| {
            let from = target(&member, signal.peer, signal.sigIdx, signal.ctx)?;
            Ok(Wait { from, times: u32::try_from(signal.opCnt).unwrap_or(0) })
        };
        let waits = signals.iter().map(wait).collect::<Result<_, Refusal>>()?;
        moves::enqueue(state, &member, stream.exposed(), Work::Wait(waits))
    };
}

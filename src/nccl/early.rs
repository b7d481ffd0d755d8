//! Setting up signals: with the first symmetric window, or when a communicator is made.

use nccl_sys::{ncclComm_t, ncclCommProperties_t, ncclResult_t, ncclWaitSignalDesc_t};
use typed_nccl_plan::releases::WINDOWS_SET_UP_SIGNALS;

use super::api::{Nccl, lacking};
use super::handle::Handle;
use crate::Result;
use crate::cuda::Gpu;
use crate::error::Unsupported;

/// Whether a communicator's first one-sided call is collective without saying so. Then every rank
/// makes it at a point that all ranks reach.
pub(super) fn is_first_collective(nccl: &Nccl) -> bool {
    !nccl.at_least(WINDOWS_SET_UP_SIGNALS)
}

/// Whether a communicator has one-sided operations.
///
/// `over` returns a call's final result.
pub(super) fn supports_signals(
    nccl: &Nccl,
    comm: ncclComm_t,
    over: impl Fn(ncclResult_t) -> ncclResult_t,
) -> Result<bool> {
    let (Ok(_), Ok(query)) = (nccl.api.ncclPutSignal(), nccl.api.ncclCommQueryProperties()) else {
        return Ok(false);
    };
    // NCCL refuses a struct that is newer than itself.
    let Some(mut properties) = ncclCommProperties_t::for_library(nccl.api.version()) else {
        return Ok(false);
    };
    // SAFETY: the communicator is alive; `properties` is complete and states its size.
    let result = unsafe { query(comm, &raw mut properties) };
    nccl.check("ncclCommQueryProperties", None, over(result))?;
    Ok(properties.hostRmaSupport)
}

/// A rank's first one-sided call: it signals itself and waits for the signal. `over` returns a
/// call's final result.
pub(super) fn first_signal(
    nccl: &Nccl,
    gpu: &'static Gpu,
    comm: ncclComm_t,
    own: i32,
    over: impl Fn(ncclResult_t) -> ncclResult_t,
) -> Result<()> {
    let missing = lacking("one-sided operations");
    let signal = nccl.api.ncclSignal().map_err(&missing)?;
    let wait = nccl.api.ncclWaitSignal().map_err(&missing)?;
    gpu.now_with(|stream| {
        // SAFETY: communicator and stream are alive; the call names no memory.
        let signalled = unsafe { signal(own, 0, 0, 0, comm, stream) };
        nccl.check("ncclSignal", None, over(signalled))?;
        let mut description = ncclWaitSignalDesc_t { opCnt: 1, peer: own, sigIdx: 0, ctx: 0 };
        // SAFETY: the count is one, and NCCL copies the description.
        let waited = unsafe { wait(1, &raw mut description, comm, stream) };
        nccl.check("ncclWaitSignal", None, over(waited))
    })
}

/// Sets up signals of a new communicator configured to have them before its first window. All ranks
/// call this. From 2.31 on NCCL does so by itself.
pub(super) fn set_up_signals(nccl: &Nccl, gpu: &'static Gpu, handle: &Handle) -> Result<()> {
    let comm = handle.raw;
    // SAFETY: the communicator is alive, this thread makes the calls, and no other has it yet.
    let over = |result| unsafe { nccl.over(comm, result) };
    if is_first_collective(nccl) {
        if !supports_signals(nccl, comm, over)? {
            return Ok(());
        }
        let rank_of =
            nccl.api.ncclCommUserRank().map_err(lacking("signals before the first window"))?;
        let mut own = 0;
        // SAFETY: the communicator is alive; `own` is valid for a write.
        let result = unsafe { rank_of(comm, &raw mut own) };
        nccl.check("ncclCommUserRank", None, result)?;
        gpu.bind()?;
        return first_signal(nccl, gpu, comm, own, over);
    }
    match handle.is_lent {
        false => Ok(()),
        // Its own library configured it.
        true => Err(Unsupported::error(
            "`CommConfig::early_signals`",
            "a communicator that is made here",
            "another library made it: make a window first",
        )),
    }
}

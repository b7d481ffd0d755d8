//! Setting signals up: with the first symmetric window, or when a communicator is made.

use nccl_sys::{ncclComm_t, ncclCommProperties_t, ncclWaitSignalDesc_t};
use typed_nccl_plan::releases::WINDOWS_SET_UP_SIGNALS;

use super::api::{Nccl, unsupported};
use super::handle::Handle;
use crate::Result;
use crate::cuda::Gpu;
use crate::error::{Error, Unsupported};

/// Whether the first one-sided call of a communicator is secretly collective, so that every rank makes it
/// where all of them are.
pub(super) fn is_first_collective(nccl: &Nccl) -> bool {
    !nccl.at_least(WINDOWS_SET_UP_SIGNALS)
}

/// Whether a communicator has one-sided operations.
pub(super) fn supports_signals(nccl: &Nccl, comm: ncclComm_t) -> Result<bool> {
    let (Ok(_), Ok(query)) = (nccl.api.ncclPutSignal(), nccl.api.ncclCommQueryProperties()) else {
        return Ok(false);
    };
    // A library refuses a struct that is newer than itself.
    let Some(mut properties) = ncclCommProperties_t::for_library(nccl.api.version()) else {
        return Ok(false);
    };
    // SAFETY: the communicator is alive; `properties` is whole and says how long it is.
    let result = unsafe { query(comm, &raw mut properties) };
    // SAFETY: the communicator is alive, and this thread called.
    let result = unsafe { nccl.over(comm, result) };
    nccl.check("ncclCommQueryProperties", None, result)?;
    Ok(properties.hostRmaSupport)
}

/// A rank's first one-sided call: it signals to itself, and waits for that.
pub(super) fn first_signal(
    nccl: &Nccl,
    gpu: &'static Gpu,
    comm: ncclComm_t,
    own: i32,
) -> Result<()> {
    let missing = |missing| unsupported("one-sided operations", missing);
    let signal = nccl.api.ncclSignal().map_err(missing)?;
    let wait = nccl.api.ncclWaitSignal().map_err(missing)?;
    gpu.now_with(|stream| {
        // SAFETY: communicator and stream are alive; no memory is named.
        let signalled = unsafe { signal(own, 0, 0, 0, comm, stream) };
        // SAFETY: the communicator is alive, and this thread called.
        let signalled = unsafe { nccl.over(comm, signalled) };
        nccl.check("ncclSignal", None, signalled)?;
        let mut description = ncclWaitSignalDesc_t { opCnt: 1, peer: own, sigIdx: 0, ctx: 0 };
        // SAFETY: one description, which NCCL copies.
        let waited = unsafe { wait(1, &raw mut description, comm, stream) };
        // SAFETY: as above.
        let waited = unsafe { nccl.over(comm, waited) };
        nccl.check("ncclWaitSignal", None, waited)
    })
}

/// Sets up signals of a new communicator that is to have them before its first window. From 2.31 on NCCL
/// has, as it was configured; before, all ranks call this.
pub(super) fn set_up_signals(nccl: &Nccl, gpu: &'static Gpu, handle: &Handle) -> Result<()> {
    let comm = handle.raw;
    if is_first_collective(nccl) {
        if !supports_signals(nccl, comm)? {
            return Ok(());
        }
        let missing = |missing| unsupported("signals before the first window", missing);
        let rank_of = nccl.api.ncclCommUserRank().map_err(missing)?;
        let mut own = 0;
        // SAFETY: the communicator is alive; `own` is a place for its rank.
        let result = unsafe { rank_of(comm, &raw mut own) };
        nccl.check("ncclCommUserRank", None, result)?;
        gpu.bind()?;
        return first_signal(nccl, gpu, comm, own);
    }
    match handle.is_lent {
        false => Ok(()),
        // Its own library configured it.
        true => Err(Error::from(Unsupported {
            what: "`CommConfig::early_signals`".to_owned(),
            needs: "a communicator that is made here".to_owned(),
            found: "another library made it: make a window first".to_owned(),
        })),
    }
}

//! Communicators made by another library, and ours handed to another library.
//!
//! An adopted communicator stays the other library's until every rank has described its own and all
//! of them fit. A failure before that does not end it.

use std::ffi::c_int;

use nccl_sys::{ncclComm_t, ncclResult_t};

use super::api::{Nccl, lacking};
use super::comm::Comm;
use super::destroying::Tenant;
use super::making::Making;
use crate::Result;
use crate::backend::Says;

/// Describes another library's communicator, and keeps it until the ranks join.
///
/// # Safety
/// It is null, or a communicator of the loaded NCCL that nothing else uses.
pub(crate) unsafe fn adopt(raw: ncclComm_t) -> (Says, Option<Making>) {
    if raw.is_null() {
        return (Err("is null".to_owned()), None);
    }
    let nccl = match Nccl::load() {
        Ok(nccl) => nccl,
        Err(error) => return (Err(format!("cannot be asked ({error})")), None),
    };
    // SAFETY: the caller's promise.
    match unsafe { ask(nccl, raw) } {
        Ok(says) => (says, Some(Making::lent(raw, nccl))),
        Err(error) => (Err(format!("cannot be used ({error})")), None),
    }
}

/// Queries the communicator.
///
/// # Safety
/// As for [`adopt`].
unsafe fn ask(nccl: &Nccl, raw: ncclComm_t) -> Result<Says> {
    let missing = lacking("a communicator of another library");
    let mut state = ncclResult_t::ncclSuccess;
    // SAFETY: the caller's promise; `state` is valid for a write.
    let asked = unsafe { (nccl.async_error)(raw, &raw mut state) };
    nccl.check("ncclCommGetAsyncError", None, asked)?;
    if state == ncclResult_t::ncclInProgress {
        let why = "is in progress: wait until `ncclCommGetAsyncError` says `ncclSuccess`";
        return Ok(Err(why.to_owned()));
    }
    nccl.check("ncclCommGetAsyncError", None, state)?;
    let number = |name, ask: unsafe extern "C" fn(ncclComm_t, *mut c_int) -> ncclResult_t| {
        let mut number: c_int = -1;
        // SAFETY: the caller's promise; `number` is valid for a write.
        let result = unsafe { ask(raw, &raw mut number) };
        nccl.check(name, None, result).map(|()| number)
    };
    let rank = number("ncclCommUserRank", nccl.api.ncclCommUserRank().map_err(&missing)?)?;
    let size = number("ncclCommCount", nccl.api.ncclCommCount().map_err(&missing)?)?;
    let device = number("ncclCommCuDevice", nccl.api.ncclCommCuDevice().map_err(&missing)?)?;
    Ok(Ok((rank, size, device)))
}

/// NCCL's communicator, which stays ours.
pub(crate) fn handle(comm: &Comm) -> ncclComm_t {
    comm.handle
}

/// Releases a communicator with no resources of ours and no work in progress; fails if it has
/// ended.
pub(crate) fn give_away(mut comm: Comm) -> Result<ncclComm_t> {
    let handle = comm.end().ok_or_else(|| comm.health.ended())?;
    // Its new owner goes on using the GPU.
    comm.tenant.take().into_iter().for_each(Tenant::give_away);
    comm.shared.family.leave();
    Ok(handle.raw)
}

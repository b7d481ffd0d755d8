//! Communicators made by another library, and ours handed to another library.
//!
//! An adopted communicator stays the other library's until every rank has described its own and all
//! of them fit. A failure before that does not end it.

use std::ffi::c_int;
use std::time::Duration;

use nccl_sys::{ncclComm_t, ncclResult_t};

use super::api::{Nccl, lacking};
use super::comm::Comm;
use super::making::Making;
use crate::Result;
use crate::backend::Says;

/// How often a non-blocking communicator is polled.
const EVERY: Duration = Duration::from_micros(20);

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

impl Nccl {
    /// A call's final result. On a non-blocking communicator a call may return before it is
    /// complete, and NCCL takes no other call until it is.
    ///
    /// # Safety
    /// The communicator is alive, and this thread made the call.
    #[inline]
    pub(super) unsafe fn over(&self, comm: ncclComm_t, result: ncclResult_t) -> ncclResult_t {
        match result {
            // SAFETY: the caller's promise.
            ncclResult_t::ncclInProgress => unsafe { self.settled(comm) },
            result => result,
        }
    }

    /// Waits until a communicator has completed its call, and returns the result. A revocation ends
    /// the wait, as it would a blocking call.
    ///
    /// # Safety
    /// As for [`over`](Self::over).
    #[cold]
    unsafe fn settled(&self, comm: ncclComm_t) -> ncclResult_t {
        loop {
            let mut state = ncclResult_t::ncclSuccess;
            // SAFETY: the caller's promise; `state` is valid for a write.
            let asked = unsafe { (self.async_error)(comm, &raw mut state) };
            match asked {
                ncclResult_t::ncclSuccess if state == ncclResult_t::ncclInProgress => {
                    std::thread::sleep(EVERY);
                }
                ncclResult_t::ncclSuccess => return state,
                failed => return failed,
            }
        }
    }
}

impl Comm {
    /// A call's final result: see [`Nccl::over`].
    #[cold]
    pub(super) fn over(&self, result: ncclResult_t) -> ncclResult_t {
        // `ncclCommWindowRegister` reports success even if it is still in progress.
        let result = match result {
            ncclResult_t::ncclSuccess if self.is_adopted => ncclResult_t::ncclInProgress,
            result => result,
        };
        // SAFETY: it is alive, and its rank's thread made the call.
        unsafe { self.nccl.over(self.handle, result) }
    }

    /// Converts the result of a call with this communicator.
    pub(super) fn check(&self, function: &'static str, result: ncclResult_t) -> Result<()> {
        self.nccl.check(function, None, self.over(result))
    }
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
    std::mem::forget(comm.tenant.take());
    comm.shared.family.leave();
    Ok(handle.raw)
}

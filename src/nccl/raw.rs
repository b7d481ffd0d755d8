//! Communicators that another library made, and ours that another library goes on with.
//!
//! One of another library's stays that library's until every rank has said what its own says of itself
//! and all of them fit: whatever goes wrong before is no reason to end it.

use std::ffi::c_int;
use std::time::Duration;

use nccl_sys::{ncclComm_t, ncclResult_t};

use super::api::{Nccl, unsupported};
use super::comm::Comm;
use super::making::Making;
use crate::Result;
use crate::communicator::{Says, ended};

/// How often one that does not block is asked whether it is done.
const EVERY: Duration = Duration::from_micros(20);

/// What a communicator of another library says of itself, and what takes it when the ranks join.
///
/// # Safety
/// It is a communicator of the NCCL that is loaded, or null; nobody else uses it.
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

/// Asks it what it is.
///
/// # Safety
/// As [`adopt`].
unsafe fn ask(nccl: &Nccl, raw: ncclComm_t) -> Result<Says> {
    let missing = |missing| unsupported("a communicator of another library", missing);
    let mut state = ncclResult_t::ncclSuccess;
    // SAFETY: the caller's promise; `state` is a place for a result.
    let asked = unsafe { (nccl.async_error)(raw, &raw mut state) };
    nccl.check("ncclCommGetAsyncError", None, asked)?;
    if state == ncclResult_t::ncclInProgress {
        let why = "is in progress: wait until `ncclCommGetAsyncError` says `ncclSuccess`";
        return Ok(Err(why.to_owned()));
    }
    nccl.check("ncclCommGetAsyncError", None, state)?;
    let number = |name, ask: unsafe extern "C" fn(ncclComm_t, *mut c_int) -> ncclResult_t| {
        let mut number: c_int = -1;
        // SAFETY: the caller's promise; `number` is a place for one.
        let result = unsafe { ask(raw, &raw mut number) };
        nccl.check(name, None, result).map(|()| number)
    };
    let rank = number("ncclCommUserRank", nccl.api.ncclCommUserRank().map_err(missing)?)?;
    let size = number("ncclCommCount", nccl.api.ncclCommCount().map_err(missing)?)?;
    let device = number("ncclCommCuDevice", nccl.api.ncclCommCuDevice().map_err(missing)?)?;
    Ok(Ok((rank, size, device)))
}

impl Nccl {
    /// What a call has come to. On a communicator that does not block it returns before it is over; NCCL
    /// goes on by itself then, and takes no other call until it is done.
    ///
    /// # Safety
    /// The communicator lives, and this thread is the one that called.
    #[inline]
    pub(super) unsafe fn over(&self, comm: ncclComm_t, result: ncclResult_t) -> ncclResult_t {
        match result {
            // SAFETY: the caller's promise.
            ncclResult_t::ncclInProgress => unsafe { self.settled(comm) },
            result => result,
        }
    }

    /// Waits until a communicator is done, and gives what has come of it. It ends as a call that blocks
    /// would: also by a revocation.
    ///
    /// # Safety
    /// As [`over`](Self::over).
    #[cold]
    unsafe fn settled(&self, comm: ncclComm_t) -> ncclResult_t {
        loop {
            let mut state = ncclResult_t::ncclSuccess;
            // SAFETY: the caller's promise; `state` is a place for a result.
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
    /// What a call with this communicator has come to: see [`Nccl::over`].
    #[cold]
    pub(super) fn over(&self, result: ncclResult_t) -> ncclResult_t {
        // `ncclCommWindowRegister` gives success, not progress, where it goes on.
        let result = match result {
            ncclResult_t::ncclSuccess if self.is_adopted => ncclResult_t::ncclInProgress,
            result => result,
        };
        // SAFETY: it lives, and its rank's thread called.
        unsafe { self.nccl.over(self.handle, result) }
    }

    /// The result of a call with this communicator, as ours.
    pub(super) fn check(&self, function: &'static str, result: ncclResult_t) -> Result<()> {
        self.nccl.check(function, None, self.over(result))
    }
}

/// Gives a communicator away, with nothing of ours in it and nothing under way; none if it has ended.
pub(crate) fn give_away(mut comm: Comm) -> Result<ncclComm_t> {
    let handle = comm.end().ok_or_else(|| ended(&comm.health))?;
    comm.shared.family.leave();
    Ok(handle.raw)
}

//! Polling: results of calls that NCCL continues after they return, and errors that it finds by
//! itself.
//!
//! Another library's communicator may be non-blocking. Its calls return `ncclInProgress`, and the
//! poll that finds one complete joins NCCL's thread and frees it. NCCL does not expect that from
//! two threads at once, so every poll of a communicator that several threads know holds its lock.
//!
//! Not covered: NCCL itself polls before such a call returns, and may find it complete. The lock is
//! not held during calls, since they may wait for other ranks.

use std::time::{Duration, Instant};

use nccl_sys::{ncclComm_t, ncclResult_t};

use super::api::Nccl;
use super::comm::Comm;
use super::handle::Handle;
use super::shared::Shared;
use crate::Result;
use crate::error::Error;

/// How often a non-blocking communicator is polled.
const EVERY: Duration = Duration::from_micros(20);

/// The most that one poll counts of a limit. It lasts longer if the system runs others meanwhile.
const TURN: Duration = Duration::from_millis(10);

impl Nccl {
    /// A call's final result. On a non-blocking communicator a call may return before it is
    /// complete, and NCCL takes no other call until it is.
    ///
    /// # Safety
    /// The communicator is alive, this thread made the call, and no other thread has the
    /// communicator.
    pub(super) unsafe fn over(&self, comm: ncclComm_t, mut result: ncclResult_t) -> ncclResult_t {
        while result == ncclResult_t::ncclInProgress {
            std::thread::sleep(EVERY);
            // SAFETY: the caller's promise.
            result = unsafe { self.poll(comm) };
        }
        result
    }

    /// The communicator's state.
    ///
    /// # Safety
    /// The communicator is alive, and no other thread polls it.
    unsafe fn poll(&self, comm: ncclComm_t) -> ncclResult_t {
        let mut state = ncclResult_t::ncclSuccess;
        // SAFETY: the caller's promise; `state` is valid for a write.
        let asked = unsafe { (self.async_error)(comm, &raw mut state) };
        if asked == ncclResult_t::ncclSuccess { state } else { asked }
    }
}

impl Shared {
    /// A call's final result. `None` if the communicator ends or is revoked first: it can only be
    /// aborted then, which also ends the call.
    pub(super) fn over(&self, result: ncclResult_t) -> Option<ncclResult_t> {
        let mut left = Duration::MAX;
        self.over_within(result, &mut left)
    }

    /// As [`over`](Self::over), or `ncclInProgress` if it is not complete within the time `left`,
    /// from which it takes what it used.
    pub(super) fn over_within(
        &self,
        result: ncclResult_t,
        left: &mut Duration,
    ) -> Option<ncclResult_t> {
        match result {
            ncclResult_t::ncclInProgress => self.settled(left),
            result => Some(result),
        }
    }

    #[cold]
    fn settled(&self, left: &mut Duration) -> Option<ncclResult_t> {
        loop {
            let turn = Instant::now();
            // Released before this thread sleeps, so that a revocation or an end can take the
            // handle.
            let state = self.handle.lock().as_ref().and_then(|handle| self.poll(handle))?;
            if state != ncclResult_t::ncclInProgress || left.is_zero() {
                return Some(state);
            }
            std::thread::sleep(EVERY);
            *left = left.saturating_sub(turn.elapsed().min(TURN));
        }
    }

    /// The state of the communicator, whose lock the caller holds; `None` once it is revoked, which
    /// is a call that polls too.
    fn poll(&self, handle: &Handle) -> Option<ncclResult_t> {
        // Set before the thread that revokes takes the handle, under the same lock.
        if self.is_revoked() {
            return None;
        }
        // SAFETY: the communicator is alive, as its end takes the handle out of the lock first. The
        // lock keeps other threads from polling it. NCCL lets one thread poll while another
        // enqueues.
        Some(unsafe { self.nccl.poll(handle.raw) })
    }

    /// An error that NCCL found by itself.
    pub(super) fn async_error(&self) -> Option<Error> {
        // Otherwise another thread is polling or ending it.
        let handle = self.handle.try_lock()?;
        match self.poll(handle.as_ref()?)? {
            ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress => None,
            result => Some(self.nccl.failed("ncclCommGetAsyncError", None, result)),
        }
    }
}

impl Comm {
    /// A call's final result. A revocation ends the wait for it, as it would a blocking call.
    #[cold]
    pub(super) fn over(&self, result: ncclResult_t) -> ncclResult_t {
        // `ncclCommWindowRegister` reports success even if it is still in progress.
        let result = match result {
            ncclResult_t::ncclSuccess if self.is_adopted => ncclResult_t::ncclInProgress,
            result => result,
        };
        // NCCL's result of a call on a revoked communicator.
        self.shared.over(result).unwrap_or(ncclResult_t::ncclInvalidUsage)
    }

    /// Converts the result of a call with this communicator.
    pub(super) fn check(&self, function: &'static str, result: ncclResult_t) -> Result<()> {
        self.nccl.check(function, None, self.over(result))
    }
}

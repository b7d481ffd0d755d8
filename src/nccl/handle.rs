//! NCCL's handle of a communicator, and how a communicator ends.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nccl_sys::ncclComm_t;

use super::api::Nccl;
use super::exit;
use crate::cuda::CudaStream;

/// How long to wait for an abort. A regular one takes less than a second.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// An NCCL communicator. Its owner ends it, unless it is lent.
pub(super) struct Handle {
    pub(super) raw: ncclComm_t,
    /// It still belongs to another library, which ends it unless it is kept here.
    pub(super) is_lent: bool,
    /// Streams that may run kernels with its device communicators.
    pub(super) users: Vec<Arc<CudaStream>>,
    /// If it is the last one of this process's ranks to end.
    pub(super) last: Option<Last>,
}

/// Streams that carry the work of this process's ranks, when the last of them ends.
pub(super) struct Last {
    pub(super) own: Vec<Arc<CudaStream>>,
    pub(super) others: Vec<Arc<CudaStream>>,
}

impl Last {
    pub(super) fn of(own: Vec<Arc<CudaStream>>, mut all: Vec<Arc<CudaStream>>) -> Self {
        all.retain(|stream| !own.iter().any(|known| Arc::ptr_eq(known, stream)));
        Self { own, others: all }
    }
}

// SAFETY: NCCL's communicators are not bound to a thread; [`Comm`] says which thread may use one.
unsafe impl Send for Handle {}

impl Handle {
    pub(super) fn own(raw: ncclComm_t) -> Self {
        Self { raw, is_lent: false, users: Vec::new(), last: None }
    }

    /// Ends a communicator that no other thread knows of.
    ///
    /// # Safety
    /// No other thread knows of it.
    pub(super) unsafe fn discard(self, nccl: &'static Nccl, comm: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.abort(nccl, comm, PATIENCE, |_| {}, || {}) };
    }

    /// Aborts the communicator, then calls `then`, unless NCCL fails. Returns whether the abort has
    /// completed.
    ///
    /// It waits for the communicator's kernels to notice, not for other ranks. That can take long:
    /// NCCL frees memory, for which the driver waits for the whole GPU, and a stream's wait for a
    /// signal cannot be cancelled. So the abort runs on its own thread, and this call returns after
    /// `patience` at the latest.
    ///
    /// # Safety
    /// Once `first` has returned, which runs on that thread, no thread is inside a call with the
    /// communicator, and none makes another.
    pub(super) unsafe fn abort(
        self,
        nccl: &'static Nccl,
        comm: u64,
        patience: Duration,
        first: impl FnOnce(ncclComm_t) + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> bool {
        if self.is_lent {
            then();
            return true;
        }
        let Some(inside) = exit::enter(comm) else { return true };
        let (done, ended) = channel();
        let abort = move || {
            let (handle, _inside) = (self, inside);
            first(handle.raw);
            // SAFETY: by the caller's promise, no other thread uses the communicator.
            let result = unsafe { (nccl.abort)(handle.raw) };
            match nccl.check("ncclCommAbort", None, result) {
                Ok(()) => then(),
                Err(error) => log::warn!("{error}"),
            }
            // The receiver may have stopped waiting.
            let _ = done.send(());
        };
        let thread = std::thread::Builder::new().name("NCCL abort".to_owned());
        if let Err(error) = thread.spawn(abort) {
            log::warn!("no thread to abort a communicator, which stays as it is: {error}");
            return false;
        } else if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            log::warn!(
                "an abort is not over after {patience:?}: it goes on, and the communicator's memory waits for it"
            );
            return false;
        }
        true
    }
}

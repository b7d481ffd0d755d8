//! NCCL's handle of a communicator, and how one ends.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nccl_sys::ncclComm_t;

use super::api::Nccl;
use super::exit;
use crate::cuda::CudaStream;

/// How long an abort is waited for. One that takes its course takes less than a second.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// A communicator of NCCL's. Whoever has it ends it, unless it is lent.
pub(super) struct Handle {
    pub(super) raw: ncclComm_t,
    /// It is another library's still, which ends it if it is not kept here.
    pub(super) is_lent: bool,
    /// Streams with kernels, perhaps, that were given its device communicators.
    pub(super) users: Vec<Arc<CudaStream>>,
}

// SAFETY: NCCL's communicators are bound to no thread; who may use one when is said at [`Comm`].
unsafe impl Send for Handle {}

impl Handle {
    pub(super) fn own(raw: ncclComm_t) -> Self {
        Self { raw, is_lent: false, users: Vec::new() }
    }

    /// Ends one that nobody has been given.
    ///
    /// # Safety
    /// Nobody else knows it.
    pub(super) unsafe fn discard(self, nccl: &'static Nccl, comm: u64) {
        // SAFETY: by the caller's promise.
        unsafe { self.abort(nccl, comm, PATIENCE, |_| {}, || {}) };
    }

    /// Ends it, then does `then`; waits for its kernels to see it, not for other ranks. That can take
    /// long: NCCL frees memory, for which the driver waits for the whole GPU, and a stream that waits
    /// for a signal cannot be freed from its wait. Then it goes on on a thread of its own, after
    /// `patience`. Nothing more is done if NCCL fails. Whether it is over.
    ///
    /// # Safety
    /// Once `first` has returned, which runs on that thread, nobody is inside a call with the
    /// communicator, and nobody makes one any more.
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
            // SAFETY: nobody else uses the communicator, by the caller's promise.
            let result = unsafe { (nccl.abort)(handle.raw) };
            match nccl.check("ncclCommAbort", None, result) {
                Ok(()) => then(),
                Err(error) => log::warn!("{error}"),
            }
            // Nobody may wait any more.
            let _ = done.send(());
        };
        let thread = std::thread::Builder::new().name("NCCL abort".to_owned());
        if let Err(error) = thread.spawn(abort) {
            log::warn!("no thread to abort a communicator, which stays as it is: {error}");
        } else if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            log::warn!(
                "an abort is not over after {patience:?}: it goes on, and the communicator's memory waits for it"
            );
            return false;
        }
        true
    }
}

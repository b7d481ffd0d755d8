//! Ending a communicator from another thread.

use std::fmt;
use std::sync::{Arc, Weak};

use super::Health;
use crate::error::{Abort, Site};
use crate::health::Line;

/// Asks a communicator's owner to abort or revoke it, from any thread.
///
/// The owner honours the request in every wait and at its next call. Both return
/// [`Error::Abort`](crate::Error::Abort) with the reason, and the other ranks fail too. The handle
/// never calls NCCL, because the owner may be inside NCCL at that moment. It does nothing once the
/// communicator is gone. It follows the communicator through
/// [`recover`](crate::Communicator::recover).
///
/// ```
/// use typed_nccl::{AbortHandle, Error, Host, spmd};
///
/// spmd::<Host>(2, |place| {
///     let comm = place.init()?;
///     comm.barrier()?;
///     let handle: AbortHandle = comm.abort_handle();
///     if comm.rank() == 1 {
///         // As on a signal from the operating system.
///         std::thread::spawn(move || assert!(handle.abort("time is up")));
///     }
///     let waited = loop {
///         if let Err(error) = comm.barrier() {
///             break error;
///         }
///     };
///     assert!(matches!(waited, Error::Abort(_) | Error::PeerFailed(_)), "{waited}");
///     comm.abort();
///     Ok(())
/// })
/// .expect("the job ends");
/// ```
#[derive(Clone)]
pub struct AbortHandle(Weak<Line>);

impl AbortHandle {
    pub(crate) fn new(health: &Arc<Health>) -> Self {
        Self(Arc::downgrade(&health.line()))
    }

    fn health(&self) -> Option<Arc<Health>> {
        self.0.upgrade()?.health()
    }

    /// Makes the request. Returns false if there is nothing left to abort or an earlier request is
    /// pending.
    #[track_caller]
    pub fn abort(&self, why: &str) -> bool {
        let at = Site::caller();
        self.health().is_some_and(|health| {
            health.request_abort(Abort { why: why.to_owned(), by: health.rank(), at })
        })
    }

    /// Asks the owner to revoke the communicator. Its waits and its next call fail with
    /// [`Error::Revocation`](crate::Error::Revocation) on all ranks, which can then call
    /// [`recover`](crate::Communicator::recover). Returns false if the communicator is gone or has
    /// already failed.
    #[track_caller]
    pub fn revoke(&self, why: &str) -> bool {
        let why = format!("{why} (at {})", Site::caller());
        self.health().is_some_and(|health| health.request_revocation(why))
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.health() {
            Some(health) => write!(f, "AbortHandle of rank {} of {}", health.rank(), health.name()),
            None => f.write_str("AbortHandle of a communicator that is gone"),
        }
    }
}

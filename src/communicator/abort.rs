//! Ending a communicator from another thread.

use std::fmt;
use std::sync::{Arc, Weak};

use super::Health;
use crate::error::{Aborted, Site};

/// Asks a communicator's owner to abort it, from any thread.
///
/// The owner honours the request in every wait and at its next call: they return
/// [`Error::Aborted`](crate::Error::Aborted) with the reason, and the other ranks are told. The
/// handle never calls NCCL, which would not be safe while the owner is inside it. It does nothing
/// once the communicator is gone.
#[derive(Clone)]
pub struct AbortHandle(Weak<Health>);

impl AbortHandle {
    pub(crate) fn new(health: &Arc<Health>) -> Self {
        Self(Arc::downgrade(health))
    }

    /// Makes the request. False if there is nothing left to abort, or an earlier request stands.
    #[track_caller]
    pub fn abort(&self, why: &str) -> bool {
        let at = Site::caller();
        self.0.upgrade().is_some_and(|health| {
            health.request_abort(Aborted { why: why.to_owned(), by: health.rank(), at })
        })
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.upgrade() {
            Some(health) => write!(f, "AbortHandle of rank {} of {}", health.rank(), health.name()),
            None => f.write_str("AbortHandle of a communicator that is gone"),
        }
    }
}

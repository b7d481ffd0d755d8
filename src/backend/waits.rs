//! Waiting threads.

use std::sync::Arc;

use super::Backend;
use crate::communicator::Health;
use crate::control::{Exchange, Submission};
use crate::error::Site;

/// A thread that waits for a device or for other ranks.
pub struct HostWait<'w, B: Backend> {
    /// The awaited event.
    pub on: WaitsOn<'w, B>,
    /// The waiting call: `to_vec`.
    pub operation: &'static str,
    /// Where it was made.
    pub site: Site,
    /// The communicators whose end also ends the wait.
    pub users: Box<dyn Fn() -> Vec<Arc<Health>> + Send>,
    /// The communicator whose call it is. No other call is made on it meanwhile.
    pub within: Option<u64>,
}

/// What a thread waits for.
pub enum WaitsOn<'w, B: Backend> {
    /// A point of a stream.
    Point(&'w B::Point),
    /// Everything that this rank enqueued.
    Idle(&'w B::Comm),
    /// The other ranks' parts of a host exchange.
    Exchange(&'w Exchange),
    /// The turn of a request that this rank submitted.
    Submission(&'w Submission),
}

/// A registered wait. Dropping it deregisters the wait.
pub type Watcher = Box<dyn Watched>;

/// See [`Watcher`].
pub trait Watched {
    /// Checks whether the wait can end. The waiting thread calls it at intervals.
    fn look(&self);
}

//! Threads that wait.

use std::sync::Arc;

use super::Backend;
use crate::communicator::Health;
use crate::control::{Exchange, Submission};
use crate::error::Site;

/// A thread that waits, for a device or for other ranks.
pub struct HostWait<'w, B: Backend> {
    /// What it waits for.
    pub on: WaitsOn<'w, B>,
    /// The call that waits: `to_vec`.
    pub operation: &'static str,
    /// Where it was made.
    pub site: Site,
    /// The communicators whose end ends the wait.
    pub users: Box<dyn Fn() -> Vec<Arc<Health>> + Send>,
    /// The communicator whose call it is: until it returns, nobody makes another.
    pub within: Option<u64>,
}

/// What a thread waits for.
pub enum WaitsOn<'w, B: Backend> {
    /// A point of a stream.
    Point(&'w B::Point),
    /// Everything that this rank enqueued.
    Idle(&'w B::Comm),
    /// The other ranks' parts of an exchange on the host.
    Exchange(&'w Exchange),
    /// The turn of a request that its rank submitted.
    Submission(&'w Submission),
}

/// A wait that is noted, until it is dropped.
pub type Watcher = Box<dyn Watched>;

/// See [`Watcher`].
pub trait Watched {
    /// Looks whether the wait can end. Called from time to time by the thread that waits.
    fn look(&self);
}

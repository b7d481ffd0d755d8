//! Waiting threads.

use std::sync::Arc;

use super::Backend;
use crate::Rank;
use crate::error::Site;
use crate::health::Health;

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
    Exchange(&'w dyn Exchange),
    /// The turn of a request that this rank submitted.
    Submission(&'w dyn Submission),
}

/// A registered wait. Dropping it deregisters the wait.
pub type Watcher = Box<dyn Watched>;

/// See [`Watcher`].
pub trait Watched {
    /// Checks whether the wait can end. The waiting thread calls it at intervals.
    fn look(&self);
}

/// One rank's wait for the others in an exchange of the control plane.
pub trait Exchange: Send {
    /// The communicator's id, which its ranks share.
    fn id(&self) -> u64;

    /// The rank that waits.
    fn rank(&self) -> usize;

    /// What it has in common with the other ranks' waits in the exchange, and with no others.
    fn key(&self) -> (usize, u64);

    /// Whether it waits for ranks that may still come: it is not over, one way or another.
    fn is_open(&self) -> bool;

    /// Whether all ranks are in this process.
    fn is_local(&self) -> bool;

    /// The ranks that have sent nothing.
    fn missing(&self) -> Vec<usize>;

    /// The same, to keep for as long as the wait lasts.
    fn kept(&self) -> Box<dyn Exchange>;
}

/// One rank's wait for the turn of its request.
pub trait Submission: Send {
    /// The communicator's id.
    fn comm(&self) -> u64;

    /// The rank that waits.
    fn rank(&self) -> Rank;

    /// What the ranks submit the request under.
    fn key(&self) -> &str;

    /// What it waits for now.
    fn awaits(&self) -> Awaits;

    /// The request that its rank is issuing, as text: `` `a` (at main.rs:3), which .. ``.
    fn turn(&self) -> String;

    /// The same, to keep for as long as the wait lasts.
    fn kept(&self) -> Box<dyn Submission>;
}

/// What a submission waits for.
pub enum Awaits {
    /// Nothing, one way or another.
    Nothing,
    /// These ranks, which have not submitted its key.
    Ranks(Vec<Rank>),
    /// The request that its rank is issuing.
    Turn,
}

//! Memory of ranks on other machines, whose bytes MPI carries (feature `mpi`).
//!
//! MPI carries the bytes of operations and nothing else: what ranks tell each other travels over
//! the control plane, so deadlines, mismatches and deaths do not depend on it. A rank asks for what
//! it reads, and its peer sends that, so MPI never writes to memory that a program sees, except for
//! puts, whose target says where.

#[cfg_attr(not(all(feature = "mpi", target_os = "linux")), path = "unsupported.rs")]
mod courier;
#[cfg(all(feature = "mpi", target_os = "linux"))]
mod mpi;
#[cfg(all(feature = "mpi", target_os = "linux"))]
mod scratch;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

#[cfg(feature = "mpi")]
pub(crate) use courier::adopt;
pub(super) use courier::{Scratch, abandon, carry, lose, start};

/// A process, by its rank in an MPI communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Link {
    comm: usize,
    rank: i32,
}

/// A process's place in an MPI communicator, which a number identifies.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Spot {
    job: u64,
    rank: i32,
}

/// The way to a process with which this one shares an MPI communicator: on both the same one.
pub(super) fn link(own: &[Spot], theirs: &[Spot]) -> Option<Link> {
    let shared = theirs.iter().filter_map(|spot| {
        let comm = own.iter().position(|own| own.job == spot.job)?;
        Some((spot.job, Link { comm, rank: spot.rank }))
    });
    shared.min_by_key(|(job, _)| *job).map(|(_, link)| link)
}

/// Where memory of a rank on another machine lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) link: Link,
    /// The rank in the communicator.
    pub(super) rank: u32,
    /// In the memory that its process shares.
    pub(super) offset: u64,
}

/// An address that a message is read from or written to. Whoever makes a message keeps the memory.
#[derive(Clone, Copy)]
pub(super) struct Address(pub(super) *mut u8);

// SAFETY: an address is a number here; the courier alone passes it on, to MPI.
unsafe impl Send for Address {}

/// What is done once a message has been carried, or why it was not.
pub(super) type Then = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Bytes to send to a process or to receive from it.
pub(super) struct Message {
    pub(super) link: Link,
    /// The communicator that they belong to, and the peer's rank there.
    pub(super) comm: u64,
    pub(super) rank: u32,
    pub(super) is_sent: bool,
    /// Between two processes, messages with the same number are carried in order.
    pub(super) number: u64,
    pub(super) at: Address,
    pub(super) bytes: usize,
    /// Keeps the memory until MPI has done with it, however late.
    #[expect(dead_code, reason = "keeps the memory")]
    pub(super) keep: Option<Arc<dyn Any + Send + Sync>>,
    pub(super) then: Option<Then>,
}

/// A number for messages. Those of one process grow. Receivers have even numbers, for what they ask
/// for, and senders odd ones, for puts.
pub(super) fn number(is_put: bool) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) * 2 + u64::from(is_put)
}

//! Device memory that a communicator has for itself.

use std::fmt;

/// A rank's own device memory in bytes: what NCCL allocates for connections and the like, without
/// the program's buffers and windows. All zero on the host, where a communicator has no memory of
/// its own.
///
/// ```
/// # use typed_nccl::{Host, MemoryStats, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let stats: MemoryStats = comm.memory_stats()?;
/// assert_eq!((stats.held, stats.total), (0, 0)); // none on the host
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The bytes held now: the total, less suspended memory.
    pub held: u64,
    /// The bytes held while it is in use.
    pub total: u64,
    /// The part of the total that [`suspend`](crate::Communicator::suspend) releases.
    pub suspendable: u64,
    /// The part of the total that it keeps.
    pub persistent: u64,
}

impl fmt::Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, total, suspendable, persistent } = self;
        write!(
            f,
            "{held} of {total} bytes of device memory are held: {suspendable} can be suspended, {persistent} stay"
        )
    }
}

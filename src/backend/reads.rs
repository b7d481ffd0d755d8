//! Reads of peers' windows by local work.

use std::sync::Arc;

use super::{Allocation, Backend, Kernels, Team, WindowId, Windows};
use crate::error::Site;
use crate::{DType, Rank, ReductionName, Result};

/// What local work reads, from this byte offset on.
pub enum Source<'a, B: Backend> {
    /// This rank's memory.
    Own(&'a Arc<Allocation<B>>, usize),
    /// A peer's part of a window.
    Peer(B::Part, usize),
}

/// Regions, also of peers, to reduce into one of this rank; a single one is copied.
pub struct Gathered<'a, B: Backend> {
    /// The reduction: a built-in one.
    pub by: ReductionName,
    /// The element type.
    pub dtype: DType,
    /// The sources. At least one.
    pub of: Vec<Source<'a, B>>,
    /// The target: an allocation and a byte offset.
    pub to: (&'a Arc<Allocation<B>>, usize),
    /// The number of elements of each.
    pub count: usize,
    /// The call's source location.
    pub site: Site,
}

/// Local work that reads peers' windows where they lie.
///
/// # Safety
/// A part stays readable until work that was enqueued with it is over, also if its rank ends.
pub unsafe trait Reads: Kernels + Windows {
    /// A peer's part of a window, readable from here.
    type Part: Send;

    /// Whether this rank reaches the windows of a peer.
    fn reaches(comm: &Self::Comm, peer: Rank, world: Team) -> bool;

    /// A peer's part of a window; `None` if it is not reachable, or not registered any more.
    fn part(comm: &Self::Comm, id: WindowId, peer: Rank) -> Option<Self::Part>;

    /// Enqueues the work; the host does not wait, and neither do peers. It may touch their memory
    /// until the communicator [is idle](super::Lifecycle::is_idle).
    ///
    /// # Errors
    /// The device reports an error, or the backend does not support it.
    ///
    /// # Safety
    /// The ranges are in bounds and aligned; the target is one of the own sources or overlaps none;
    /// earlier uses of this rank's allocations are ordered before. Several sources are of a
    /// reduction that [was prepared](Kernels::can_combine).
    unsafe fn gather(
        comm: &Self::Comm,
        stream: &Self::Stream,
        gathered: Gathered<'_, Self>,
    ) -> Result<()>
    where
        Self: Backend;
}

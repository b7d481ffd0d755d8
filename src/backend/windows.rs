//! Windows and registered buffers.

use std::ops::Range;
use std::sync::Arc;

use super::{Allocation, Backend, Lease, Lifecycle, WindowId};
use crate::window::{Endpoint, EndpointOf, TeamOf};
use crate::{Rank, Result, Team};

/// Windows: memory that peers write.
///
/// # Safety
/// A registered allocation is held until it is unregistered or the communicator ends, and touched
/// by puts within its first `bytes` bytes only.
pub unsafe trait Windows: Lifecycle {
    /// What the backend keeps of a registered window.
    type Window: Send + 'static;

    /// Whether there can be windows with these flags of NCCL's. Asked before anything is registered.
    ///
    /// # Errors
    /// There cannot.
    fn can_register(comm: &Self::Comm, flags: u32) -> Result<()> {
        let _ = (comm, flags);
        Ok(())
    }

    /// Registers this rank's part of window `id`. Collective; the caller has compared the ranks'
    /// parts, and puts nothing anybody's way before all have returned.
    ///
    /// # Errors
    /// It cannot be registered.
    fn register(
        comm: &Self::Comm,
        id: WindowId,
        allocation: &Arc<Allocation<Self>>,
        bytes: usize,
        flags: u32,
    ) -> Result<Self::Window>
    where
        Self: Backend;

    /// The end of a window: nothing uses it any more on any rank.
    fn unregister(comm: &Self::Comm, id: WindowId, window: Self::Window);

    /// The address of a block.
    fn address(block: &Self::Block) -> *mut u8;

    /// The address here of a peer's part of a window, if it has one.
    fn peer_address(comm: &Self::Comm, id: WindowId, peer: Rank) -> Option<*mut u8>;

    /// The address through which all parts of a window are written, if there is one.
    fn multimem_address(comm: &Self::Comm, id: WindowId) -> Option<*mut u8>;

    /// NCCL's handle of a window, for kernels, if there is one.
    fn handle(comm: &Self::Comm, id: WindowId) -> Option<*mut u8> {
        let _ = (comm, id);
        None
    }

    /// The address of a window in a multicast mapping that starts there, if there is one.
    fn multimem_address_in(comm: &Self::Comm, id: WindowId, mapping: *mut u8) -> Option<*mut u8> {
        let _ = (comm, id, mapping);
        None
    }

    /// Where counted transfers reach a place, in bytes, of a window, if they do.
    ///
    /// # Errors
    /// The backend reports one.
    fn endpoint(
        comm: &Self::Comm,
        id: WindowId,
        of: EndpointOf,
        offset: usize,
    ) -> Result<Option<Endpoint>> {
        let _ = (comm, id, of, offset);
        Ok(None)
    }

    /// The ranks of a team for kernels, if there is such a team.
    fn team(comm: &Self::Comm, of: TeamOf, world: Team) -> Option<Team> {
        let _ = (comm, of, world);
        None
    }

    /// The ranks whose windows have addresses here.
    fn lsa_team(comm: &Self::Comm, world: Team) -> Team;

    /// Registers these bytes of an allocation for faster communication; NCCL's handle, if it keeps one. The
    /// lease is kept for as long as NCCL names them.
    ///
    /// # Errors
    /// They cannot be registered.
    fn register_buffer(
        comm: &Self::Comm,
        lease: &Arc<Lease<Self>>,
        bytes: Range<usize>,
    ) -> Result<Option<u64>>
    where
        Self: Backend;

    /// Ends such a registration. This rank's work with the memory is over.
    ///
    /// # Errors
    /// The backend reports one.
    fn deregister_buffer(
        comm: &Self::Comm,
        lease: &Arc<Lease<Self>>,
        handle: Option<u64>,
    ) -> Result<()>
    where
        Self: Backend;
}

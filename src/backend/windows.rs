//! Windows and registered buffers.

use std::ops::Range;
use std::sync::Arc;

use super::{Allocation, Backend, Endpoint, EndpointOf, Lease, Lifecycle, Team, TeamOf, WindowId};
use crate::{Rank, Result};

/// Windows: memory that peers write.
///
/// # Safety
/// A registered allocation is kept alive until it is unregistered or the communicator ends, and
/// puts touch only its first `bytes` bytes.
pub unsafe trait Windows: Lifecycle {
    /// The backend's state of a registered window.
    type Window: Send + 'static;

    /// Checks whether windows can have these NCCL flags, before anything is registered.
    ///
    /// # Errors
    /// They cannot.
    fn can_register(comm: &Self::Comm, flags: u32) -> Result<()> {
        let _ = (comm, flags);
        Ok(())
    }

    /// Registers this rank's memory as part of window `id`. Collective; the caller has compared the
    /// ranks' parts, and starts no put before all ranks have returned.
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

    /// Ends a window that no rank uses any more.
    fn unregister(comm: &Self::Comm, id: WindowId, window: Self::Window);

    /// The address of a block.
    fn address(block: &Self::Block) -> *mut u8;

    /// The local address of a peer's memory in a window, if it has one.
    fn peer_address(comm: &Self::Comm, id: WindowId, peer: Rank) -> Option<*mut u8>;

    /// The address that writes to all ranks' memory of a window, if there is one.
    fn multimem_address(comm: &Self::Comm, id: WindowId) -> Option<*mut u8>;

    /// NCCL's handle of a window, for kernels, if there is one.
    fn handle(comm: &Self::Comm, id: WindowId) -> Option<*mut u8> {
        let _ = (comm, id);
        None
    }

    /// The address of a window within the multicast mapping at `mapping`, if there is one.
    fn multimem_address_in(comm: &Self::Comm, id: WindowId, mapping: *mut u8) -> Option<*mut u8> {
        let _ = (comm, id, mapping);
        None
    }

    /// The endpoint of a byte offset in a window for counted transfers, if they are available.
    ///
    /// # Errors
    /// The backend reports an error.
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

    /// The ranks whose windows have local addresses.
    fn lsa_team(comm: &Self::Comm, world: Team) -> Team;

    /// Registers bytes of an allocation for faster communication, and returns NCCL's handle if
    /// there is one. The lease is kept as long as NCCL refers to them.
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

    /// Ends such a registration. This rank's work on the memory has completed.
    ///
    /// # Errors
    /// The backend reports an error.
    fn deregister_buffer(
        comm: &Self::Comm,
        lease: &Arc<Lease<Self>>,
        handle: Option<u64>,
    ) -> Result<()>
    where
        Self: Backend;
}

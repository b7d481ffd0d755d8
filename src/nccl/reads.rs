//! Reads of peers' windows: by the addresses that NCCL gives of them.

use std::sync::Arc;

use super::comm::Comm;
use crate::backend::{Gathered, Reads, Source, Team, WindowId, Windows};
use crate::cuda::{CudaBackend, CudaStream, combine, copy_from};
use crate::{Rank, Result};

/// The address here of a peer's part of a window.
pub struct PeerAddress(u64);

// SAFETY: NCCL maps a window's parts until it is deregistered on all ranks, or the communicator
// ends. Both wait for the streams that the communicator has noted, as `gather` does; a graph holds
// the window by its name.
unsafe impl Reads for CudaBackend {
    type Part = PeerAddress;

    fn reaches(comm: &Comm, peer: Rank, world: Team) -> bool {
        let near = Self::lsa_team(comm, world);
        let is_near = near.index_of(world.zero.beside(peer.index())).is_some();
        let has_addresses = comm.nccl.api.ncclGetPeerDevicePointer().is_ok();
        peer.index() == world.rank || has_addresses && is_near
    }

    fn part(comm: &Comm, id: WindowId, peer: Rank) -> Option<PeerAddress> {
        let address = Self::peer_address(comm, id, peer)?;
        Some(PeerAddress(address.expose_provenance() as u64))
    }

    unsafe fn gather(
        comm: &Comm,
        stream: &Arc<CudaStream>,
        gathered: Gathered<'_, Self>,
    ) -> Result<()> {
        let Gathered { by, dtype, of, to: (to, offset), count, .. } = gathered;
        if !stream.is_capturing() {
            comm.note(stream);
        }
        let address = |source: &Source<'_, Self>| match source {
            Source::Own(memory, start) => memory.block().at(*start) as u64,
            Source::Peer(PeerAddress(address), start) => address + *start as u64,
        };
        let from: Vec<u64> = of.iter().map(address).collect();
        let to = to.block().at(offset) as u64;
        match from[..] {
            // SAFETY: the caller keeps the ranges inside and apart, and orders uses of its own
            // memory; the peer's is mapped.
            [from] => unsafe { copy_from(stream, from, to, count * dtype.size()) },
            _ => {
                let (dtype, count) = by.computes_with(dtype, count);
                // SAFETY: as above.
                unsafe { combine::at(stream, (by, dtype), (to, count), &from) }
            }
        }
    }
}

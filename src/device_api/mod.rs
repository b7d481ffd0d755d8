//! Device communicators, with which kernels communicate with their peers directly.
//!
//! [`DeviceApi`] is proof that a communicator supports them, [`Requirements`] list the resources to
//! create, and a [`DevComm`] holds them: an owned value that borrows nothing and belongs to the
//! communicator that made it. NCCL does not check what a kernel uses, so a resource that was not
//! required is refused here.
//!
//! Not in the types: whether the machine meets the requirements, which `comm.properties()` reports
//! and [`Communicator::dev_comm`] checks before it calls NCCL; and what a kernel does.

mod handles;
mod make;
mod operand;
mod peers;

pub use handles::{
    AllToAll, Barrier, DeviceRange, GinBarriers, Hybrid, Lsa, LsaBarriers, Multimem, OfRail,
    OfWorld,
};
pub use make::DeviceApi;
pub use peers::Peers;

#[cfg(feature = "cuda")]
pub use crate::device_comm::DevCommView;
pub use crate::device_comm::{
    AsksForTheNetwork, Connection, Counted, EveryNth, EveryRank, Gin, ReachesAll, Requirements,
    SameRail,
};
pub(crate) use crate::device_comm::{CommInfo, Entered, Listed, Shared, numbered};

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::communicator::Key;
use crate::error::NcclVersion;
use crate::{Device, Rank, Result, World};

#[cfg(doc)]
use crate::Communicator;

/// A device communicator of world `W`, with which kernels communicate.
///
/// Made by [`Communicator::dev_comm`] and destroyed by
/// [`close_dev_comm`](Communicator::close_dev_comm). A dropped one stays until its communicator
/// ends, since all ranks have to destroy it together. A kernel that takes one uses it in stream
/// order, and destruction waits for all such kernels. After `finish` no kernel can be launched with
/// it. `Send` and `Sync`.
///
/// An abort does not end kernels of the program: it returns after at most three seconds, and NCCL
/// frees its memory once the kernels that use it are over. A kernel that waits for a lost rank
/// never ends and keeps the GPU, so give such waits a limit.
pub struct DevComm<W: World> {
    pub(crate) key: Key,
    pub(crate) shared: Arc<Shared<<W::Device as Device>::Backend>>,
    world: PhantomData<fn() -> W>,
}

impl<W: World> DevComm<W> {
    /// This rank.
    pub fn rank(&self) -> Rank {
        self.shared.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// The number of ranks that reach each other's memory ([`Communicator::lsa_team`]).
    pub fn lsa_size(&self) -> usize {
        self.shared.lsa_size
    }

    /// The requirements that it was made for.
    pub fn requirements(&self) -> &Requirements {
        &self.shared.requirements
    }

    /// The number of its network contexts, which can differ from the requested number; a kernel
    /// that uses any other context is undefined behaviour. `None` if unknown: on the host, and if
    /// the loaded NCCL is newer than every release that this crate knows.
    pub fn gin_contexts(&self) -> Option<u32> {
        self.shared.bytes.gin_contexts
    }

    /// The size in bytes of a kernel's `ncclDevComm`; 0 on the host.
    pub fn size_in_bytes(&self) -> usize {
        self.shared.bytes.len
    }

    /// The release of NCCL whose headers a kernel that takes it has to be compiled with, since
    /// layouts differ. `None` on the host.
    pub fn layout(&self) -> Option<NcclVersion> {
        self.shared.bytes.layout
    }

    /// Whether its communicator still has it: not after the communicator's end, nor if the
    /// communicator went on with other ranks.
    pub fn is_valid(&self) -> bool {
        self.key.is_valid()
    }

    /// Its bytes, as a kernel takes it by value: `ncclDevComm` of the headers of
    /// [`layout`](Self::layout). Code that passes them to a kernel by hand has to keep it alive
    /// until the kernel is over.
    ///
    /// # Errors
    /// [`Error::Stale`](crate::Error::Stale): it is not [valid](Self::is_valid) any more, so no
    /// kernel may take it.
    pub fn bytes(&self) -> Result<&[u8]> {
        match self.is_valid() {
            true => Ok(self.shared.bytes()),
            false => Err(self.shared.is_gone()),
        }
    }
}

impl<W: World> fmt::Debug for DevComm<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { id, rank, size, .. } = &*self.shared;
        let signature = self.shared.requirements.signature();
        write!(f, "DevComm #{id} of rank {rank} of {size} on {}, with {signature}", W::NAME)
    }
}

#[cfg(test)]
mod tests {
    use static_assertions::assert_impl_all;

    use super::{DevComm, DeviceApi, Requirements};
    use crate::Host;

    assert_impl_all!(DevComm<Host>: Send, Sync);
    assert_impl_all!(DeviceApi<Host>: Send, Sync);
    assert_impl_all!(Requirements: Send, Sync, Clone);
}

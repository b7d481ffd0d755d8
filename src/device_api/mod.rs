//! Device communicators: what kernels are given to communicate with their peers themselves.
//!
//! [`DeviceApi`] is proof that a communicator can have them, [`Requirements`] say what one shall have, and
//! a [`DevComm`] is one: an owned value that borrows nothing, works with the communicator that made it, and
//! knows what it has. NCCL checks none of what a kernel does with it, so a number that was not required is
//! refused here.
//!
//! Not in the types: whether the machine has what is asked for, which `comm.properties()` tells and
//! [`Communicator::dev_comm`] checks before NCCL is called; and what a kernel does.

mod gin;
mod handles;
mod make;
mod operand;
mod peers;
mod requirements;
mod shared;

pub use gin::{Connection, EveryNth, EveryRank, Gin, ReachesAll, SameRail};
pub use handles::{
    AllToAll, Barrier, DeviceRange, GinBarriers, Hybrid, Lsa, LsaBarriers, Multimem, OfRail,
    OfWorld,
};
pub use make::DeviceApi;
#[cfg(feature = "cuda")]
pub use operand::DevCommView;
pub use peers::Peers;
pub use requirements::{AsksForTheNetwork, Counted, Requirements};
pub use shared::Shared;

pub(crate) use requirements::Listed;
pub(crate) use shared::Entered;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::communicator::Key;
use crate::error::NcclVersion;
use crate::{Device, Rank, World};

#[cfg(doc)]
use crate::Communicator;

/// A device communicator of world `W`: what kernels communicate with.
///
/// Made by [`Communicator::dev_comm`]; [`close_dev_comm`](Communicator::close_dev_comm) ends it. One that
/// is dropped stays until its communicator ends, because its end is everybody's. A kernel that takes one is
/// a use of it in stream order, and its end waits for all of them. From `finish` on none is launched with it.
/// `Send` and `Sync`.
///
/// An abort ends nothing that a kernel of the program's does: it returns after three seconds at most, and NCCL
/// takes its memory away once the kernels that were given one are over. A kernel that waits for a rank that is
/// gone never is, and keeps the GPU: give such waits an end.
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

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.shared.size
    }

    /// How many ranks reach each other's memory ([`Communicator::lsa_team`]).
    pub fn lsa_size(&self) -> usize {
        self.shared.lsa_size
    }

    /// What it was made for.
    pub fn requirements(&self) -> &Requirements {
        &self.shared.requirements
    }

    /// How many contexts for the network it has, which need not be as many as were asked for: a kernel
    /// that uses another one is undefined behaviour. None where that is not known: on the host, and where
    /// the loaded NCCL is newer than the newest that is known here.
    pub fn gin_contexts(&self) -> Option<u32> {
        self.shared.bytes.gin_contexts
    }

    /// How many bytes a kernel's `ncclDevComm` has; 0 on the host.
    pub fn size_in_bytes(&self) -> usize {
        self.shared.bytes.len
    }

    /// The release of NCCL whose headers a kernel that takes it is compiled with: layouts differ. None on
    /// the host.
    pub fn layout(&self) -> Option<NcclVersion> {
        self.shared.bytes.layout
    }

    /// Its bytes, as a kernel takes it by value: `ncclDevComm`, of [`layout`](Self::layout)'s headers. They
    /// are good until it ends, and who hands them to a kernel by hand has to keep that from happening.
    pub fn bytes(&self) -> &[u8] {
        self.shared.bytes()
    }
}

impl<W: World> fmt::Debug for DevComm<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { id, rank, size, .. } = &*self.shared;
        let essence = self.shared.requirements.essence();
        write!(f, "DevComm #{id} of rank {rank} of {size} on {}, with {essence}", W::NAME)
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

//! A device communicator, as launched work sees it.

use std::fmt;

use super::Shared;
use crate::Rank;
use crate::backend::Backend;

/// A device communicator in a closure on a GPU, for passing it to a kernel by hand.
#[derive(Clone, Copy)]
pub struct DevCommView<'v> {
    rank: Rank,
    size: usize,
    bytes: &'v [u8],
}

impl<'v> DevCommView<'v> {
    pub(crate) fn new<B: Backend>(shared: &'v Shared<B>) -> Self {
        Self { rank: shared.rank, size: shared.size, bytes: shared.bytes() }
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Its bytes, as a kernel takes it by value: see [`DevComm::bytes`](crate::DevComm::bytes).
    pub fn bytes(&self) -> &'v [u8] {
        self.bytes
    }
}

impl fmt::Debug for DevCommView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, size, bytes } = self;
        write!(f, "DevCommView of rank {rank} of {size}, {} bytes", bytes.len())
    }
}

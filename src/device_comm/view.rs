//! A device communicator, as launched work sees it.

use std::fmt;

use super::Shared;
use crate::Rank;
use crate::backend::Backend;

/// A device communicator in a closure on a GPU, for passing it to a kernel by hand.
///
/// ```no_run
/// # use typed_nccl::{Cuda, DevComm, DevCommView, RawStream, Result, Stream};
/// # use std::ffi::c_void;
/// # unsafe extern "C" fn start(dev: *const u8, stream: *mut c_void) {}
/// /// `start` launches a kernel that takes an `ncclDevComm` by value.
/// fn by_hand(stream: &Stream<Cuda>, dev: &DevComm<Cuda>) -> Result<()> {
///     stream.launch(dev, |dev: DevCommView<'_>, raw: RawStream<'_>| {
///         // SAFETY: the bytes are those of the communicator, and of this release's layout.
///         unsafe { start(dev.bytes().as_ptr(), raw.as_ptr()) }
///     })
/// }
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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

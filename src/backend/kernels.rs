//! This library's own kernels: several small operations in one launch, without NCCL.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Allocation, Backend, Operations};
use crate::error::{Call, Error, Site, Unsupported};
use crate::{DType, ReductionName, Result};

/// No rank: the missing end of a message.
pub const NOBODY: u16 = u16::MAX;

/// The maximum number of pieces in one launch.
pub const MOST_PIECES: usize = 96;

/// What a rank can provide to kernels, or what all ranks agreed on: the minimum of each field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelOffer {
    /// The maximum number of thread blocks of a launch. All of them must run at once, beside other
    /// work.
    pub blocks: u32,
}

/// The work of a launch on its pieces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum KernelWork {
    /// Sums each piece over all ranks.
    AllReduce(ReductionName, KernelWay),
    /// Sums a single piece over all ranks, then divides each row of `width` elements by its root
    /// mean square and multiplies it with the elements of `weight`.
    AllReduceRmsNorm {
        /// `width` elements of the piece's type.
        weight: *const u8,
        /// The length of a row in elements.
        width: usize,
        /// Added to the mean of the squares.
        epsilon: f32,
    },
    /// Sends each piece to one rank and receives it from one. The k-th piece for a rank matches
    /// that rank's k-th piece from this one.
    Messages,
}

/// The algorithm of an all_reduce.
///
/// ```
/// # use typed_nccl::{Host, Seat, Sum, kernels::Way};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let two_shots = comm.kernels()?.always(Way::TwoShot);
/// let mut x = comm.device().from_slice(&[1.0_f32; 64])?;
/// two_shots.all_reduce_in_place(&comm, &mut x, Sum)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelWay {
    /// Every rank sends everything to all others, with a flag beside each word.
    OneShot,
    /// As `OneShot` with one flag per block of words, for larger pieces. A single piece.
    OneShotInBlocks,
    /// Each rank sums a part, then sends it to all. A single piece.
    TwoShot,
}

/// A piece of a launch's work.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The data to read.
    pub source: *const u8,
    /// The destination: the same memory, or disjoint from it.
    pub target: *mut u8,
    /// The number of elements, the same on all ranks involved.
    pub count: usize,
    /// For messages, the receiving rank or [`NOBODY`].
    pub to: u16,
    /// For messages, the sending rank or [`NOBODY`].
    pub from: u16,
}

// SAFETY: the pointers are device addresses, which the host does not dereference.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Send for KernelWork {}

/// Rows to normalise in place.
pub struct Rows<'a, B: Backend> {
    /// The allocation, and the byte offset of the first row.
    pub rows: (&'a Arc<Allocation<B>>, usize),
    /// The factors for the elements of each row.
    pub weight: (&'a Arc<Allocation<B>>, usize),
    /// The element type: a float of 16 bits or more.
    pub dtype: DType,
    /// The length of a row in elements, not 0.
    pub width: usize,
    /// The total number of elements.
    pub count: usize,
    /// Added to the mean of the squares.
    pub epsilon: f32,
    /// The call's source location.
    pub site: Site,
}

/// Regions to reduce into another one of the same device.
pub struct Combined<'a, B: Backend> {
    /// The reduction: a built-in one.
    pub by: ReductionName,
    /// The element type.
    pub dtype: DType,
    /// The sources: allocations, and byte offsets. At least two.
    pub of: &'a [(&'a Arc<Allocation<B>>, usize)],
    /// The target.
    pub to: (&'a Arc<Allocation<B>>, usize),
    /// The number of elements of each.
    pub count: usize,
    /// The call's source location.
    pub site: Site,
}

/// This library's own kernels.
///
/// # Safety
/// A launch touches its pieces, in stream order, and memory of its own.
pub unsafe trait Kernels: Operations {
    /// What this rank can provide; `None` if the device has collectives for this work and no
    /// kernels. All ranks are asked, and agree on the minimum.
    ///
    /// # Errors
    /// [`Error::Unsupported`] names what is missing.
    fn offer_kernels(comm: &Self::Comm) -> Result<Option<KernelOffer>> {
        let _ = comm;
        Ok(None)
    }

    /// Creates the state of a communicator's kernels, once, until it ends. Called by all ranks
    /// after they have agreed.
    ///
    /// # Errors
    /// It cannot be created. The communicator is poisoned.
    fn make_kernels(comm: &Self::Comm, agreed: KernelOffer) -> Result<()> {
        let _ = (comm, agreed);
        Ok(())
    }

    /// Removes that state from a communicator that is handed to another library. Called by all
    /// ranks after their last kernel.
    fn unmake_kernels(comm: &Self::Comm) {
        let _ = comm;
    }

    /// Enqueues one launch; the host does not wait. On a capturing stream it is captured. All ranks
    /// launch the same work with the same numbers of pieces and elements, in one order. `call` is
    /// what they compare: a collective with the total number of elements.
    ///
    /// # Errors
    /// It could not be enqueued. The communicator is poisoned.
    ///
    /// # Safety
    /// The state for kernels [was created](Self::make_kernels). Until the launch has completed,
    /// each address of a piece points to `count` elements of the call's type, aligned, on the
    /// communicator's device; no piece reads or writes what another one writes. Every earlier
    /// conflicting use is ordered before the launch. Pieces name existing ranks, and there are at
    /// most [`MOST_PIECES`]. The call's type is no plain type.
    unsafe fn enqueue(
        comm: &Self::Comm,
        stream: &Self::Stream,
        call: &Call,
        work: KernelWork,
        pieces: &[Piece],
    ) -> Result<()> {
        let _ = (comm, stream, work, pieces);
        Err(no_kernel(&call.to_string(), Self::KIND))
    }

    /// Prepares to reduce this many regions into one, locally. May block.
    ///
    /// # Errors
    /// The device reports an error, or the backend does not support it.
    fn can_combine(
        stream: &Self::Stream,
        by: ReductionName,
        dtype: DType,
        regions: usize,
    ) -> Result<()> {
        let _ = (stream, by, dtype, regions);
        Ok(())
    }

    /// Enqueues the reduction of regions of this device into another one, element by element.
    ///
    /// # Errors
    /// The device reports an error, or the backend does not support it.
    ///
    /// # Safety
    /// The ranges are in bounds and aligned; the target is one of the sources or overlaps none;
    /// earlier uses of the allocations are ordered before.
    unsafe fn combine(stream: &Self::Stream, combined: Combined<'_, Self>) -> Result<()>
    where
        Self: Backend,
    {
        let _ = (stream, combined);
        Err(no_kernel("a local reduction", Self::KIND))
    }

    /// Enqueues normalising rows in place, for backends without a kernel that also does the sum.
    ///
    /// # Errors
    /// The backend does not support it.
    ///
    /// # Safety
    /// The ranges are in bounds and aligned; earlier uses of the allocations are ordered before.
    unsafe fn rms_norm(stream: &Self::Stream, rows: Rows<'_, Self>) -> Result<()>
    where
        Self: Backend,
    {
        let _ = (stream, rows);
        Err(no_kernel("an RMSNorm", Self::KIND))
    }
}

#[cold]
fn no_kernel(what: &str, kind: &str) -> Error {
    Unsupported::error(
        format!("a kernel for {what}"),
        "GPUs",
        format!("this is the {kind} backend"),
    )
}

//! Kernels of this library's own: several small operations in one launch, without NCCL.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Allocation, Backend, Operations};
use crate::error::{Call, Error, Site, Unsupported};
use crate::{DType, ReductionName, Result};

/// Nobody: the end of an open line, from which nothing comes and to which nothing goes.
pub const NOBODY: u16 = u16::MAX;

/// The most pieces of one launch.
pub const MOST_PIECES: usize = 96;

/// What a rank can give to kernels, and what all ranks have agreed on: the least of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelOffer {
    /// The most thread blocks of a launch: all of them have to run at once, beside other work.
    pub blocks: u32,
}

/// What the pieces of a launch are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum KernelWork {
    /// Each piece is summed up with the same piece of all ranks.
    AllReduce(ReductionName, KernelWay),
    /// The same of one piece, whose rows of `width` elements are then divided by the root of the mean of
    /// their squares, and multiplied with the elements of `weight`.
    AllReduceRmsNorm {
        /// So many elements of the pieces' type.
        weight: *const u8,
        /// Elements of a row.
        width: usize,
        /// Added to the mean of the squares.
        epsilon: f32,
    },
    /// Each piece goes to one rank and comes from one: the k-th one to a rank meets that one's k-th from
    /// here.
    Messages,
}

/// How an all_reduce goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelWay {
    /// Everything to everybody, with a flag beside each word.
    OneShot,
    /// The same with a flag for each block of words: for more bytes. One piece.
    OneShotInBlocks,
    /// Each rank sums up a part, then sends it to all. One piece.
    TwoShot,
}

/// A piece of a launch's work.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// What is read.
    pub source: *const u8,
    /// What is written: the same, or apart from it.
    pub target: *mut u8,
    /// How many elements; the same on the other rank or ranks.
    pub count: usize,
    /// For messages, whom it goes to, or [`NOBODY`].
    pub to: u16,
    /// For messages, whom it comes from, or [`NOBODY`].
    pub from: u16,
}

// SAFETY: addresses on a device, which the host does not follow.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Send for KernelWork {}

/// Rows that are normed where they are.
pub struct Rows<'a, B: Backend> {
    /// The first, from this byte on.
    pub rows: (&'a Arc<Allocation<B>>, usize),
    /// What each row is multiplied with.
    pub weight: (&'a Arc<Allocation<B>>, usize),
    /// The element type: a float of 16 bits or more.
    pub dtype: DType,
    /// Elements of a row, not 0.
    pub width: usize,
    /// Elements of all of them.
    pub count: usize,
    /// Added to the mean of the squares.
    pub epsilon: f32,
    /// Where the program asked for it.
    pub site: Site,
}

/// Kernels of this library's own.
///
/// # Safety
/// A launch touches the pieces that it was given, in stream order, and memory of its own.
pub unsafe trait Kernels: Operations {
    /// What this rank can give; none where the device has collectives for the same, and no kernels. All
    /// ranks are asked, and agree on the least.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: what is missing.
    fn offer_kernels(comm: &Self::Comm) -> Result<Option<KernelOffer>> {
        let _ = comm;
        Ok(None)
    }

    /// Makes what a communicator's kernels need, once, until it ends. Called by all ranks, which have agreed.
    ///
    /// # Errors
    /// It cannot be made. The communicator is poisoned.
    fn make_kernels(comm: &Self::Comm, agreed: KernelOffer) -> Result<()> {
        let _ = (comm, agreed);
        Ok(())
    }

    /// Takes what was made out of a communicator that another library goes on with. Called by all ranks, once
    /// their kernels are over; there are none afterwards.
    fn unmake_kernels(comm: &Self::Comm) {
        let _ = comm;
    }

    /// Enqueues one launch; the host does not wait. On a stream that captures, it is captured. All ranks
    /// launch the same work with the same numbers of pieces and elements, in one order. `call` is what they
    /// compare: a collective, of so many elements in all.
    ///
    /// # Errors
    /// It could not be enqueued. The communicator is poisoned.
    ///
    /// # Safety
    /// What it needs [was made](Self::make_kernels). There are so many elements of the call's type at the
    /// pieces' addresses, aligned for it, on the communicator's device, and until the launch is over; what one
    /// piece writes no other reads or writes. Every earlier use that conflicts is before the launch in stream
    /// order. A piece is for ranks that there are, and there are [`MOST_PIECES`] at most.
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

    /// Enqueues norming rows where they are, where there are no kernels that do it beside their sum.
    ///
    /// # Errors
    /// The backend cannot.
    ///
    /// # Safety
    /// The ranges are inside and aligned; the allocations' earlier uses are ordered before.
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
    Error::from(Unsupported {
        what: format!("a kernel for {what}"),
        needs: "GPUs".to_owned(),
        found: format!("this is the {kind} backend"),
    })
}

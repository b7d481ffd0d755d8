//! Validated operations as plain data: what the typed layer hands to a backend.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Backend;
use crate::communicator::CallConfig;
use crate::error::{Call, CollectiveName, Operation};
use crate::memory::Allocation;
use crate::{Rank, ReductionName};

/// Part of an allocation.
pub struct Span<'a, B: Backend> {
    allocation: &'a Arc<Allocation<B>>,
    offset: usize,
    len: usize,
}

impl<'a, B: Backend> Span<'a, B> {
    /// `len` elements from `offset` bytes on.
    ///
    /// # Safety
    /// They lie inside the allocation, aligned for their type, whatever type an operation gives them.
    #[inline]
    pub(crate) unsafe fn new(
        allocation: &'a Arc<Allocation<B>>,
        offset: usize,
        len: usize,
    ) -> Self {
        Self { allocation, offset, len }
    }

    /// The allocation; clone the `Arc` to hold it.
    #[inline]
    pub fn allocation(self) -> &'a Arc<Allocation<B>> {
        self.allocation
    }

    /// Where it starts, in bytes. Aligned for the element type.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Plain data: an operation that is copied leaves nothing behind to drop.
macro_rules! plain {
    ($($data:ident),+) => { $(
        impl<B: Backend> Clone for $data<'_, B> {
            #[inline]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<B: Backend> Copy for $data<'_, B> {}
    )+ };
}

plain!(Span, Reduction, Op, Collective, Transfer, Put);

/// How elements are combined.
pub enum Reduction<'a, B: Backend> {
    /// One of NCCL's own.
    BuiltIn(ReductionName),
    /// An operator that this communicator made.
    Made(&'a B::Operator),
}

impl<B: Backend> Reduction<'_, B> {
    /// Its name in reports.
    #[inline]
    pub fn name(self) -> ReductionName {
        match self {
            Self::BuiltIn(name) => name,
            Self::Made(_) => ReductionName::ScaledAdd,
        }
    }
}

/// One operation that has passed validation.
pub enum Op<'a, B: Backend> {
    /// A collective.
    Collective(Collective<'a, B>),
    /// This rank's half of a transfer.
    Transfer(Transfer<'a, B>),
    /// A write into a peer's window, then a signal.
    Put(Put<'a, B>),
    /// A signal alone.
    Signal(Signal),
    /// A wait for signals; consumes them.
    Wait(Wait),
}

/// A collective that has passed validation. With n ranks and `count` from the call:
///
/// | operation | `send` | `recv` |
/// |---|---|---|
/// | all_reduce | count | count |
/// | broadcast | count, on the root | count |
/// | reduce | count | count, on the root |
/// | all_gather | count | n x count |
/// | reduce_scatter | n x count | count |
/// | all_to_all | n x count | n x count |
/// | gather | count | n x count, on the root |
/// | scatter | n x count, on the root | count |
///
/// In place, `send` and `recv` overlap exactly where NCCL asks for it: the same span for
/// all_reduce, broadcast and reduce; this rank's block of the longer one for the others; never for
/// all_to_all. Otherwise they are disjoint.
pub struct Collective<'a, B: Backend> {
    /// Which one; `call.operation` says so too.
    pub name: CollectiveName,
    /// What, how much, and where in the source.
    pub call: Call,
    /// How elements are combined, for the reducing ones.
    pub reduction: Option<Reduction<'a, B>>,
    /// What is read.
    pub send: Option<Span<'a, B>>,
    /// What is written.
    pub recv: Option<Span<'a, B>>,
    /// How this call is configured, if not as the communicator is: checked, the same on all ranks.
    pub config: Option<&'a CallConfig>,
}

/// Which half of a message a rank has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// The span is read.
    SendTo,
    /// The span is written.
    RecvFrom,
}

impl Half {
    /// What its call is named.
    pub const fn operation(self) -> Operation {
        match self {
            Self::SendTo => Operation::SendTo,
            Self::RecvFrom => Operation::RecvFrom,
        }
    }
}

/// A send or a receive. The k-th send of a pair meets the k-th receive; both have one count and one
/// data type.
pub struct Transfer<'a, B: Backend> {
    /// Which of the two; `call.operation` says so too.
    pub half: Half,
    /// What, how much, and where in the source.
    pub call: Call,
    /// The other rank.
    pub peer: Rank,
    /// What is read or written.
    pub span: Span<'a, B>,
}

/// A put: `span` to `offset` bytes into `peer`'s part of `window`, then a signal in `slot`.
pub struct Put<'a, B: Backend> {
    /// What, how much, and where in the source.
    pub call: Call,
    /// Whose memory is written.
    pub peer: Rank,
    /// What is read: part of a symmetric window of this communicator.
    pub span: Span<'a, B>,
    /// The window, by the id that `Rma::register` was given.
    pub window: WindowId,
    /// Where it goes, in bytes; the end is inside the peer's part.
    pub offset: usize,
    /// Which signal.
    pub slot: Slot,
}

/// A signal to `peer`.
#[derive(Clone, Copy)]
pub struct Signal {
    /// Where in the source.
    pub call: Call,
    /// Whom.
    pub peer: Rank,
    /// Which signal.
    pub slot: Slot,
}

/// A wait for `count` signals from `peer`.
#[derive(Clone, Copy)]
pub struct Wait {
    /// Where in the source.
    pub call: Call,
    /// From whom.
    pub peer: Rank,
    /// Which signal.
    pub slot: Slot,
    /// How many, at least 1.
    pub count: u32,
}

/// A window of a communicator: the same number on all ranks.
pub type WindowId = u64;

/// One of the signals that a communicator was configured with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Slot {
    /// The context (`ctx`): order is kept within one.
    pub context: u32,
    /// The signal's index (`sigIdx`).
    pub index: u32,
    /// Whether it is a graph's: NCCL keeps those apart, so that a wait in a graph takes no signal from
    /// outside of one.
    pub captured: bool,
}

impl Slot {
    /// A signal outside of graphs.
    pub const fn at(context: u32, index: u32) -> Self {
        Self { context, index, captured: false }
    }
}

//! A validated collective as plain data.

use std::sync::Arc;

use super::Backend;
use crate::ReductionName;
use crate::error::Call;
use crate::memory::Allocation;

/// Part of an allocation.
pub struct Span<'a, B: Backend> {
    allocation: &'a Arc<Allocation<B>>,
    offset: usize,
    len: usize,
}

impl<'a, B: Backend> Span<'a, B> {
    /// `len` elements from `offset` bytes on. The caller has checked that they lie inside.
    #[inline]
    pub(crate) fn new(allocation: &'a Arc<Allocation<B>>, offset: usize, len: usize) -> Self {
        Self { allocation, offset, len }
    }

    /// The allocation; clone the `Arc` to hold it.
    #[inline]
    pub fn allocation(&self) -> &'a Arc<Allocation<B>> {
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

impl<B: Backend> Clone for Span<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Span<'_, B> {}

/// How elements are combined.
pub enum Reduction<B: Backend> {
    /// One of NCCL's own.
    BuiltIn(ReductionName),
    /// An operator that this communicator made.
    PreMulSum(B::Operator),
}

impl<B: Backend> Reduction<B> {
    /// Its name in reports.
    #[inline]
    pub fn name(&self) -> ReductionName {
        match self {
            Self::BuiltIn(name) => *name,
            Self::PreMulSum(_) => ReductionName::PreMulSum,
        }
    }
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
    /// What, how much, and where in the source.
    pub call: Call,
    /// Which operation of the communicator this is, from 0.
    pub seq: u64,
    /// How elements are combined, for the reducing ones.
    pub reduction: Option<Reduction<B>>,
    /// What is read.
    pub send: Option<Span<'a, B>>,
    /// What is written.
    pub recv: Option<Span<'a, B>>,
}

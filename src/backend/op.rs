//! Validated operations as plain data, which the typed layer passes to a backend.

use std::sync::Arc;

use super::{Backend, Lifecycle, form};
use crate::communicator::CallConfig;
use crate::memory::Allocation;
use crate::{DType, Rank};

/// A validated operation.
pub type Op<'a, B> = form::Op<Span<'a, B>, Operator<'a, B>, form::Target, &'a CallConfig>;

/// A validated collective.
pub type Collective<'a, B> = form::Collective<Span<'a, B>, Operator<'a, B>, &'a CallConfig>;

/// A send or a receive.
pub type Transfer<'a, B> = form::Transfer<Span<'a, B>>;

/// A put of part of a window.
pub type Put<'a, B> = form::Put<Span<'a, B>, form::Target>;

/// A reduction.
pub type Reduction<'a, B> = form::Reduction<Operator<'a, B>>;

type Operator<'a, B> = &'a <B as Lifecycle>::Operator;

/// Part of an allocation.
pub struct Span<'a, B: Backend> {
    allocation: &'a Arc<Allocation<B>>,
    offset: usize,
    len: usize,
}

impl<'a, B: Backend> Span<'a, B> {
    /// `len` elements from byte `offset`.
    ///
    /// # Safety
    /// They lie within the allocation and are aligned for their type, whatever type an operation
    /// gives them.
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

    /// The offset in bytes, aligned for the element type.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of elements.
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
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Span<'_, B> {}

impl<B: Backend> Span<'_, B> {
    /// Block `index` of blocks of `count` elements.
    ///
    /// # Safety
    /// The span has more than `index` such blocks, of elements of `dtype`.
    #[inline]
    pub(crate) unsafe fn nth(&self, index: Rank, count: usize, dtype: DType) -> Self {
        let offset = self.offset() + index.index() * count * dtype.size();
        // SAFETY: the block is part of the span, by the caller's promise.
        unsafe { Span::new(self.allocation(), offset, count) }
    }
}

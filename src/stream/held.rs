//! Memory held by a queue.

use std::sync::Arc;

use crate::Element;
use crate::backend::{Backend, Seen, Span};
use crate::memory::Allocation;

/// Part of an allocation, held by a queue.
#[doc(hidden)]
pub struct Held<B: Backend> {
    pub(crate) allocation: Arc<Allocation<B>>,
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl<B: Backend> From<Span<'_, B>> for Held<B> {
    fn from(span: Span<'_, B>) -> Self {
        let (allocation, offset, len) = (span.allocation().clone(), span.offset(), span.len());
        Self { allocation, offset, len }
    }
}

impl<B: Backend> Held<B> {
    pub(crate) fn seen<T: Element>(&self, write: bool) -> Seen<'_, B> {
        let (block, bytes) = (self.allocation.block(), self.len * size_of::<T>());
        Seen { block, offset: self.offset, bytes, write }
    }

    /// The elements, to read.
    ///
    /// # Safety
    /// As for [`crate::backend::Launches::view`].
    pub(super) unsafe fn view<T: Element>(&self) -> B::ViewOnceTheDeviceIsKnown<'_, T> {
        // SAFETY: the caller's promise.
        unsafe { B::view(self.allocation.block(), self.offset, self.len) }
    }

    /// The elements, to write.
    ///
    /// # Safety
    /// As for [`crate::backend::Launches::view_mut`].
    pub(super) unsafe fn view_mut<T: Element>(&self) -> B::ViewMutOnceTheDeviceIsKnown<'_, T> {
        // SAFETY: the caller's promise.
        unsafe { B::view_mut(self.allocation.block(), self.offset, self.len) }
    }
}

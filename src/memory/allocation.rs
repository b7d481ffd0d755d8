//! One allocation: memory, and the header that orders its uses.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use super::order::Order;
use crate::Result;
use crate::backend::{AllocKind, Backend};

/// A device allocation with the record of its uses. Shared by the buffer that owns it and by every
/// enqueued operation that holds it; goes back to the backend when the last of them lets go.
pub struct Allocation<B: Backend> {
    /// Taken by `drop` only.
    block: ManuallyDrop<B::Block>,
    ordinal: u32,
    pub(crate) order: Order<B>,
}

impl<B: Backend> Allocation<B> {
    pub(crate) fn new(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Arc<Self>> {
        let block = ManuallyDrop::new(B::alloc(ordinal, bytes, kind)?);
        Ok(Arc::new(Self { block, ordinal, order: Order::default() }))
    }

    /// The memory.
    #[inline]
    pub fn block(&self) -> &B::Block {
        &self.block
    }

    /// The device that it is on.
    #[inline]
    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }
}

impl<B: Backend> Drop for Allocation<B> {
    fn drop(&mut self) {
        // SAFETY: the block is taken here only, and nothing looks at it afterwards.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        B::retire(block, self.order.streams());
    }
}

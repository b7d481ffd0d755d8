//! One allocation: memory, and the header that orders its uses.

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use super::adopted::Owner;
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
    /// Of memory that is not ours: who keeps it, until it is given back.
    owner: Option<Box<Mutex<Option<Owner>>>>,
}

impl<B: Backend> Allocation<B> {
    pub(crate) fn new(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Arc<Self>> {
        let block = ManuallyDrop::new(B::alloc(ordinal, bytes, kind)?);
        Ok(Arc::new(Self { block, ordinal, order: Order::default(), owner: None }))
    }

    /// Memory that is somebody else's.
    pub(super) fn adopted(ordinal: u32, block: B::Block) -> Self {
        let block = ManuallyDrop::new(block);
        Self { block, ordinal, order: Order::default(), owner: Some(Box::default()) }
    }

    /// `owner` keeps the memory.
    pub(crate) fn own(&self, owner: Owner) {
        if let Some(known) = &self.owner {
            *known.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner);
        }
    }

    /// Gives the owner back, if it is of this type. Nothing uses the memory any more.
    pub(super) fn disown<O: 'static>(&self) -> Option<Box<O>> {
        let mut known = self.owner.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        match known.take()?.into_inner() {
            Ok(owner) => Some(owner),
            Err(other) => {
                *known = Some(other);
                None
            }
        }
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
        let streams = self.order.streams();
        match self.owner.take() {
            None => B::retire(block, streams),
            Some(owner) => {
                let owner = owner.into_inner().unwrap_or_else(PoisonError::into_inner);
                B::let_go(block, owner, streams);
            }
        }
    }
}

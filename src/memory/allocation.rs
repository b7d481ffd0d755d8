//! One allocation: memory, and the header that orders its uses.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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
    /// NCCL's allocator gave it.
    is_nccls: bool,
    /// Another library names it, or did.
    exported: AtomicBool,
    pub(crate) order: Order<B>,
    /// Of memory that is not ours.
    keeper: Option<Box<Keeper<B>>>,
}

/// What is known of memory that is not ours.
struct Keeper<B: Backend> {
    /// Who keeps it, until it is given back.
    owner: Mutex<Option<Owner>>,
    /// What orders the uses of others, who go on with it when the buffer is gone.
    theirs: Option<B::Stream>,
}

impl<B: Backend> Allocation<B> {
    pub(crate) fn new(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Arc<Self>> {
        let block = ManuallyDrop::new(B::alloc(ordinal, bytes, kind)?);
        let (exported, order) = (AtomicBool::new(false), Order::default());
        let is_nccls = kind == AllocKind::Nccl;
        Ok(Arc::new(Self { block, ordinal, is_nccls, exported, order, keeper: None }))
    }

    /// Memory that is somebody else's, and the stream by which they order their uses if they go on with
    /// it beside us.
    pub(crate) fn adopted(ordinal: u32, block: B::Block, theirs: Option<B::Stream>) -> Self {
        let block = ManuallyDrop::new(block);
        let (exported, order) = (AtomicBool::new(false), Order::default());
        let keeper = Some(Box::new(Keeper { owner: Mutex::default(), theirs }));
        Self { block, ordinal, is_nccls: false, exported, order, keeper }
    }

    /// Memory of NCCL's that is ours already, by a block of its own.
    pub(crate) fn alias(ordinal: u32, block: B::Block, theirs: Option<B::Stream>) -> Self {
        let mut alias = Self::adopted(ordinal, block, theirs);
        alias.is_nccls = true;
        alias
    }

    /// Whether NCCL's allocator gave it.
    pub(crate) fn is_nccls(&self) -> bool {
        self.is_nccls
    }

    /// `owner` keeps the memory.
    pub(crate) fn own(&self, owner: Owner) {
        if let Some(keeper) = &self.keeper {
            *keeper.owner.lock().unwrap_or_else(PoisonError::into_inner) = Some(owner);
        }
    }

    /// Gives the owner back, if it is of this type. Nothing uses the memory any more.
    pub(super) fn disown<O: 'static>(&self) -> Option<Box<O>> {
        let owner = &self.keeper.as_ref()?.owner;
        let mut known = owner.lock().unwrap_or_else(PoisonError::into_inner);
        match known.take()?.into_inner() {
            Ok(owner) => Some(owner),
            Err(other) => {
                *known = Some(other);
                None
            }
        }
    }

    /// Another library names it from now on.
    pub(crate) fn export(&self) {
        self.exported.store(true, Relaxed);
        if let Some(keeper) = &self.keeper
            && let Some(owner) = &mut *keeper.owner.lock().unwrap_or_else(PoisonError::into_inner)
        {
            owner.unclaim();
        }
    }

    /// The memory.
    #[inline]
    pub fn block(&self) -> &B::Block {
        &self.block
    }

    /// Where it starts, on its device.
    pub(crate) fn address(&self) -> *mut u8 {
        B::address(&self.block)
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
        let exported = *self.exported.get_mut();
        let Some(keeper) = self.keeper.take() else {
            return match exported {
                true => B::retire_exported(block, None, streams),
                false => B::retire(block, streams),
            };
        };
        match keeper.into_owner(&streams) {
            Some(owner) if exported => B::retire_exported(block, Some(owner), streams),
            owner => B::let_go(block, owner, streams),
        }
    }
}

impl<B: Backend> Keeper<B> {
    /// The owner, who is dropped when these streams have passed. Who goes on with the memory does so after
    /// them.
    fn into_owner(self, streams: &[B::Stream]) -> Option<Owner> {
        let mut owner = self.owner.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let (Some(owner), Some(theirs)) = (&mut owner, &self.theirs) {
            let after = |stream| B::point(stream).and_then(|point| B::wait_for(theirs, &point));
            match streams.iter().try_for_each(after) {
                Ok(()) => owner.unclaim(),
                Err(error) => {
                    log::warn!("what follows the use of a tensor is not ordered: {error}")
                }
            }
        }
        owner
    }
}

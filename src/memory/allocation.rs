//! One allocation: memory, and the header that orders its uses.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::order::Order;
use super::owner::Owner;
use crate::Result;
use crate::backend::{AllocKind, Backend};
use crate::lock::Mutex;

/// A device allocation with the record of its uses. Shared by the buffer that owns it and every
/// enqueued operation that holds it; it goes back to the backend with the last of them.
pub struct Allocation<B: Backend> {
    /// Taken only by `drop`.
    block: ManuallyDrop<B::Block>,
    ordinal: u32,
    /// How many bytes of the device's allocation lie before it.
    before: usize,
    /// Whether it came from NCCL's allocator.
    is_nccls: bool,
    /// Whether another library names it, or did.
    exported: AtomicBool,
    pub(crate) order: Order<B>,
    /// For memory that is owned elsewhere, and for parts.
    keeper: Option<Box<Keeper<B>>>,
}

/// The owner's side of memory that is owned elsewhere, or part of an allocation.
struct Keeper<B: Backend> {
    /// What this is a part of: never a part itself.
    whole: Option<Arc<Allocation<B>>>,
    /// The owner, until it is given back.
    owner: Mutex<Option<Owner>>,
    /// The stream that orders the owner's uses, if they continue after the buffer is gone.
    theirs: Option<B::Stream>,
}

impl<B: Backend> Allocation<B> {
    pub(crate) fn new(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Arc<Self>> {
        let block = ManuallyDrop::new(B::alloc(ordinal, bytes, kind)?);
        let (exported, order) = (AtomicBool::new(false), Order::default());
        let is_nccls = kind == AllocKind::Nccl;
        let (before, keeper) = (0, None);
        Ok(Arc::new(Self { block, ordinal, before, is_nccls, exported, order, keeper }))
    }

    /// Memory owned elsewhere, and the stream by which its owner orders uses if it keeps using the
    /// memory beside us.
    pub(crate) fn adopted(ordinal: u32, block: B::Block, theirs: Option<B::Stream>) -> Self {
        let block = ManuallyDrop::new(block);
        let (exported, order) = (AtomicBool::new(false), Order::default());
        let keeper = Some(Box::new(Keeper { whole: None, owner: Mutex::default(), theirs }));
        Self { block, ordinal, before: 0, is_nccls: false, exported, order, keeper }
    }

    /// A second allocation, with a block of its own, over NCCL memory that is already ours, with
    /// the number of bytes before it.
    pub(crate) fn alias(
        ordinal: u32,
        (block, before): (B::Block, usize),
        theirs: Option<B::Stream>,
    ) -> Self {
        let mut alias = Self::adopted(ordinal, block, theirs);
        (alias.is_nccls, alias.before) = (true, before);
        alias
    }

    /// `bytes` bytes from byte `at` on as an allocation of their own, whose uses come after those
    /// that are enqueued now. The memory lives as long as any part of it.
    ///
    /// # Errors
    /// The backend does not support it.
    ///
    /// # Safety
    /// The bytes are in this allocation, and no new use of it names them.
    pub(super) unsafe fn part(self: &Arc<Self>, at: usize, bytes: usize) -> Result<Arc<Self>> {
        // Parts of parts keep the whole, so that they do not form a chain.
        let whole = self.keeper.as_ref().and_then(|keeper| keeper.whole.as_ref()).unwrap_or(self);
        // SAFETY: the caller's promise. The part keeps the whole, and its order makes its uses come
        // after the present ones.
        let block = unsafe { B::alias(&self.block, at, bytes) }?;
        let keeper = Keeper { whole: Some(whole.clone()), owner: Mutex::default(), theirs: None };
        Ok(Arc::new(Self {
            block: ManuallyDrop::new(block),
            ordinal: self.ordinal,
            before: self.before + at,
            is_nccls: self.is_nccls,
            exported: AtomicBool::new(false),
            order: self.order.continued(),
            keeper: Some(Box::new(keeper)),
        }))
    }

    /// How many bytes of the device's allocation lie before it.
    pub(crate) fn before(&self) -> usize {
        self.before
    }

    /// Whether both are parts of one allocation.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let whole = |of: &Self| of.keeper.as_ref()?.whole.as_ref().map(Arc::as_ptr);
        whole(self).is_some_and(|own| whole(other) == Some(own))
    }

    /// Whether it came from NCCL's allocator.
    pub(crate) fn is_nccls(&self) -> bool {
        self.is_nccls
    }

    /// Whether it is owned elsewhere: when it is dropped, its owner's code runs.
    pub(crate) fn is_owned_elsewhere(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| match &keeper.whole {
            Some(whole) => whole.is_owned_elsewhere(),
            None => true,
        })
    }

    /// Makes `owner` keep the memory.
    pub(crate) fn own(&self, owner: Owner) {
        if let Some(keeper) = &self.keeper {
            *keeper.owner.lock() = Some(owner);
        }
    }

    /// Returns the owner, if it is of this type. Nothing uses the memory any more.
    pub(super) fn disown<O: 'static>(&self) -> Option<Box<O>> {
        let owner = &self.keeper.as_ref()?.owner;
        let mut known = owner.lock();
        match known.take()?.into_inner() {
            Ok(owner) => Some(owner),
            Err(other) => {
                *known = Some(other);
                None
            }
        }
    }

    /// Notes that another library names it from now on.
    pub(crate) fn export(&self) {
        self.exported.store(true, Relaxed);
        if let Some(keeper) = &self.keeper
            && let Some(owner) = &mut *keeper.owner.lock()
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
        // SAFETY: only this takes the block, and nothing looks at it afterwards.
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
    /// The owner, to be dropped when these streams have passed. Others' further uses come after
    /// them.
    fn into_owner(self, streams: &[B::Stream]) -> Option<Owner> {
        if let Some(whole) = self.whole {
            return Some(Owner::new(Box::new(whole), None));
        }
        let mut owner = self.owner.into_inner();
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

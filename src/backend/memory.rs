//! Memory on a device.

use super::{Owner, Streams};
use crate::Result;
use crate::error::{Error, Site, Unsupported};

/// Which allocator memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllocKind {
    /// The device's own.
    Plain,
    /// NCCL's (`ncclMemAlloc`), which can back a symmetric window.
    Nccl,
}

/// Memory on a device.
///
/// # Safety
/// A block that is allocated is `bytes` long, aligned to at least 16, and every byte is initialised and stays
/// readable and writable through the backend until the block is dropped. Dropping a block neither
/// blocks nor panics.
pub unsafe trait Memory: Sized + 'static {
    /// The device kind's name in messages: `host`.
    const KIND: &'static str;

    /// One allocation.
    type Block: Send + Sync + 'static;

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// It cannot be had.
    fn alloc(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Self::Block>;

    /// Copies from the device to the host, asked for at `site`; returns when it is done.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// `offset + bytes` is within the block, `to` is writable for `bytes`, and no enqueued
    /// operation writes the range meanwhile.
    unsafe fn read(
        block: &Self::Block,
        offset: usize,
        to: *mut u8,
        bytes: usize,
        site: Site,
    ) -> Result<()>;

    /// Copies from the host to the device, asked for at `site`; returns when it is done.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// `offset + bytes` is within the block, `from` is readable for `bytes`, and no enqueued
    /// operation touches the range meanwhile.
    unsafe fn write(
        block: &Self::Block,
        offset: usize,
        from: *const u8,
        bytes: usize,
        site: Site,
    ) -> Result<()>;

    /// A block over `bytes` bytes of somebody else's, aligned for their elements only.
    ///
    /// # Errors
    /// It has no such blocks.
    ///
    /// # Safety
    /// The bytes are on the device of that ordinal, initialised, and the block's alone until it goes to
    /// [`let_go`](Self::let_go); those of no elements are nowhere.
    unsafe fn adopt(ordinal: u32, start: *mut u8, bytes: usize) -> Result<Self::Block> {
        let _ = (ordinal, start, bytes);
        Err(Error::from(Unsupported {
            what: "memory of somebody else's".to_owned(),
            needs: "a device that can use it".to_owned(),
            found: format!("`{}` cannot", Self::KIND),
        }))
    }

    /// A block over the first `bytes` bytes of another one of NCCL's memory, which can back a window as
    /// that one can. It goes to [`let_go`](Self::let_go).
    ///
    /// # Errors
    /// It has no such blocks.
    ///
    /// # Safety
    /// There are so many bytes. The other block stays until this one's owner is dropped, and nothing uses
    /// it meanwhile.
    unsafe fn alias(block: &Self::Block, bytes: usize) -> Result<Self::Block> {
        let _ = (block, bytes);
        Err(Error::from(Unsupported {
            what: "a second buffer over NCCL's memory".to_owned(),
            needs: "a device that can use it".to_owned(),
            found: format!("`{}` cannot", Self::KIND),
        }))
    }

    /// [`retire`](Self::retire) for a block that another library named, or [`let_go`](Self::let_go) for one
    /// that has an owner: whatever the device does at this moment may still use it.
    fn retire_exported(block: Self::Block, owner: Option<Owner>, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        match owner {
            None => Self::retire(block, streams),
            Some(owner) => Self::let_go(block, Some(owner), streams),
        }
    }

    /// [`retire`](Self::retire) for a block of [`adopt`](Self::adopt) or [`alias`](Self::alias). Drops the owner when no work on
    /// the streams can use the block any more.
    fn let_go(block: Self::Block, owner: Option<Owner>, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        drop((block, streams));
        drop(owner);
    }

    /// Takes back a block that nobody names any more. Work enqueued on `streams` may still use it;
    /// nothing else does. Neither blocks nor panics. A backend whose queues hold what they use has
    /// nothing to do.
    fn retire(block: Self::Block, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        drop((block, streams));
    }
}

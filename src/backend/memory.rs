//! Memory on a device.

use super::{Owner, Streams};
use crate::Result;
use crate::error::{Site, Unsupported};

/// The allocator of memory.
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
/// An allocated block is `bytes` long and aligned to at least 16. Every byte is initialised, and
/// stays readable and writable through the backend until the block is dropped. Dropping a block
/// neither blocks nor panics.
pub unsafe trait Memory: Sized + 'static {
    /// The device kind's name in messages: `host`.
    const KIND: &'static str;

    /// One allocation.
    type Block: Send + Sync + 'static;

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// It cannot be allocated.
    fn alloc(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Self::Block>;

    /// Copies from the device to the host on behalf of the call at `site`; returns once the copy
    /// has completed.
    ///
    /// # Errors
    /// The device reports an error.
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

    /// Copies from the host to the device on behalf of the call at `site`; returns once the copy
    /// has completed.
    ///
    /// # Errors
    /// The device reports an error.
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

    /// The device of the memory at an address of another library's, where the backend can tell, else
    /// `expected`. `None`: it knows that none of its devices has it.
    fn whose(start: *mut u8, expected: u32) -> Option<u32> {
        let _ = start;
        Some(expected)
    }

    /// A block over `bytes` bytes of foreign memory, aligned only for their elements.
    ///
    /// # Errors
    /// The backend does not support it.
    ///
    /// # Safety
    /// The bytes are on the device of that ordinal, initialised, and used by nothing but the block
    /// until it is passed to [`let_go`](Self::let_go). With no bytes, `start` may be any address.
    unsafe fn adopt(ordinal: u32, start: *mut u8, bytes: usize) -> Result<Self::Block> {
        let _ = (ordinal, start, bytes);
        Err(Unsupported::error(
            "memory of somebody else's",
            "a device that can use it",
            format!("`{}` cannot", Self::KIND),
        ))
    }

    /// A block over `bytes` bytes of another block from byte `at` on, of the same kind of memory:
    /// it can back a window just as the other one. It ends with [`let_go`](Self::let_go).
    ///
    /// # Errors
    /// The backend does not support it.
    ///
    /// # Safety
    /// The other block has these bytes. It lives until this one's owner is dropped, and nothing uses
    /// these bytes of it meanwhile, except work that comes before all uses of this one.
    unsafe fn alias(block: &Self::Block, at: usize, bytes: usize) -> Result<Self::Block> {
        let _ = (block, at, bytes);
        Err(Unsupported::error(
            "a second buffer over the same memory",
            "a device that can use it",
            format!("`{}` cannot", Self::KIND),
        ))
    }

    /// Retires a block that was exported to another library, by [`retire`](Self::retire), or
    /// [`let_go`](Self::let_go) if it has an owner. Any work that is now on the device may still
    /// use it.
    fn retire_exported(block: Self::Block, owner: Option<Owner>, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        match owner {
            None => Self::retire(block, streams),
            Some(owner) => Self::let_go(block, Some(owner), streams),
        }
    }

    /// [`retire`](Self::retire) for a block from [`adopt`](Self::adopt) or [`alias`](Self::alias).
    /// Drops the owner once no work on the streams can use the block any more.
    fn let_go(block: Self::Block, owner: Option<Owner>, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        drop((block, streams));
        drop(owner);
    }

    /// Takes back a block that has no owner any more. Only work enqueued on `streams` may still use
    /// it. Neither blocks nor panics. A backend whose queues keep their operands alive has nothing
    /// to do.
    fn retire(block: Self::Block, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        drop((block, streams));
    }
}

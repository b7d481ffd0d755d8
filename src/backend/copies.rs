//! Copies in stream order.

use std::sync::Arc;

use super::{Allocation, Backend, Streams};
use crate::error::Site;
use crate::{DType, Result};

/// Copies in stream order: between pinned host memory and the device, and within the device.
///
/// # Safety
/// Pinned memory is `bytes` long, aligned to at least 16, initialised, and readable and writable
/// through its address until it is dropped. A copy runs after everything enqueued on the stream
/// before it and before everything enqueued later, and keeps the pinned memory alive until it has
/// completed.
pub unsafe trait Copies: Streams {
    /// Host memory that the device can copy from and to by itself.
    type Pinned: Send + Sync + 'static;

    /// Allocates zeroed pinned memory.
    ///
    /// # Errors
    /// It cannot be allocated.
    fn pin(ordinal: u32, bytes: usize) -> Result<Self::Pinned>;

    /// Its address.
    fn pinned_address(pinned: &Self::Pinned) -> *mut u8;

    /// Enqueues a copy of the first `bytes` bytes of `from` to byte `offset` of `to`, and returns
    /// the point after it. After an error nothing touches `from`.
    ///
    /// # Errors
    /// The device reports an error.
    ///
    /// # Safety
    /// Both ranges are in bounds; earlier uses of the allocation are ordered before; nothing
    /// touches `from` until the point is reached.
    unsafe fn upload(
        stream: &Self::Stream,
        from: &Arc<Self::Pinned>,
        to: &Arc<Allocation<Self>>,
        offset: usize,
        bytes: usize,
        site: Site,
    ) -> Result<Self::Point>
    where
        Self: Backend;

    /// Enqueues a copy of `bytes` bytes from byte `offset` of `from` to the start of `to`, and
    /// returns the point after it. After an error nothing touches `to`.
    ///
    /// # Errors
    /// The device reports an error.
    ///
    /// # Safety
    /// As [`upload`](Self::upload), with `from` and `to` exchanged.
    unsafe fn download(
        stream: &Self::Stream,
        from: &Arc<Allocation<Self>>,
        offset: usize,
        to: &Arc<Self::Pinned>,
        bytes: usize,
        site: Site,
    ) -> Result<Self::Point>
    where
        Self: Backend;

    /// Enqueues a copy of `bytes` bytes within the device, between these byte offsets.
    ///
    /// # Errors
    /// The device reports an error.
    ///
    /// # Safety
    /// Both ranges are in bounds and disjoint; earlier uses of both allocations are ordered before.
    unsafe fn copy(
        stream: &Self::Stream,
        from: (&Arc<Allocation<Self>>, usize),
        to: (&Arc<Allocation<Self>>, usize),
        bytes: usize,
        site: Site,
    ) -> Result<()>
    where
        Self: Backend;

    /// Prepares to convert between two different types. May block.
    ///
    /// # Errors
    /// The device reports an error.
    fn can_convert(stream: &Self::Stream, from: DType, to: DType) -> Result<()> {
        let _ = (stream, from, to);
        Ok(())
    }

    /// Enqueues a conversion of `count` elements within the device, between these byte offsets.
    ///
    /// # Errors
    /// The device reports an error.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy); each start is aligned for its type.
    unsafe fn convert(
        stream: &Self::Stream,
        from: (&Arc<Allocation<Self>>, usize, DType),
        to: (&Arc<Allocation<Self>>, usize, DType),
        count: usize,
        site: Site,
    ) -> Result<()>
    where
        Self: Backend;

    /// Enqueues writing the first `size` bytes of `value` (1, 2, 4 or 8) `count` times, from this
    /// byte offset.
    ///
    /// # Errors
    /// The device reports an error.
    ///
    /// # Safety
    /// The range is in bounds and aligned to `size`; earlier uses of the allocation are ordered
    /// before.
    unsafe fn fill(
        stream: &Self::Stream,
        to: (&Arc<Allocation<Self>>, usize),
        value: [u8; 8],
        size: usize,
        count: usize,
        site: Site,
    ) -> Result<()>
    where
        Self: Backend;
}

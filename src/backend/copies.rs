//! Copies in stream order.

use std::sync::Arc;

use super::{Allocation, Backend, Streams};
use crate::error::Site;
use crate::{DType, Result};

/// Copies in stream order, between pinned host memory and the device and within the device.
///
/// # Safety
/// Pinned memory is `bytes` long, aligned to at least 16, initialised, and readable and writable
/// through its address until it is dropped. A copy touches it after everything enqueued before and
/// before what is enqueued later on the stream, and holds it until it is done.
pub unsafe trait Copies: Streams {
    /// Host memory that the device copies from and to by itself.
    type Pinned: Send + Sync + 'static;

    /// Allocates zeroed pinned memory.
    ///
    /// # Errors
    /// It cannot be had.
    fn pin(ordinal: u32, bytes: usize) -> Result<Self::Pinned>;

    /// Its address.
    fn pinned_address(pinned: &Self::Pinned) -> *mut u8;

    /// Enqueues a copy of the first `bytes` bytes of `from` to byte `offset` of `to`, and gives the
    /// point behind it. After an error nothing touches `from`.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// Both ranges are inside; the allocation's earlier uses are ordered before; nobody touches
    /// `from` until the point is reached.
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

    /// Enqueues a copy of `bytes` bytes from byte `offset` of `from` to the start of `to`, and gives
    /// the point behind it. After an error nothing touches `to`.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// As [`upload`](Self::upload), the other way round.
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

    /// Enqueues a copy of `bytes` bytes within the device, from and to these bytes on.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// Both ranges are inside, and apart; both allocations' earlier uses are ordered before.
    unsafe fn copy(
        stream: &Self::Stream,
        from: (&Arc<Allocation<Self>>, usize),
        to: (&Arc<Allocation<Self>>, usize),
        bytes: usize,
        site: Site,
    ) -> Result<()>
    where
        Self: Backend;

    /// Gets ready to convert between these types, which are not the same; it may wait.
    ///
    /// # Errors
    /// The device reports one.
    fn can_convert(stream: &Self::Stream, from: DType, to: DType) -> Result<()> {
        let _ = (stream, from, to);
        Ok(())
    }

    /// Enqueues converting `count` elements within the device, from and to these bytes on.
    ///
    /// # Errors
    /// The device reports one.
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

    /// Enqueues writing `count` times the first `size` bytes of `value` (1, 2, 4 or 8) from this byte on.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// The range is inside and aligned to `size`; the allocation's earlier uses are ordered before.
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

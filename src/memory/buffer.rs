//! Buffers: owned device memory with an element type.

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::slice::Extent;
use super::{Allocation, DeviceMem, Slice, SliceMut};
use crate::backend::{AllocKind, Backend, Memory};
use crate::derived::debug;
use crate::error::{BadLength, Error, Overflow, Site};
use crate::one_thread::{SeveralThreads, ShareBuffer};
use crate::{DType, Device, Element, Result, wait};

/// `len` elements of type `T` on device `D`, in memory of kind `M`.
///
/// It is usable with every communicator on its device. Operations on it run in the order in which
/// they were enqueued, on any streams; dropping it neither waits nor frees memory that an enqueued
/// operation still needs. `Send`, not `Sync`.
///
/// ```
/// # use typed_nccl::{Host, Result};
/// # fn main() -> Result<()> {
/// let device = Host::local()?;
/// let mut x = device.from_slice(&[1.0_f32, 2.0])?;
/// x.slice_mut(1..2).copy_from(&[5.0])?;
/// assert_eq!(x.to_vec()?, [1.0, 5.0]);
/// # Ok(())
/// # }
/// ```
pub struct Buffer<T, D: Device, M = DeviceMem> {
    allocation: Arc<Allocation<D::Backend>>,
    len: usize,
    types: PhantomData<fn() -> (T, M)>,
}

impl<T: Element, D: Device, M> Buffer<T, D, M> {
    #[track_caller]
    pub(crate) fn alloc(ordinal: u32, len: usize, kind: AllocKind) -> Result<Self> {
        let allocation = allocate(ordinal, T::DTYPE, len, kind, Site::caller())?;
        Ok(Self { allocation, len, types: PhantomData })
    }

    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A shared view of `range`. A range past the end is refused by the operation that uses it.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Slice<'_, T, D> {
        self.all().slice(range)
    }

    /// An exclusive view of `range`. A range past the end is refused by the operation that uses it.
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> SliceMut<'_, T, D> {
        self.all_mut().into_slice(range)
    }

    /// A shared view of all of it.
    #[inline]
    pub fn all(&self) -> Slice<'_, T, D> {
        Slice::new(&self.allocation, Extent::whole(self.len))
    }

    /// An exclusive view of all of it.
    #[inline]
    pub fn all_mut(&mut self) -> SliceMut<'_, T, D> {
        SliceMut::new(&self.allocation, Extent::whole(self.len))
    }

    /// Disjoint exclusive views of consecutive parts, by their lengths:
    /// `let [ghost, inner] = x.parts_mut([h, n - h]);`
    #[track_caller]
    pub fn parts_mut<const N: usize>(&mut self, lengths: [usize; N]) -> [SliceMut<'_, T, D>; N] {
        self.all_mut().into_parts(lengths)
    }

    /// Copies the elements to the host. The host waits for enqueued writes of them, within the
    /// deadlines of the communicators that used those streams.
    ///
    /// # Errors
    /// What went wrong on those streams, once; a passed deadline; an abort. If the communicator
    /// ended before it wrote the memory, each call says so until the memory is written again.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.all().to_vec()
    }

    /// Copies the elements to `out`, of the same length. Waits as [`to_vec`](Self::to_vec) does.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec); [`Error::BadLength`] when the lengths differ.
    #[track_caller]
    pub fn copy_to(&self, out: &mut [T]) -> Result<()> {
        self.all().copy_to(out)
    }

    /// Overwrites the elements with `values` of the host, of the same length. The host waits for
    /// enqueued uses of them. [`Stream::copy`](crate::Stream::copy) copies between buffers.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec); [`Error::BadLength`] when the lengths differ.
    #[track_caller]
    pub fn copy_from(&mut self, values: &[T]) -> Result<()> {
        let site = Site::caller();
        wait::not_captured("copy_from", site)?;
        // Data that never came is overwritten.
        if self.all_mut().put(values, site)? {
            self.allocation.order.forget();
        }
        Ok(())
    }

    /// [`copy_from`](Self::copy_from) for a buffer that nothing has used, so that nothing waits.
    #[track_caller]
    pub(crate) fn initialise(&mut self, values: &[T]) -> Result<()> {
        self.all_mut().put(values, Site::caller()).map(drop)
    }

    /// A buffer of an allocation that nothing else owns.
    pub(crate) fn from_allocation(allocation: Arc<Allocation<D::Backend>>, len: usize) -> Self {
        Self { allocation, len, types: PhantomData }
    }

    #[inline]
    pub(crate) fn allocation(&self) -> &Arc<Allocation<D::Backend>> {
        &self.allocation
    }
}

/// Allocates `len` zeroed elements.
pub(crate) fn allocate<B: Backend>(
    ordinal: u32,
    dtype: DType,
    len: usize,
    kind: AllocKind,
    site: Site,
) -> Result<Arc<Allocation<B>>> {
    Allocation::new(ordinal, Overflow::unless_fits("alloc", len, dtype, site)?, kind)
}

// SAFETY: never applies: nothing implements `ShareBuffer`, and no other crate can.
unsafe impl<T, D: Device, M> Sync for Buffer<T, D, M> where SeveralThreads: ShareBuffer<Self> {}

/// Copies to the host, for every view.
pub(super) fn read<T: Element, D: Device>(
    allocation: &Allocation<D::Backend>,
    offset: usize,
    out: &mut [T],
    operation: &'static str,
    site: Site,
) -> Result<()> {
    wait::not_captured(operation, site)?;
    let (points, _turn) = allocation.order.points_in_turn(false)?;
    wait::for_data(&points, operation, site)?;
    // SAFETY: the view's extent was checked against the allocation; `out` is writable for its own
    // size, and every bit pattern is a `T`. All writers were waited for, and no other thread can
    // enqueue a new one: that takes the buffer, which is not `Sync` and is borrowed here, or a
    // graph, whose launch waits for the turn's end.
    unsafe {
        <D::Backend as Memory>::read(
            allocation.block(),
            offset,
            out.as_mut_ptr().cast(),
            size_of_val(out),
            site,
        )
    }
}

/// Copies from the host, for every view; true if some earlier use never happened.
pub(super) fn write<T: Element, D: Device>(
    allocation: &Allocation<D::Backend>,
    offset: usize,
    values: &[T],
    operation: &'static str,
    site: Site,
) -> Result<bool> {
    let (points, _turn) = allocation.order.points_in_turn(true)?;
    wait::until(&points, None, operation, site)?;
    // SAFETY: as in `read`; all users were waited for, and the view is exclusive.
    unsafe {
        <D::Backend as Memory>::write(
            allocation.block(),
            offset,
            values.as_ptr().cast(),
            size_of_val(values),
            site,
        )?;
    }
    Ok(wait::undone(&points).is_some())
}

/// The error of a host copy whose lengths differ.
#[cold]
pub(super) fn host_length<T: Element>(
    operation: &'static str,
    found: usize,
    needed: usize,
    site: Site,
) -> Error {
    let because = "the host slice's elements";
    BadLength::new(operation, "device", T::DTYPE, (found, needed), because, site).into()
}

debug!(
    [T: Element, D: Device, M] Buffer<T, D, M>,
    self => "Buffer of {} {} on {}:{}", self.len, T::DTYPE, D::KIND, self.allocation.ordinal()
);

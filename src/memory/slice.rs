//! Views of buffers.
//!
//! Making a view checks nothing, so that `x.slice(a..b)` fits into a call; a range past the end is
//! remembered and refused by the operation that uses the view. Nothing panics and nothing is lost.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::{Allocation, buffer};
use crate::backend::{Backend, Span};
use crate::derived::{copy, debug};
use crate::error::{BadRange, Error, Site};
use crate::one_thread::{AnotherThread, UseView};
use crate::{Device, Element, Result, element, wait};

/// A range of elements in an allocation, or the range that did not fit.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Extent {
    start: usize,
    len: usize,
    bad: Option<BadRange>,
}

impl Extent {
    #[inline]
    pub(crate) fn whole(len: usize) -> Self {
        Self { start: 0, len, bad: None }
    }

    #[track_caller]
    pub(crate) fn narrow(self, range: impl RangeBounds<usize>) -> Self {
        if self.bad.is_some() {
            return self;
        }
        // A bound past `usize::MAX` stays there, which is past every buffer's end.
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            // A start past the end is named alone.
            Bound::Unbounded => self.len.max(start),
        };
        if start <= end && end <= self.len {
            return Self { start: self.start + start, len: end - start, bad: None };
        }
        let bad = BadRange { start, end, len: self.len, site: Site::caller() };
        Self { len: 0, bad: Some(bad), ..self }
    }

    /// The elements' place in an allocation of elements of `size` bytes.
    ///
    /// # Safety
    /// The extent was made for the allocation's length in such elements.
    #[inline]
    pub(crate) unsafe fn span<B: Backend>(
        self,
        allocation: &Arc<Allocation<B>>,
        size: usize,
    ) -> Result<Span<'_, B>, BadRange> {
        let (start, len) = self.checked()?;
        // SAFETY: an extent that is not bad lies inside the length it was made for.
        Ok(unsafe { Span::new(allocation, start * size, len) })
    }

    /// The start and length in elements.
    #[inline]
    pub(crate) fn checked(self) -> Result<(usize, usize), BadRange> {
        match self.bad {
            None => Ok((self.start, self.len)),
            Some(bad) => Err(bad),
        }
    }
}

/// A shared view of part of a [`Buffer`](crate::Buffer). Stays on its thread.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat, Sum};
/// # fn main() -> Result<()> {
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let x = comm.device().from_slice(&[1.0_f32, 2.0, 3.0])?;
/// let mut sum = comm.device().zeros::<f32>(2)?;
/// comm.all_reduce(x.slice(1..3), &mut sum, Sum)?;
/// assert_eq!(sum.to_vec()?, [2.0, 3.0]);
/// # comm.finish()
/// # }
/// ```
pub struct Slice<'a, T, D: Device> {
    allocation: &'a Arc<Allocation<D::Backend>>,
    extent: Extent,
    types: PhantomData<fn() -> (T, D)>,
}

/// An exclusive view of part of a [`Buffer`](crate::Buffer). Stays on its thread.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat};
/// # fn main() -> Result<()> {
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let x = comm.device().from_slice(&[7_i32; 2])?;
/// let mut y = comm.device().zeros::<i32>(4)?;
/// let (first, second) = y.slice_mut(0..4).split_at_mut(2);
/// comm.group(|g| {
///     g.send(&x, 0)?;
///     g.recv(second, 0)
/// })?;
/// # drop(first);
/// assert_eq!(y.to_vec()?, [0, 0, 7, 7]);
/// # comm.finish()
/// # }
/// ```
pub struct SliceMut<'a, T, D: Device> {
    allocation: &'a Arc<Allocation<D::Backend>>,
    extent: Extent,
    types: PhantomData<fn() -> &'a mut [T]>,
}

macro_rules! views {
    ($($View:ident),+) => { $(
        impl<'a, T: Element, D: Device> $View<'a, T, D> {
            #[inline]
            pub(crate) fn new(allocation: &'a Arc<Allocation<D::Backend>>, extent: Extent) -> Self {
                Self { allocation, extent, types: PhantomData }
            }

            /// The same view under another type of the same device.
            pub(crate) fn on<E: Device<Backend = D::Backend>>(self) -> $View<'a, T, E> {
                $View::new(self.allocation, self.extent)
            }

            #[inline]
            pub(crate) fn into_place(self) -> (&'a Arc<Allocation<D::Backend>>, Extent) {
                (self.allocation, self.extent)
            }

            /// The number of elements; 0 for a range past the end.
            pub fn len(&self) -> usize {
                self.extent.len
            }

            /// Whether it has no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    )+ };
}

views!(Slice, SliceMut);

impl<'a, T: Element, D: Device> Slice<'a, T, D> {
    /// The place of the elements, for as long as the view's own loan.
    #[inline]
    pub(crate) fn into_span(self) -> Result<Span<'a, D::Backend>, BadRange> {
        // SAFETY: a view's extent comes from its buffer's length, in elements of `T`.
        unsafe { self.extent.span(self.allocation, size_of::<T>()) }
    }

    /// A view of part of this view.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        Self::new(self.allocation, self.extent.narrow(range))
    }

    /// Copies the elements to the host; see [`Buffer::to_vec`](crate::Buffer::to_vec).
    ///
    /// # Errors
    /// As there; [`Error::BadRange`] for a range past the end.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let site = Site::caller();
        let (start, len) = self.checked()?;
        let mut out = vec![element::zero::<T>(); len];
        buffer::read::<T, D>(self.allocation, start * size_of::<T>(), &mut out, "to_vec", site)?;
        Ok(out)
    }

    /// Copies the elements to `out`; see [`Buffer::copy_to`](crate::Buffer::copy_to).
    ///
    /// # Errors
    /// As there; [`Error::BadRange`] for a range past the end.
    #[track_caller]
    pub fn copy_to(&self, out: &mut [T]) -> Result<()> {
        let site = Site::caller();
        let (start, len) = self.checked()?;
        if out.len() != len {
            return Err(buffer::host_length::<T>("copy_to", len, out.len(), site));
        }
        buffer::read::<T, D>(self.allocation, start * size_of::<T>(), out, "copy_to", site)
    }

    fn checked(&self) -> Result<(usize, usize)> {
        self.extent.checked().map_err(Error::from)
    }
}

impl<T: Element, D: Device> SliceMut<'_, T, D> {
    #[inline]
    pub(crate) fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        (self.allocation, self.extent)
    }

    /// A shared view of the same elements, for as long as this view is borrowed.
    pub fn as_slice(&self) -> Slice<'_, T, D> {
        Slice::new(self.allocation, self.extent)
    }

    /// A shorter loan of the same view.
    pub fn reborrow(&mut self) -> SliceMut<'_, T, D> {
        SliceMut::new(self.allocation, self.extent)
    }

    /// An exclusive view of part of this view.
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> SliceMut<'_, T, D> {
        self.reborrow().into_slice(range)
    }

    /// Narrows this view.
    #[track_caller]
    pub fn into_slice(self, range: impl RangeBounds<usize>) -> Self {
        Self::new(self.allocation, self.extent.narrow(range))
    }

    /// Two disjoint views: the first `mid` elements, and the rest.
    #[track_caller]
    pub fn split_at_mut(self, mid: usize) -> (Self, Self) {
        let rest = self.extent.narrow(mid..self.extent.len);
        (Self::new(self.allocation, self.extent.narrow(0..mid)), Self::new(self.allocation, rest))
    }

    /// Disjoint views of consecutive parts, by their lengths.
    #[track_caller]
    pub fn into_parts<const N: usize>(self, lengths: [usize; N]) -> [Self; N] {
        let mut start = 0_usize;
        lengths.map(|len| {
            let range = start..start.saturating_add(len);
            start = range.end;
            Self::new(self.allocation, self.extent.narrow(range))
        })
    }

    /// Copies the elements to the host; see [`Buffer::to_vec`](crate::Buffer::to_vec).
    ///
    /// # Errors
    /// As there; [`Error::BadRange`] for a range past the end.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// Overwrites the elements; see [`Buffer::copy_from`](crate::Buffer::copy_from).
    ///
    /// # Errors
    /// As there; [`Error::BadRange`] for a range past the end.
    #[track_caller]
    pub fn copy_from(&mut self, values: &[T]) -> Result<()> {
        let site = Site::caller();
        wait::not_captured("copy_from", site)?;
        self.put(values, site).map(drop)
    }

    /// True if some earlier use never happened.
    pub(super) fn put(&mut self, values: &[T], site: Site) -> Result<bool> {
        let (start, len) = self.extent.checked()?;
        if values.len() != len {
            return Err(buffer::host_length::<T>("copy_from", len, values.len(), site));
        }
        buffer::write::<T, D>(self.allocation, start * size_of::<T>(), values, "copy_from", site)
    }
}

// SAFETY: never applies: nothing implements `UseView`, and no other crate can.
unsafe impl<T, D: Device> Send for Slice<'_, T, D> where AnotherThread: UseView<Self> {}

// SAFETY: as for `Send`.
unsafe impl<T, D: Device> Sync for Slice<'_, T, D> where AnotherThread: UseView<Self> {}

// SAFETY: as for `Slice`.
unsafe impl<T, D: Device> Send for SliceMut<'_, T, D> where AnotherThread: UseView<Self> {}

// SAFETY: as for `Slice`.
unsafe impl<T, D: Device> Sync for SliceMut<'_, T, D> where AnotherThread: UseView<Self> {}

copy!([T, D: Device] Slice<'_, T, D>);

debug!([T: Element, D: Device] Slice<'_, T, D>, self => "Slice of {} {}", self.len(), T::DTYPE);

debug!(
    [T: Element, D: Device] SliceMut<'_, T, D>,
    self => "SliceMut of {} {}", self.len(), T::DTYPE
);

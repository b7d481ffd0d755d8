//! Views whose data type is known at run time.

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::buffer::checked;
use crate::derived::{copy, debug};
use crate::error::Site;
use crate::memory::{Allocation, Extent, RecordRead, RecordWrite, Recorded};
use crate::one_thread::{AnotherThread, UseView};
use crate::{DType, Device, Element, Readable, Result, Slice, SliceMut, Writable};

/// A shared view of elements whose data type is a value: part of a [`DynBuffer`](crate::DynBuffer),
/// or a tensor lent by [`lend`](Device::lend). Stays on its thread.
///
/// ```
/// # use typed_nccl::{DType, DynBuffer, DynSlice, DynSliceMut, Host};
/// let mut x = DynBuffer::zeros(&Host::local()?, DType::I32, 4)?;
/// let mut part: DynSliceMut<'_, Host> = x.slice_mut(1..3);
/// part.typed::<i32>()?.copy_from(&[7, 8])?;
/// let all: DynSlice<'_, Host> = x.slice(..);
/// assert_eq!((all.dtype(), all.typed::<i32>()?.to_vec()?), (DType::I32, vec![0, 7, 8, 0]));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct DynSlice<'a, D: Device> {
    allocation: &'a Arc<Allocation<D::Backend>>,
    extent: Extent,
    dtype: DType,
    types: PhantomData<fn() -> Slice<'a, u8, D>>,
}

/// An exclusive view of elements whose data type is a value: part of a
/// [`DynBuffer`](crate::DynBuffer), or an exclusively borrowed tensor lent by
/// [`lend`](Device::lend). Stays on its thread.
///
/// See the example of [`DynSlice`].
pub struct DynSliceMut<'a, D: Device> {
    allocation: &'a Arc<Allocation<D::Backend>>,
    extent: Extent,
    dtype: DType,
    types: PhantomData<fn() -> SliceMut<'a, u8, D>>,
}

// SAFETY: never applies: nothing implements `UseView`, and no other crate can.
unsafe impl<D: Device> Send for DynSlice<'_, D> where AnotherThread: UseView<Self> {}

// SAFETY: as for `Send`.
unsafe impl<D: Device> Sync for DynSlice<'_, D> where AnotherThread: UseView<Self> {}

// SAFETY: never applies: nothing implements `UseView`, and no other crate can.
unsafe impl<D: Device> Send for DynSliceMut<'_, D> where AnotherThread: UseView<Self> {}

// SAFETY: as for `Send`.
unsafe impl<D: Device> Sync for DynSliceMut<'_, D> where AnotherThread: UseView<Self> {}

impl<'a, D: Device> DynSlice<'a, D> {
    /// A view of part of this view. A range past the end is refused by the operation that uses it.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        Self { extent: self.extent.narrow(range), ..*self }
    }

    /// The same elements under their type, if that is `T`.
    ///
    /// # Errors
    /// [`Error::OtherDType`](crate::Error::OtherDType).
    #[track_caller]
    pub fn typed<T: Element>(&self) -> Result<Slice<'a, T, D>> {
        checked::<T>("typed", self.dtype, Site::caller())?;
        Ok(Slice::new(self.allocation, self.extent))
    }
}

impl<D: Device> DynSliceMut<'_, D> {
    /// A shared view of the same elements, for as long as this view is borrowed.
    pub fn as_slice(&self) -> DynSlice<'_, D> {
        DynSlice::new(self.allocation, self.extent, self.dtype)
    }

    /// A shorter loan of the same view.
    pub fn reborrow(&mut self) -> DynSliceMut<'_, D> {
        DynSliceMut::new(self.allocation, self.extent, self.dtype)
    }

    /// An exclusive view of part of this view. A range past the end is refused by the operation
    /// that uses it.
    #[track_caller]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> DynSliceMut<'_, D> {
        DynSliceMut::new(self.allocation, self.extent.narrow(range), self.dtype)
    }

    /// The same elements under their type, if that is `T`.
    ///
    /// # Errors
    /// [`Error::OtherDType`](crate::Error::OtherDType).
    #[track_caller]
    pub fn typed<T: Element>(&mut self) -> Result<SliceMut<'_, T, D>> {
        checked::<T>("typed", self.dtype, Site::caller())?;
        Ok(SliceMut::new(self.allocation, self.extent))
    }
}

macro_rules! views {
    ($($view:ident: $record:ident),+) => { $(
        impl<'a, D: Device> $view<'a, D> {
            /// The extent is in elements of that type.
            pub(crate) fn new(
                allocation: &'a Arc<Allocation<D::Backend>>,
                extent: Extent,
                dtype: DType,
            ) -> Self {
                Self { allocation, extent, dtype, types: PhantomData }
            }

            /// The data type.
            pub fn dtype(&self) -> DType {
                self.dtype
            }

            /// How many elements; 0 for a range past the end.
            pub fn len(&self) -> usize {
                self.extent.checked().map_or(0, |(_, len)| len)
            }

            /// Whether it has no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        #[diagnostic::do_not_recommend]
        impl<D: Device> Readable<D> for $view<'_, D> {
            fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
                (self.allocation, self.extent)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<'e, D: Device> $record<'e, D> for $view<'e, D> {
            fn recorded(self) -> Recorded<'e, D::Backend> {
                Recorded::new((self.allocation, self.extent), self.dtype)
            }
        }

        debug!(
            [D: Device] $view<'_, D>,
            self => "{} of {} {}", stringify!($view), self.len(), self.dtype
        );
    )+ };
}

views!(DynSlice: RecordRead, DynSliceMut: RecordWrite);

#[diagnostic::do_not_recommend]
impl<D: Device> Writable<D> for DynSliceMut<'_, D> {}

copy!([D: Device] DynSlice<'_, D>);

//! Operands of a group, borrowed until it is issued.

use std::ops::Range;
use std::sync::Arc;

use super::{Allocation, Extent};
use crate::backend::{Backend, Span};
use crate::error::BadRange;
use crate::{DType, Device, Element, Elements, Readable, Slice, SliceMut, Writable};

/// Memory that a group on `D` may read: `&buffer`, `&window`, and shared views by value. Sealed.
///
/// ```
/// # use typed_nccl::{Group, Host, RecordRead, RecordWrite, Result, Seat, World};
/// # fn main() -> Result<()> {
/// fn pass<'e, W: World>(
///     g: &mut Group<'e, W>,
///     x: impl RecordRead<'e, W::Device>,
///     y: impl RecordWrite<'e, W::Device>,
/// ) -> Result<()> {
///     g.send(x, g.ring(1))?;
///     g.recv(y, g.ring(-1))
/// }
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// # let (x, mut y) = (comm.device().zeros::<i8>(4)?, comm.device().zeros::<i8>(2)?);
/// comm.group(|g| pass(g, x.slice(0..2), &mut y))?;
/// # comm.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "a group on `{D}` cannot read `{Self}`",
    label = "this lives on another device, is taken by value or by `&mut`, or is no device memory",
    note = "NCCL does not check this: it would read the other device's memory, or hang",
    note = "record `&buffer`, `&window` or a view by value, allocated with `comm.device()`; host values are copied there with `from_slice`; a lane records the views that it was handed"
)]
pub trait RecordRead<'e, D: Device>: Elements<Device = D> {
    /// The place of the elements, for as long as the group's loan.
    #[doc(hidden)]
    fn recorded(self) -> Recorded<'e, D::Backend>;
}

/// Memory that a group on `D` may write: `&mut buffer`, `&mut window`, and exclusive views by
/// value. Sealed.
///
/// See the example of [`RecordRead`].
#[diagnostic::on_unimplemented(
    message = "a group on `{D}` cannot write into `{Self}`",
    label = "this lives on another device, is shared or taken by value, or is no device memory",
    note = "NCCL does not check this: it would write the other device's memory, or hang",
    note = "record `&mut buffer`, `&mut window` or a view from `slice_mut` by value, allocated with `comm.device()`; host values are copied there with `from_slice`; a lane records the views that it was handed"
)]
pub trait RecordWrite<'e, D: Device>: Elements<Device = D> {
    /// The place of the elements, for as long as the group's loan.
    #[doc(hidden)]
    fn recorded(self) -> Recorded<'e, D::Backend>;
}

/// An operand without its types.
pub struct Recorded<'e, B: Backend> {
    allocation: &'e Arc<Allocation<B>>,
    extent: Extent,
    dtype: DType,
}

impl<'e, B: Backend> Recorded<'e, B> {
    #[inline]
    pub(crate) fn new(
        (allocation, extent): (&'e Arc<Allocation<B>>, Extent),
        dtype: DType,
    ) -> Self {
        Self { allocation, extent, dtype }
    }

    /// The data type, as a value.
    #[inline]
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// The place of the elements.
    #[inline]
    pub(crate) fn span(&self) -> Result<Span<'e, B>, BadRange> {
        // SAFETY: all three came from one operand.
        unsafe { self.extent.span(self.allocation, self.dtype.size()) }
    }

    /// The number of elements; 0 for a range past the end.
    pub(crate) fn len(&self) -> usize {
        self.extent.checked().map_or(0, |(_, len)| len)
    }

    /// Part of it. Callers keep parts of a written operand disjoint.
    #[track_caller]
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        Self { extent: self.extent.narrow(range), ..*self }
    }
}

#[diagnostic::do_not_recommend]
impl<'e, D: Device, A: Readable<D>> RecordRead<'e, D> for &'e A {
    #[inline]
    fn recorded(self) -> Recorded<'e, D::Backend> {
        Recorded::new(self.place(), self.dtype())
    }
}

#[diagnostic::do_not_recommend]
impl<'e, T: Element, D: Device> RecordRead<'e, D> for Slice<'e, T, D> {
    #[inline]
    fn recorded(self) -> Recorded<'e, D::Backend> {
        Recorded::new(self.into_place(), T::DTYPE)
    }
}

#[diagnostic::do_not_recommend]
impl<'e, D: Device, A: Writable<D>> RecordWrite<'e, D> for &'e mut A {
    #[inline]
    fn recorded(self) -> Recorded<'e, D::Backend> {
        let dtype = self.dtype();
        Recorded::new(Readable::place(self), dtype)
    }
}

#[diagnostic::do_not_recommend]
impl<'e, T: Element, D: Device> RecordWrite<'e, D> for SliceMut<'e, T, D> {
    #[inline]
    fn recorded(self) -> Recorded<'e, D::Backend> {
        Recorded::new(self.into_place(), T::DTYPE)
    }
}

//! Operands as they are passed to calls, groups and captures.
//!
//! An operand that is read is `&buffer`, or a shared view by value or by reference. One that is
//! written is `&mut buffer` or `&mut view` in a call, which borrows it for the call: a reference
//! that the caller has stays its own. A group keeps what it writes until it is issued, and so also
//! takes exclusive views by value.

use std::ops::Range;
use std::sync::Arc;

use super::{Allocation, Extent};
use crate::backend::{Backend, Span};
use crate::error::BadRange;
use crate::{Buffer, DType, Device, Element, Elements, Readable, Slice, SliceMut, Writable};

/// An operand that a communicator on `D` reads: `&x` of a buffer, a window or a view, or a shared
/// view by value. Sealed.
///
/// ```
/// # use typed_nccl::{Communicator, Group, Host, RecordRead, RecordWrite, Result, Seat, World};
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
/// comm.all_gather(x.slice(2..4), &mut y)?; // calls take the same
/// # comm.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator on `{D}` cannot read `{Self}`",
    label = "this lives on another device, or is not device memory",
    note = "NCCL does not check this: it would read the other device's memory, or hang",
    note = "pass `&x` of a buffer, a window or a view, or a shared view by value; allocate with `comm.device()`, and copy host values there with `from_slice`; in `clique.group`, a lane records the views that it was handed; the memory of a `SharedWindow` is that of the window that it was made of",
    note = "of a guard, pass `&*guard`; of a list, one buffer at a time, in one `comm.group(..)`"
)]
pub trait RecordRead<'e, D: Device>: Elements<Device = D> {
    /// The place of the elements, for as long as their loan.
    #[doc(hidden)]
    fn recorded(self) -> Recorded<'e, D::Backend>;
}

/// An operand that a group on `D` writes: `&mut x` of a buffer, a window or a view, or an exclusive
/// view by value. Sealed.
///
/// See the example of [`RecordRead`].
#[diagnostic::on_unimplemented(
    message = "a communicator on `{D}` cannot write into `{Self}`",
    label = "this is shared, is taken by value, lives on another device, or is not device memory",
    note = "NCCL does not check whose memory this is: it would write the wrong memory, or hang",
    note = "pass `&mut x` of a buffer, a window or a view, or a view from `slice_mut` by value; allocate with `comm.device()`, and copy host values there with `from_slice`; in `clique.group`, a lane records the views that it was handed",
    note = "of a guard, pass `&mut *guard`; of a list, one buffer at a time, in one `comm.group(..)`"
)]
pub trait RecordWrite<'e, D: Device>: Elements<Device = D> {
    /// The place of the elements, for as long as their loan.
    #[doc(hidden)]
    fn recorded(self) -> Recorded<'e, D::Backend>;
}

/// What reads and writes memory, and leaves it to its owner.
#[derive(Debug)]
pub struct EveryOperation(());

/// Says why a buffer `B` is not passed by value. Nothing implements it.
#[diagnostic::on_unimplemented(
    message = "`{B}` is passed by reference: write `&x`",
    label = "this would give the buffer away: put `&` before it",
    note = "only views are passed by value, as in `x.slice(0..4)`"
)]
pub trait TakeByValue<B> {
    #[doc(hidden)]
    fn never(buffer: B) -> !;
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

// Recommended, so that memory of another device is refused with the message for memory.
impl<'e, D: Device, A: Readable<D> + ?Sized> RecordRead<'e, D> for &'e A {
    #[inline]
    fn recorded(self) -> Recorded<'e, D::Backend> {
        Recorded::new(self.place(), self.dtype())
    }
}

// A function that has `x: &mut Buffer` passes `x` to what reads it.
#[diagnostic::do_not_recommend]
impl<'e, D: Device, A: Readable<D> + ?Sized> RecordRead<'e, D> for &'e mut A {
    #[inline]
    fn recorded(self) -> Recorded<'e, D::Backend> {
        let this: &'e A = self;
        this.recorded()
    }
}

#[diagnostic::do_not_recommend]
impl<'e, T: Element, D: Device> RecordRead<'e, D> for Slice<'e, T, D> {
    #[inline]
    fn recorded(self) -> Recorded<'e, D::Backend> {
        Recorded::new(self.into_place(), T::DTYPE)
    }
}

// Recommended, as for what is read.
impl<'e, D: Device, A: Writable<D> + ?Sized> RecordWrite<'e, D> for &'e mut A {
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

// Never applies: a buffer by value is refused with a sentence that says `&x`.
impl<'e, T: Element, D: Device, M> RecordRead<'e, D> for Buffer<T, D, M>
where
    EveryOperation: TakeByValue<Self>,
{
    fn recorded(self) -> Recorded<'e, D::Backend> {
        EveryOperation::never(self)
    }
}

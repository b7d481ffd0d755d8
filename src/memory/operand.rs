//! Operands: what an operation accepts.

use crate::backend::Span;
use crate::error::BadRange;
use crate::{Buffer, Device, Element, Slice, SliceMut};

/// What holds device memory: buffers, windows and views of them, on whatever device.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not device memory",
    label = "neither a buffer nor a view of one",
    note = "host values are copied to a device with `device.from_slice`"
)]
pub trait Elements: sealed::Sealed {
    /// The element type.
    type Elem: Element;

    /// Where the elements are.
    type Device: Device;
}

/// What a communicator on `D` may read: buffers, windows and views of them.
#[diagnostic::on_unimplemented(
    message = "a communicator on `{D}` cannot read `{Self}`",
    label = "this lives on another device, or is no device memory",
    note = "NCCL does not check this: it would read the other device's memory, or hang",
    note = "allocate with `comm.device()`, which is the communicator's own; host values are copied there with `from_slice`"
)]
pub trait Readable<D: Device>: Elements<Device = D> {
    /// A shared view of all of it.
    fn view(&self) -> Slice<'_, Self::Elem, D>;

    /// How many elements.
    fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the elements are.
    #[doc(hidden)]
    fn span(&self) -> Result<Span<'_, D::Backend>, BadRange>;
}

/// What a communicator on `D` may write: buffers and exclusive views of them.
#[diagnostic::on_unimplemented(
    message = "a communicator on `{D}` cannot write into `{Self}`",
    label = "this lives on another device, is a shared view, or is no device memory",
    note = "NCCL does not check this: it would write the other device's memory, or hang",
    note = "allocate with `comm.device()`, and take views with `slice_mut`"
)]
pub trait Writable<D: Device>: Readable<D> {
    /// An exclusive view of all of it.
    fn view_mut(&mut self) -> SliceMut<'_, Self::Elem, D>;
}

/// Both sides of an operation hold one data type.
#[diagnostic::on_unimplemented(
    message = "the receive buffer holds `{Self}`, the send buffer `{S}`",
    label = "both sides of an operation hold one data type",
    note = "NCCL takes one data type for both and would write past the end, or half: give both buffers one element type"
)]
pub trait SameDtype<S> {}

impl<T: Element> SameDtype<T> for T {}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device, M> Elements for Buffer<T, D, M> {
    type Elem = T;
    type Device = D;
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device, M> Readable<D> for Buffer<T, D, M> {
    fn view(&self) -> Slice<'_, T, D> {
        self.all()
    }

    #[inline]
    fn span(&self) -> Result<Span<'_, D::Backend>, BadRange> {
        Ok(Span::new(self.allocation(), 0, self.len()))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device, M> Writable<D> for Buffer<T, D, M> {
    fn view_mut(&mut self) -> SliceMut<'_, T, D> {
        self.all_mut()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Elements for Slice<'_, T, D> {
    type Elem = T;
    type Device = D;
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Readable<D> for Slice<'_, T, D> {
    fn view(&self) -> Slice<'_, T, D> {
        *self
    }

    #[inline]
    fn span(&self) -> Result<Span<'_, D::Backend>, BadRange> {
        self.into_span()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Elements for SliceMut<'_, T, D> {
    type Elem = T;
    type Device = D;
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Readable<D> for SliceMut<'_, T, D> {
    fn view(&self) -> Slice<'_, T, D> {
        self.as_slice()
    }

    #[inline]
    fn span(&self) -> Result<Span<'_, D::Backend>, BadRange> {
        self.as_slice().into_span()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Writable<D> for SliceMut<'_, T, D> {
    fn view_mut(&mut self) -> SliceMut<'_, T, D> {
        self.reborrow()
    }
}

mod sealed {
    use crate::{Buffer, Device, Slice, SliceMut, Window, WindowSlice, World};

    pub trait Sealed {}
    impl<T, W: World, K> Sealed for Window<T, W, K> {}
    impl<T, W: World, K> Sealed for WindowSlice<'_, T, W, K> {}
    impl<T, D: Device, M> Sealed for Buffer<T, D, M> {}
    impl<T, D: Device> Sealed for Slice<'_, T, D> {}
    impl<T, D: Device> Sealed for SliceMut<'_, T, D> {}
}

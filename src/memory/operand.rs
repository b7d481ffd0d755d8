//! Operands: the arguments that an operation accepts.

use std::sync::Arc;

use super::{Allocation, Extent};
use crate::backend::Span;
use crate::error::BadRange;
use crate::{
    AnyElem, Buffer, DType, Device, DynBuffer, DynElem, DynSlice, DynSliceMut, Element,
    SharedWindow, Slice, SliceMut, Window, WindowKind, WindowSlice, World,
};

/// Device memory: buffers, windows and views of them, on any device.
///
/// ```
/// # use typed_nccl::{Buffer, Element, Elements, Host, Result};
/// fn zeros_like<T: Element>(x: &impl Elements<Elem = T>) -> Result<Buffer<T, Host>> {
///     Host::local()?.zeros(x.len())
/// }
/// let x = Host::local()?.from_slice(&[1_u8, 2, 3])?;
/// assert_eq!(zeros_like(&x.slice(1..))?.to_vec()?, [0_u8; 2]);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not device memory",
    label = "neither a buffer nor a view of one",
    note = "host values are copied to a device with `device.from_slice`"
)]
pub trait Elements: sealed::Sealed {
    /// The element type.
    type Elem: AnyElem;

    /// The device of the elements.
    type Device: Device;

    /// The data type, as a value.
    fn dtype(&self) -> DType;

    /// The number of elements; 0 for a view past the end of its buffer.
    fn len(&self) -> usize;

    /// Whether it has no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory that a communicator on `D` may read: buffers, windows and views of them.
///
/// ```
/// # use typed_nccl::{Communicator, Host, Readable, Result, Seat, Sum, World, Writable};
/// # fn main() -> Result<()> {
/// fn sum<W: World>(
///     comm: &Communicator<W>,
///     x: &impl Readable<W::Device, Elem = f32>,
///     y: &mut impl Writable<W::Device, Elem = f32>,
/// ) -> Result<()> {
///     comm.all_reduce(x, y, Sum)
/// }
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// # let (x, mut y) = (comm.device().zeros(4)?, comm.device().zeros(2)?);
/// sum(&comm, &x.slice(0..2), &mut y)?;
/// # comm.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator on `{D}` cannot read `{Self}`",
    label = "this lives on another device, or is not device memory",
    note = "NCCL does not check this: it would read the other device's memory, or hang",
    note = "allocate with `comm.device()`, which is the communicator's own; host values are copied there with `from_slice`; the memory of a `SharedWindow` is that of the window that it was made of: name that one",
    note = "of a guard, pass `&*guard`; of a list, one buffer at a time, in one `comm.group(..)`"
)]
pub trait Readable<D: Device>: Elements<Device = D> {
    /// A shared view of all of it.
    fn view(&self) -> Slice<'_, Self::Elem, D>
    where
        Self::Elem: Element,
    {
        let (allocation, extent) = self.place();
        Slice::new(allocation, extent)
    }

    /// The place of the elements, in range or not.
    #[doc(hidden)]
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent);

    /// The place of the elements.
    #[doc(hidden)]
    #[inline]
    fn span(&self) -> Result<Span<'_, D::Backend>, BadRange> {
        let (allocation, extent) = self.place();
        // SAFETY: an operand's extent comes from its own allocation's length, in elements of its
        // type.
        unsafe { extent.span(allocation, self.dtype().size()) }
    }
}

/// Memory that a communicator on `D` may write: buffers and exclusive views of them.
///
/// See the example of [`Readable`].
#[diagnostic::on_unimplemented(
    message = "a communicator on `{D}` cannot write into `{Self}`",
    label = "this is a shared view, lives on another device, or is not device memory",
    note = "a shared view is only read: take the view with `slice_mut`, or lend the memory as `device.lend(&mut x, ..)`",
    note = "otherwise allocate with `comm.device()`, and copy host values there with `from_slice`: NCCL does not check whose memory this is, and would write the wrong memory, or hang",
    note = "of a guard, pass `&mut *guard`; of a list, one buffer at a time, in one `comm.group(..)`"
)]
pub trait Writable<D: Device>: Readable<D> {
    /// An exclusive view of all of it.
    fn view_mut(&mut self) -> SliceMut<'_, Self::Elem, D>
    where
        Self::Elem: Element,
    {
        let (allocation, extent) = self.place();
        SliceMut::new(allocation, extent)
    }
}

/// Both sides of an operation hold one data type.
///
/// See the example of [`Holds`].
#[diagnostic::on_unimplemented(
    message = "the receive buffer holds `{Self}`, the send buffer `{S}`",
    label = "both sides of an operation hold one data type",
    note = "NCCL takes one data type for both: it would write past the end of the receive buffer, or fill only part of it; give both buffers one element type",
    note = "if one is a `DynBuffer`, whose elements are `DynElem`: give it a type with `typed::<f32>()?`, or convert the other one with `into_dyn()`"
)]
pub trait SameDtype<S> {}

impl<T: AnyElem> SameDtype<T> for T {}

/// Memory whose elements have the data type of `S`.
///
/// ```
/// # use typed_nccl::{Communicator, Holds, Host, Numeric, Readable};
/// # use typed_nccl::{Result, SameDtype, Seat, Sum, Writable};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn sum<E: Numeric, A, B>(comm: &Communicator<Host>, x: &A, y: &mut B) -> Result<()>
/// where
///     A: Readable<Host, Elem = E>,
///     B: Writable<Host> + Holds<E>, // `Writable<Host, Elem: SameDtype<E>>` says the same
/// {
///     comm.all_reduce(x, y, Sum)
/// }
/// let (x, mut y) = (comm.device().from_slice(&[1_i32, 2])?, comm.device().zeros::<i32>(2)?);
/// sum(&comm, &x, &mut y)?;
/// assert_eq!(y.to_vec()?, [1, 2]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub trait Holds<S> {}

impl<S, A: Elements<Elem: SameDtype<S>> + ?Sized> Holds<S> for A {}

macro_rules! elements {
    ($([$($params:tt)*] $memory:ty, of $Elem:ty, on $device:ty, $self:ident => $dtype:expr;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($params)*> Elements for $memory {
            type Elem = $Elem;
            type Device = $device;

            #[inline]
            fn dtype(&$self) -> DType {
                $dtype
            }

            #[inline]
            fn len(&$self) -> usize {
                $self.len()
            }
        }
    )+ };
}

elements! {
    [T: Element, D: Device, M] Buffer<T, D, M>, of T, on D, self => T::DTYPE;
    [T: Element, D: Device] Slice<'_, T, D>, of T, on D, self => T::DTYPE;
    [T: Element, D: Device] SliceMut<'_, T, D>, of T, on D, self => T::DTYPE;
    [D: Device, M] DynBuffer<D, M>, of DynElem, on D, self => self.dtype();
    [D: Device] DynSlice<'_, D>, of DynElem, on D, self => self.dtype();
    [D: Device] DynSliceMut<'_, D>, of DynElem, on D, self => self.dtype();
    [T: Element, W: World, K: WindowKind] Window<T, W, K>, of T, on W::Device, self => T::DTYPE;
    [T: Element, W: World, K: WindowKind] WindowSlice<'_, T, W, K>, of T, on W::Device,
    self => T::DTYPE;
    // It has elements but is no operand: the window that owns the memory is, and the message says
    // so once.
    [T: Element, W: World, K: WindowKind] SharedWindow<T, W, K>, of T, on W::Device,
    self => T::DTYPE;
}

// Recommended, so that generic code without `T: Element` hears of that and not of devices.
impl<T: Element, D: Device, M> Readable<D> for Buffer<T, D, M> {
    #[inline]
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        (self.allocation(), Extent::whole(self.len()))
    }
}

impl<T: Element, D: Device, M> Writable<D> for Buffer<T, D, M> {}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Readable<D> for Slice<'_, T, D> {
    #[inline]
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        self.into_place()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Readable<D> for SliceMut<'_, T, D> {
    #[inline]
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        self.place()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device> Writable<D> for SliceMut<'_, T, D> {}

// Parameters of a function are often references already, and are passed as `&x` all the same.
#[diagnostic::do_not_recommend]
impl<D: Device, A: Readable<D>> Readable<D> for &A {
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        A::place(self)
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device, A: Readable<D>> Readable<D> for &mut A {
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        A::place(self)
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device, A: Writable<D>> Writable<D> for &mut A {}

// A reference holds its owner's elements; operands are references.
#[diagnostic::do_not_recommend]
impl<A: Elements + ?Sized> Elements for &A {
    type Elem = A::Elem;
    type Device = A::Device;

    #[inline]
    fn dtype(&self) -> DType {
        A::dtype(self)
    }

    #[inline]
    fn len(&self) -> usize {
        A::len(self)
    }
}

#[diagnostic::do_not_recommend]
impl<A: Elements + ?Sized> Elements for &mut A {
    type Elem = A::Elem;
    type Device = A::Device;

    #[inline]
    fn dtype(&self) -> DType {
        A::dtype(self)
    }

    #[inline]
    fn len(&self) -> usize {
        A::len(self)
    }
}

mod sealed {
    use crate::{
        Buffer, Device, DynBuffer, DynSlice, DynSliceMut, SharedWindow, Slice, SliceMut, Window,
        WindowSlice, World,
    };

    pub trait Sealed {}
    impl<A: Sealed + ?Sized> Sealed for &A {}
    impl<A: Sealed + ?Sized> Sealed for &mut A {}
    impl<D: Device, M> Sealed for DynBuffer<D, M> {}
    impl<D: Device> Sealed for DynSlice<'_, D> {}
    impl<D: Device> Sealed for DynSliceMut<'_, D> {}
    impl<T, W: World, K> Sealed for Window<T, W, K> {}
    impl<T, W: World, K> Sealed for SharedWindow<T, W, K> {}
    impl<T, W: World, K> Sealed for WindowSlice<'_, T, W, K> {}
    impl<T, D: Device, M> Sealed for Buffer<T, D, M> {}
    impl<T, D: Device> Sealed for Slice<'_, T, D> {}
    impl<T, D: Device> Sealed for SliceMut<'_, T, D> {}
}

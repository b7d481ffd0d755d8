//! Launch arguments: their form before they are enqueued, and the form that a queue holds. A device
//! that consumes them during the call holds nothing.

use std::sync::Arc;

use crate::backend::{Backend, Span};
use crate::compute::{Argument, Arguments, HeldMemory, Scalar, Shown};
use crate::device_comm::Entered;
use crate::memory::Allocation;
use crate::stream::StreamAccess;
use crate::{
    DType, Device, Element, Elements, Readable, Result, Slice, SliceMut, WindowKind, WindowSlice,
    World, Writable,
};

/// A value among the arguments of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Value<T>(pub(super) T);

/// Wraps a value as an argument.
pub fn value<T: Scalar>(value: T) -> Value<T> {
    Value(value)
}

/// An argument that a kernel reads as `&[T]` on `D`: what a call reads.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot read `{Self}`",
    label = "taken by value, or not device memory",
    note = "pass `&x` of a buffer, a window or a view, or a shared view by value; of a guard, `&*guard`; host values are copied to `stream.device()` or `comm.device()` with `from_slice`"
)]
pub trait ReadAs<'a, T, D: Device> {
    /// The elements, as an argument.
    fn read(self) -> Slice<'a, T, D>;
}

impl<'a, T: Element, D, E, F, A> ReadAs<'a, T, D> for &'a A
where
    A: Readable<F> + Elements<Elem = E, Device = F> + ?Sized,
    [E]: SliceOf<T>,
    F: Device,
    D: RunsWithMemoryOf<F>,
{
    fn read(self) -> Slice<'a, T, D> {
        let (allocation, extent) = self.place();
        Slice::new(allocation, extent)
    }
}

// A function that has `x: &mut Buffer` passes `x` to what reads it.
#[diagnostic::do_not_recommend]
impl<'a, T: Element, D: Device, A: ?Sized> ReadAs<'a, T, D> for &'a mut A
where
    &'a A: ReadAs<'a, T, D>,
{
    fn read(self) -> Slice<'a, T, D> {
        let this: &'a A = self;
        this.read()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Element, E: Element, D, F: Device> ReadAs<'a, T, D> for Slice<'a, E, F>
where
    [E]: SliceOf<T>,
    D: RunsWithMemoryOf<F>,
{
    fn read(self) -> Slice<'a, T, D> {
        let (allocation, extent) = self.into_place();
        Slice::new(allocation, extent)
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T: Element, E: Element, D, W: World, K: WindowKind> ReadAs<'a, T, D>
    for WindowSlice<'a, E, W, K>
where
    [E]: SliceOf<T>,
    D: RunsWithMemoryOf<W::Device>,
{
    fn read(self) -> Slice<'a, T, D> {
        let (allocation, extent, _) = self.registered();
        Slice::new(allocation, extent)
    }
}

/// Memory that a kernel writes as `&mut [T]` on `D`.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot write into `{Self}`",
    label = "a shared view, or not device memory",
    note = "allocate with `stream.device()` or `comm.device()`, and take views with `slice_mut`; of a guard, pass `&mut *guard`; host values are copied there with `from_slice`"
)]
pub trait WrittenAs<T, D: Device> {
    /// The elements, as an argument.
    fn write(&mut self) -> SliceMut<'_, T, D>;
}

impl<T: Element, D, E, F, A> WrittenAs<T, D> for A
where
    A: Writable<F> + Elements<Elem = E, Device = F> + ?Sized,
    [E]: SliceOf<T>,
    F: Device,
    D: RunsWithMemoryOf<F>,
{
    fn write(&mut self) -> SliceMut<'_, T, D> {
        let (allocation, extent) = self.place();
        SliceMut::new(allocation, extent)
    }
}

/// Elements of the type that a kernel declares. Type inference runs either way: from the kernel to
/// the argument or back.
#[diagnostic::on_unimplemented(
    message = "the kernel takes `[{T}]` here, and this memory holds `{Self}`",
    label = "other elements than the kernel declares",
    note = "the types in `kernel!` are those of its source; a kernel for several is generic: `fn axpy<T: Float>(a: T, x: &[T], y: &mut [T]);`"
)]
pub trait SliceOf<T> {}

impl<T> SliceOf<T> for [T] {}

/// The device of a stream, which is that of its kernels' memory. Inferred from the stream rather
/// than from the memory, so that an argument on another device is reported where it is passed.
#[diagnostic::on_unimplemented(
    message = "a kernel on `{Self}` cannot work on memory of `{F}`",
    label = "memory of another device than the stream's",
    note = "allocate with `stream.device()`, or run the kernel on a stream of the device where the memory is"
)]
pub trait RunsWithMemoryOf<F: Device>: Device<Backend = F::Backend> {}

impl<D: Device> RunsWithMemoryOf<D> for D {}

/// One argument of a launch on `D`.
pub trait ArgumentOn<D: Device> {
    /// The argument, checked.
    type Checked<'a>: Argument<D::Backend>
    where
        Self: 'a;

    /// Checks it.
    fn check(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>>;

    /// Its memory, and whether the kernel writes it.
    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)>;

    /// Keeps anything that could end on another thread alive until the launch is recorded.
    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, D::Backend>,
    ) -> Result<()> {
        let _ = (stream, entered);
        Ok(())
    }
}

/// All arguments of a launch on `D`.
pub trait ArgumentsOn<D: Device> {
    /// The arguments, checked.
    type Checked<'a>: Arguments<D::Backend>
    where
        Self: 'a;

    /// Checks them.
    fn check(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>>;

    /// The memory of each, and whether the kernel writes it.
    fn used(
        &self,
        each: impl FnMut((&Arc<Allocation<D::Backend>>, bool)) -> Result<()>,
    ) -> Result<()>;

    /// See [`ArgumentOn`].
    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, D::Backend>,
    ) -> Result<()>;
}

impl<T: Scalar, B: Backend> Argument<B> for Value<T> {
    type Held = Self;

    fn show(&self) -> Shown<'_, B> {
        let start = std::ptr::from_ref(&self.0).cast();
        // SAFETY: numbers have no padding, so all of their bytes are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(start, size_of::<T>()) };
        Shown::Scalar { bytes, cuda: T::CUDA }
    }

    fn hold(self) -> Self {
        self
    }
}

impl<D: Device, T: Scalar> ArgumentOn<D> for Value<T> {
    type Checked<'a> = Self;

    fn check(&self, _: &StreamAccess<'_, D>) -> Result<Self> {
        Ok(*self)
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        None
    }
}

/// Checked memory.
#[allow(missing_debug_implementations, reason = "a part of a launch")]
pub struct Memory<'a, B: Backend> {
    span: Span<'a, B>,
    dtype: DType,
    write: bool,
}

impl<'a, B: Backend> Memory<'a, B> {
    fn check<D: Device<Backend = B>>(
        memory: &'a impl Readable<D>,
        stream: &StreamAccess<'_, D>,
        (dtype, write): (DType, bool),
    ) -> Result<Self> {
        Ok(Self { span: stream.check(memory)?, dtype, write })
    }
}

impl<B: Backend> Argument<B> for Memory<'_, B> {
    type Held = HeldMemory<B>;

    fn show(&self) -> Shown<'_, B> {
        let Self { span, dtype, write } = *self;
        let (block, offset, len) = (span.allocation().block(), span.offset(), span.len());
        Shown::Memory { block, offset, len, dtype, write }
    }

    fn hold(self) -> HeldMemory<B> {
        HeldMemory { held: self.span.into(), dtype: self.dtype, write: self.write }
    }
}

impl<D: Device, T: Element> ArgumentOn<D> for Slice<'_, T, D> {
    type Checked<'a>
        = Memory<'a, D::Backend>
    where
        Self: 'a;

    fn check(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>> {
        Memory::check(self, stream, (T::DTYPE, false))
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        Some((self.place().0, false))
    }
}

impl<D: Device, T: Element> ArgumentOn<D> for SliceMut<'_, T, D> {
    type Checked<'a>
        = Memory<'a, D::Backend>
    where
        Self: 'a;

    fn check(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>> {
        Memory::check(self, stream, (T::DTYPE, true))
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        Some((self.place().0, true))
    }
}

macro_rules! tuples {
    ($(($($argument:ident $index:tt),*)),+ $(,)?) => { $(
        impl<D: Device, $($argument: ArgumentOn<D>),*> ArgumentsOn<D> for ($($argument,)*) {
            type Checked<'a>
                = ($($argument::Checked<'a>,)*)
            where
                Self: 'a;

            #[allow(unused_variables, reason = "there may be no arguments")]
            fn check(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Checked<'_>> {
                Ok(($(self.$index.check(stream)?,)*))
            }

            #[allow(unused_mut, unused_variables, reason = "there may be no arguments")]
            fn used(
                &self,
                mut each: impl FnMut((&Arc<Allocation<D::Backend>>, bool)) -> Result<()>,
            ) -> Result<()> {
                $(if let Some(used) = self.$index.used() { each(used)?; })*
                Ok(())
            }

            #[allow(unused_variables, reason = "there may be no arguments")]
            fn enter<'a>(
                &'a self,
                stream: &StreamAccess<'a, D>,
                entered: &mut Entered<'a, D::Backend>,
            ) -> Result<()> {
                $(self.$index.enter(stream, entered)?;)*
                Ok(())
            }
        }
    )+ };
}

tuples!(
    (),
    (A0 0),
    (A0 0, A1 1),
    (A0 0, A1 1, A2 2),
    (A0 0, A1 1, A2 2, A3 3),
    (A0 0, A1 1, A2 2, A3 3, A4 4),
    (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5),
    (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6),
    (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6, A7 7),
    (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6, A7 7, A8 8),
    (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6, A7 7, A8 8, A9 9),
    (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6, A7 7, A8 8, A9 9, A10 10),
    (A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6, A7 7, A8 8, A9 9, A10 10, A11 11),
);

//! Arguments of a launch: what they are before it is enqueued, and what a queue holds of them.

use std::marker::PhantomData;
use std::sync::Arc;

use super::declaration::{Scalar, cuda_name};
use super::peers::HeldWindow;
use crate::backend::Backend;
use crate::device_api::{Alive, Shared};
use crate::memory::Allocation;
use crate::stream::{Held, StreamAccess};
use crate::{DType, Device, Element, Elements, Readable, Result, Writable};

/// A value among the arguments of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Value<T>(pub(super) T);

/// Memory that a kernel reads.
#[derive(Debug)]
pub struct Read<'a, T, A> {
    from: &'a A,
    elements: PhantomData<T>,
}

/// Memory that a kernel writes.
#[derive(Debug)]
pub struct Write<'a, T, A> {
    to: &'a mut A,
    elements: PhantomData<T>,
}

/// A value.
pub fn value<T: Scalar>(value: T) -> Value<T> {
    Value(value)
}

/// Memory that is read.
pub fn read<T: Element, A: Elements<Elem = T>>(from: &A) -> Read<'_, T, A> {
    Read { from, elements: PhantomData }
}

/// Memory that is written.
pub fn write<T: Element, A: Elements<Elem = T>>(to: &mut A) -> Write<'_, T, A> {
    Write { to, elements: PhantomData }
}

/// Memory that a kernel on `D` may read.
#[diagnostic::on_unimplemented(
    message = "a kernel on `{D}` cannot read `{Self}`",
    label = "the kernel is given memory of another device than its stream's, or what is no device memory",
    note = "allocate with `stream.device()` or `comm.device()`; host values are copied there with `from_slice`"
)]
pub trait KernelReads<D: Device>: Readable<D> {}

#[diagnostic::do_not_recommend]
impl<D: Device, A: Readable<D>> KernelReads<D> for A {}

/// Memory that a kernel on `D` may write.
#[diagnostic::on_unimplemented(
    message = "a kernel on `{D}` cannot write into `{Self}`",
    label = "the kernel is given memory of another device than its stream's, a shared view, or what is no device memory",
    note = "allocate with `stream.device()` or `comm.device()`, and take views with `slice_mut`"
)]
pub trait KernelWrites<D: Device>: Writable<D> {}

#[diagnostic::do_not_recommend]
impl<D: Device, A: Writable<D>> KernelWrites<D> for A {}

/// What a launch shows of one argument when it runs.
#[derive(Debug)]
pub enum Shown<'v, B: Backend> {
    /// A value.
    Scalar {
        /// Its bytes.
        bytes: &'v [u8],
        /// What its type is called in C++.
        cuda: &'static str,
    },
    /// Part of a block.
    Memory {
        /// The block.
        block: &'v B::Block,
        /// From this byte on.
        offset: usize,
        /// So many elements.
        len: usize,
        /// Of this type.
        dtype: DType,
        /// Whether they are written.
        write: bool,
    },
    /// A device communicator.
    Comm(&'v Shared<B>),
    /// A window.
    Windowed(&'v HeldWindow<B>),
}

/// Arguments, held by a queue.
pub trait HeldArguments<B: Backend>: Send + Sync + 'static {
    /// Shows each.
    fn each<'v>(&'v self, each: impl FnMut(Shown<'v, B>));
}

/// One argument, held by a queue.
pub trait HeldArgument<B: Backend>: Send + Sync + 'static {
    /// Shows it.
    fn show(&self) -> Shown<'_, B>;
}

/// One argument of a launch on `D`.
pub trait ArgumentOn<D: Device> {
    /// What a queue holds of it.
    type Held: HeldArgument<D::Backend>;

    /// Checks it, and takes hold of its memory.
    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held>;

    /// The memory, and whether it is written.
    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)>;

    /// Keeps what could end on another thread from ending until the launch is booked.
    fn enter<'a>(&'a self, stream: &StreamAccess<'_, D>, alive: &mut Vec<Alive<'a>>) -> Result<()> {
        let _ = (stream, alive);
        Ok(())
    }
}

/// All arguments of a launch on `D`.
pub trait ArgumentsOn<D: Device> {
    /// What a queue holds of them.
    type Held: HeldArguments<D::Backend>;

    /// Checks them, and takes hold of their memory.
    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held>;

    /// Each one's memory, and whether it is written.
    fn used(
        &self,
        each: impl FnMut((&Arc<Allocation<D::Backend>>, bool)) -> Result<()>,
    ) -> Result<()>;

    /// See [`ArgumentOn`].
    fn enter<'a>(&'a self, stream: &StreamAccess<'_, D>, alive: &mut Vec<Alive<'a>>) -> Result<()>;
}

impl<T: Scalar, B: Backend> HeldArgument<B> for Value<T> {
    fn show(&self) -> Shown<'_, B> {
        let start = std::ptr::from_ref(&self.0).cast();
        // SAFETY: numbers have no padding, so all bytes of one are initialised.
        let bytes = unsafe { std::slice::from_raw_parts(start, size_of::<T>()) };
        Shown::Scalar { bytes, cuda: T::CUDA }
    }
}

impl<D: Device, T: Scalar> ArgumentOn<D> for Value<T> {
    type Held = Self;

    fn hold(&self, _: &StreamAccess<'_, D>) -> Result<Self> {
        Ok(*self)
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        None
    }
}

/// Memory, held by a queue.
pub struct HeldMemory<B: Backend> {
    held: Held<B>,
    dtype: DType,
    write: bool,
}

impl<B: Backend> std::fmt::Debug for HeldMemory<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.held.len, cuda_name(self.dtype))
    }
}

impl<B: Backend> HeldArgument<B> for HeldMemory<B> {
    fn show(&self) -> Shown<'_, B> {
        let Held { allocation, offset, len } = &self.held;
        let (offset, len, dtype, write) = (*offset, *len, self.dtype, self.write);
        Shown::Memory { block: allocation.block(), offset, len, dtype, write }
    }
}

impl<D: Device, T: Element, A: KernelReads<D>> ArgumentOn<D> for Read<'_, T, A> {
    type Held = HeldMemory<D::Backend>;

    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
        Ok(HeldMemory { held: stream.take(self.from)?, dtype: T::DTYPE, write: false })
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        Some((self.from.place().0, false))
    }
}

impl<D: Device, T: Element, A: KernelWrites<D>> ArgumentOn<D> for Write<'_, T, A> {
    type Held = HeldMemory<D::Backend>;

    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
        Ok(HeldMemory { held: stream.take(&*self.to)?, dtype: T::DTYPE, write: true })
    }

    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)> {
        Some((self.to.place().0, true))
    }
}

/// What a graph holds is shown at each launch of it.
impl<B: Backend, H: HeldArguments<B>> HeldArguments<B> for Arc<H> {
    fn each<'v>(&'v self, each: impl FnMut(Shown<'v, B>)) {
        H::each(self, each);
    }
}

macro_rules! tuples {
    ($(($($argument:ident $index:tt),*)),+ $(,)?) => { $(
        impl<B: Backend, $($argument: HeldArgument<B>),*> HeldArguments<B> for ($($argument,)*) {
            #[allow(unused_mut, unused_variables, reason = "there may be no arguments")]
            fn each<'v>(&'v self, mut each: impl FnMut(Shown<'v, B>)) {
                $(each(self.$index.show());)*
            }
        }

        impl<D: Device, $($argument: ArgumentOn<D>),*> ArgumentsOn<D> for ($($argument,)*) {
            type Held = ($($argument::Held,)*);

            #[allow(unused_variables, reason = "there may be no arguments")]
            fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
                Ok(($(self.$index.hold(stream)?,)*))
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
                stream: &StreamAccess<'_, D>,
                alive: &mut Vec<Alive<'a>>,
            ) -> Result<()> {
                $(self.$index.enter(stream, alive)?;)*
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

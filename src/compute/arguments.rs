//! Launch arguments as a backend sees them, before they are enqueued and in a queue.

use std::sync::Arc;

use super::HeldWindow;

use crate::DType;
use crate::backend::Backend;
use crate::device_comm::Shared;
use crate::stream::Held;

/// One launch argument as its kernel receives it.
#[derive(Debug)]
pub enum Shown<'v, B: Backend> {
    /// A value.
    Scalar {
        /// Its bytes.
        bytes: &'v [u8],
        /// Its type's name in C++.
        cuda: &'static str,
    },
    /// Part of a block of memory.
    Memory {
        /// The block.
        block: &'v B::Block,
        /// Offset in bytes.
        offset: usize,
        /// How many elements.
        len: usize,
        /// Their type.
        dtype: DType,
        /// Whether the kernel writes them.
        write: bool,
    },
    /// A device communicator.
    Comm(&'v Shared<B>),
    /// A barrier of a device communicator.
    Barrier {
        /// Its device communicator.
        dev: &'v Shared<B>,
        /// Its number.
        index: &'v u32,
    },
    /// A window, or part of one.
    Windowed(&'v HeldWindow<B>),
}

/// Arguments that were checked.
pub trait Arguments<B: Backend> {
    /// The form that a queue holds.
    type Held: HeldArguments<B>;

    /// Visits each argument.
    fn each<'v>(&'v self, each: impl FnMut(Shown<'v, B>));

    /// Converts into the form that a queue holds.
    fn hold(self) -> Self::Held;
}

/// One argument that was checked.
pub trait Argument<B: Backend> {
    /// The form that a queue holds.
    type Held: HeldArgument<B>;

    /// The argument as its kernel receives it.
    fn show(&self) -> Shown<'_, B>;

    /// Converts into the form that a queue holds.
    fn hold(self) -> Self::Held;
}

/// Arguments held by a queue.
pub trait HeldArguments<B: Backend>: Arguments<B> + Send + Sync + 'static {}

impl<B: Backend, A: Arguments<B> + Send + Sync + 'static> HeldArguments<B> for A {}

/// One argument held by a queue.
pub trait HeldArgument<B: Backend>: Argument<B> + Send + Sync + 'static {}

impl<B: Backend, A: Argument<B> + Send + Sync + 'static> HeldArgument<B> for A {}

/// Memory held by a queue.
pub struct HeldMemory<B: Backend> {
    pub(crate) held: Held<B>,
    pub(crate) dtype: DType,
    pub(crate) write: bool,
}

impl<B: Backend> std::fmt::Debug for HeldMemory<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.held.len, self.dtype.names().cuda)
    }
}

impl<B: Backend> Argument<B> for HeldMemory<B> {
    type Held = Self;

    fn show(&self) -> Shown<'_, B> {
        let Held { allocation, offset, len } = &self.held;
        let (offset, len, dtype, write) = (*offset, *len, self.dtype, self.write);
        Shown::Memory { block: allocation.block(), offset, len, dtype, write }
    }

    fn hold(self) -> Self {
        self
    }
}

/// A graph shares what it holds with each of its launches.
impl<B: Backend, H: HeldArguments<B>> Arguments<B> for Arc<H> {
    type Held = Self;

    fn each<'v>(&'v self, each: impl FnMut(Shown<'v, B>)) {
        H::each(self, each);
    }

    fn hold(self) -> Self {
        self
    }
}

macro_rules! tuples {
    ($(($($argument:ident $index:tt),*)),+ $(,)?) => { $(
        impl<B: Backend, $($argument: Argument<B>),*> Arguments<B> for ($($argument,)*) {
            type Held = ($($argument::Held,)*);

            #[allow(unused_mut, unused_variables, reason = "there may be no arguments")]
            fn each<'v>(&'v self, mut each: impl FnMut(Shown<'v, B>)) {
                $(each(self.$index.show());)*
            }

            #[allow(clippy::unused_unit, reason = "there may be no arguments")]
            fn hold(self) -> Self::Held {
                ($(self.$index.hold(),)*)
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

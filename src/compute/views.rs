//! The arguments of a host body, taken one after the other.

use std::any::Any;
use std::slice;
use std::vec::IntoIter;

use super::declaration::Scalar;
use crate::{DType, Element};

/// One argument of a kernel that is about to run.
#[derive(Clone, Copy)]
pub(crate) enum View<'v> {
    Scalar {
        bytes: &'v [u8],
        cuda: &'static str,
    },
    Memory {
        start: *mut u8,
        len: usize,
        dtype: DType,
        write: bool,
    },
    Comm(&'v dyn Any),
    Barrier(&'v dyn Any, u32),
    Windowed(DType, &'v dyn Any),
    /// An argument without a value or a length.
    #[cfg(feature = "cuda")]
    Nothing,
}

impl View<'_> {
    fn scalar<T: Scalar>(&self) -> Option<T> {
        match *self {
            Self::Scalar { bytes, cuda } if cuda == T::CUDA && bytes.len() == size_of::<T>() => {
                // SAFETY: the bytes are of a `T`: `held` says so by its name in C++.
                Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
            }
            _ => None,
        }
    }
}

/// The arguments of a host body. Only code that [`kernel!`](crate::kernel!) generates takes them.
pub struct Views<'v> {
    list: IntoIter<View<'v>>,
}

/// Generated code takes the arguments in the order in which it declares them.
const DECLARED: &str = "a kernel's arguments are as it declares them";

impl<'v> Views<'v> {
    /// # Safety
    /// Listed memory is present, aligned, and of the listed length for `'v`. Nothing else accesses
    /// memory that is listed as written, and nothing writes memory that is listed as read.
    pub(crate) unsafe fn new(list: Vec<View<'v>>) -> Self {
        Self { list: list.into_iter() }
    }

    /// The next argument, a value.
    pub fn scalar<T: Scalar>(&mut self) -> T {
        match self.list.next().and_then(|view| view.scalar()) {
            Some(value) => value,
            None => unreachable!("{DECLARED}"),
        }
    }

    /// The next argument, memory that the kernel reads.
    pub fn read<T: Element>(&mut self) -> &'v [T] {
        match self.list.next() {
            Some(View::Memory { start, len, dtype, write: false }) if dtype == T::DTYPE => {
                // SAFETY: the caller of `new` promised this much memory of that type, which nobody
                // writes.
                unsafe { slice::from_raw_parts(start.cast(), len) }
            }
            _ => unreachable!("{DECLARED}"),
        }
    }

    /// The next argument, memory that the kernel writes.
    pub fn write<T: Element>(&mut self) -> &'v mut [T] {
        match self.list.next() {
            Some(View::Memory { start, len, dtype, write: true }) if dtype == T::DTYPE => {
                // SAFETY: the caller of `new` promised this much memory of that type, which nothing
                // else accesses; it is handed out once.
                unsafe { slice::from_raw_parts_mut(start.cast(), len) }
            }
            _ => unreachable!("{DECLARED}"),
        }
    }
}

impl<'v> Views<'v> {
    /// The next argument: a device communicator of that backend.
    pub fn dev_comm<S: 'static>(&mut self) -> &'v S {
        match self.list.next() {
            Some(View::Comm(shared)) => of(shared),
            _ => unreachable!("{DECLARED}"),
        }
    }

    /// The next argument: a barrier of a device communicator of that backend.
    pub fn barrier<S: 'static>(&mut self) -> (&'v S, u32) {
        match self.list.next() {
            Some(View::Barrier(shared, index)) => (of(shared), index),
            _ => unreachable!("{DECLARED}"),
        }
    }

    /// The next argument: a window of that element type, as that backend holds it.
    pub fn window<T: Element, H: 'static>(&mut self) -> &'v H {
        match self.list.next() {
            Some(View::Windowed(dtype, window)) if dtype == T::DTYPE => of(window),
            _ => unreachable!("{DECLARED}"),
        }
    }
}

fn of<S: 'static>(argument: &dyn Any) -> &S {
    match argument.downcast_ref() {
        Some(argument) => argument,
        None => unreachable!("{DECLARED}"),
    }
}

impl std::fmt::Debug for Views<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} arguments", self.list.len())
    }
}

/// The length of a slice argument: `x` in `blocks = x.len().div_ceil(256)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceLen {
    len: usize,
}

impl SliceLen {
    /// How many elements.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// The arguments as `blocks = ..` sees them: values and lengths. Built for each launch without
/// allocating.
pub struct Extents<'v> {
    list: [Option<View<'v>>; super::ARGUMENTS],
    next: usize,
}

impl<'v> Extents<'v> {
    #[cfg(feature = "cuda")]
    pub(crate) fn new(each: impl FnOnce(&mut dyn FnMut(View<'v>))) -> Self {
        let (mut list, mut count) = ([None; super::ARGUMENTS], 0);
        each(&mut |view| {
            list[count] = Some(view);
            count += 1;
        });
        Self { list, next: 0 }
    }

    fn next(&mut self) -> Option<View<'v>> {
        self.next += 1;
        self.list.get(self.next - 1).copied()?
    }

    /// The next argument, a value.
    pub fn scalar<T: Scalar>(&mut self) -> T {
        match self.next().and_then(|view| view.scalar()) {
            Some(value) => value,
            None => unreachable!("{DECLARED}"),
        }
    }

    /// The next argument, which has no extent.
    pub fn device(&mut self) {
        let _ = self.next();
    }

    /// The next argument, memory.
    pub fn memory(&mut self) -> SliceLen {
        match self.next() {
            Some(View::Memory { len, .. }) => SliceLen { len },
            _ => unreachable!("{DECLARED}"),
        }
    }
}

impl std::fmt::Debug for Extents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} arguments", self.list.iter().flatten().count())
    }
}

//! The stores of a rank's programs: buffers and windows alike.

use std::ops::Range;

use typed_nccl::{
    Buffer, Communicator, Result, Slice, SliceMut, Stream, Symmetric, Window, WindowPlace,
    WindowSlice,
};

use super::device::Dev;
use super::step::At;

pub(crate) type Comm = Communicator<Dev>;
pub(crate) type Queue = Stream<Dev>;

pub(crate) enum Store {
    Buffer(Buffer<u32, Dev>),
    Window(Window<u32, Dev>),
}

impl Store {
    pub(crate) fn slice(&self, range: Range<usize>) -> Slice<'_, u32, Dev> {
        match self {
            Self::Buffer(buffer) => buffer.slice(range),
            Self::Window(window) => window.local().slice(range),
        }
    }

    pub(crate) fn all_mut(&mut self) -> SliceMut<'_, u32, Dev> {
        match self {
            Self::Buffer(buffer) => buffer.all_mut(),
            Self::Window(window) => window.local_mut(),
        }
    }

    pub(crate) fn slice_mut(&mut self, range: Range<usize>) -> SliceMut<'_, u32, Dev> {
        self.all_mut().into_slice(range)
    }

    pub(crate) fn to_vec(&self) -> Result<Vec<u32>> {
        match self {
            Self::Buffer(buffer) => buffer.to_vec(),
            Self::Window(window) => window.to_vec(),
        }
    }

    fn window(&self) -> &Window<u32, Dev> {
        match self {
            Self::Window(window) => window,
            Self::Buffer(_) => panic!("puts are drawn between windows"),
        }
    }

    /// Part of a window, for puts to read.
    pub(crate) fn source(&self, at: At, len: usize) -> WindowSlice<'_, u32, Dev, Symmetric> {
        self.window().slice(at.start..at.start + len)
    }

    /// A place in a window, for puts to write.
    pub(crate) fn target(&self, at: At) -> WindowPlace<'_, u32, Dev, Symmetric> {
        self.window().at(at.start)
    }
}

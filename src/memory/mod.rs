//! Memory: buffers, views of them, and what operations accept.
//!
//! A [`Buffer`] owns device memory and is ordered by streams: an operation on another stream than
//! the last one waits for it by itself. Views ([`Slice`], [`SliceMut`]) borrow; operations copy what
//! they need out of a view, so nothing borrowed is ever enqueued.
//!
//! Not in the types: lengths. They are checked on use, with an error that names both sides.

mod allocation;
mod buffer;
mod kind;
mod operand;
mod order;
mod slice;

pub use buffer::Buffer;
pub use kind::{DeviceMem, MemoryKind, NcclMem};
pub use operand::{Elements, Readable, SameDtype, Writable};
pub use slice::{Slice, SliceMut};

pub(crate) use slice::Extent;

pub use allocation::Allocation;

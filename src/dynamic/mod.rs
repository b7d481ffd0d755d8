//! Run-time twins: types whose type parameter is a value.
//!
//! | compile time | run time | back |
//! |---|---|---|
//! | `Buffer<f32, D>` | [`DynBuffer<D>`] | [`typed`](DynBuffer::typed), [`try_into_typed`](DynBuffer::try_into_typed) |
//! | `Slice<f32, D>`, `SliceMut<f32, D>` | [`DynSlice<D>`], [`DynSliceMut<D>`] | [`typed`](DynSlice::typed) |
//! | `Sum`, `Avg`, .. | [`DynReduceOp`] | |
//! | `Host<At<0>>`, .. | `Host<AnyDevice>` | |
//! | `Communicator<W, Ready>`, .. | [`Lifecycle<W>`] | [`Lifecycle::ready`] and [`Lifecycle::try_into_ready`] |
//! | `Window<T, W, LocalOnly>` | [`WindowFlags`] | [`WindowFlags::is`] |
//! | memory and its length | [`RawPart`], in the calls of [`Raw`], which are `unsafe` | |
//!
//! Methods have the same names; what the compiler would have refused is a named error.

mod buffer;
mod lifecycle;
mod raw;
mod reduce;
mod slice;
mod window;

pub use buffer::{DynBuffer, KnownType};
pub use lifecycle::Lifecycle;
pub use raw::{Raw, RawOp, RawPart};
pub use reduce::DynReduceOp;
pub use slice::{DynSlice, DynSliceMut};
pub use window::WindowFlags;

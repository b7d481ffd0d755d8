//! Run-time twins: the same things with the type parameter turned into a value.
//!
//! | compile time | run time | back |
//! |---|---|---|
//! | `Buffer<f32, D>` | [`DynBuffer<D>`] | [`try_into_typed`](DynBuffer::try_into_typed) |
//! | `Sum`, `Avg`, .. | [`DynReduceOp`] | |
//! | `Host<At<0>>`, .. | `Host<AnyDevice>` | |
//! | `Communicator<W, Ready>`, .. | [`Lifecycle<W>`] | [`Lifecycle::ready`] and [`Lifecycle::try_into_ready`] |
//! | `Window<T, W, LocalOnly>` | [`WindowFlags`] | [`WindowFlags::is`] |
//!
//! Methods have the same names; what the compiler would have refused is an error with a name.

mod buffer;
mod lifecycle;
mod reduce;
mod window;

pub use buffer::{DynBuffer, KnownType};
pub use lifecycle::Lifecycle;
pub use reduce::DynReduceOp;
pub use window::WindowFlags;

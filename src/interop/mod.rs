//! Other libraries' memory, streams and tensors.
//!
//! What the compiler knows the type of is adopted and lent as it is: [`Device::adopt`](crate::Device::adopt),
//! [`Device::lend`](crate::Device::lend). A [`Tensor`] is what is known at run time only.

#[cfg(feature = "candle")]
pub mod candle;
#[cfg(feature = "cuda")]
mod cudarc;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod tensor;

pub use tensor::{Described, Tensor, TensorPlace};

//! Other libraries' memory, streams and tensors.
//!
//! Types that the compiler knows are adopted and lent directly:
//! [`Device::adopt`](crate::Device::adopt), [`Device::lend`](crate::Device::lend). A [`Tensor`] has
//! its type, shape and place at run time.

#[cfg(feature = "candle")]
pub mod candle;
#[cfg(feature = "cuda")]
mod cudarc;
#[cfg(feature = "cupy")]
pub mod cupy;
#[cfg(feature = "dlpack")]
pub mod dlpack;
mod export;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "numpy")]
pub mod numpy;
#[cfg(feature = "python")]
pub mod python;
mod tensor;
#[cfg(feature = "torch")]
pub mod torch;

pub use export::Exported;
pub use tensor::{Described, Tensor, TensorPlace};

//! Other libraries' memory, streams and tensors.
//!
//! What the compiler knows the type of is adopted and lent as it is: [`Device::adopt`](crate::Device::adopt),
//! [`Device::lend`](crate::Device::lend). A [`Tensor`] is what is known at run time only.

#[cfg(feature = "candle")]
pub mod candle;
mod claims;
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

pub(crate) use claims::Claim;

pub use export::Exported;
pub use tensor::{Described, Tensor, TensorPlace};

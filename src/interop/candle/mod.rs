//! candle's tensors, feature `candle`; those on GPUs, feature `candle-cuda`, which builds candle's kernels
//! with `nvcc`.
//!
//! A tensor is lent where it is, and nothing is copied. What reads it takes a reference, as
//! [`Device::lend`] does for a slice; what writes it takes one of these functions:
//!
//! | | reads | writes |
//! |---|---|---|
//! | `device.lend(&x, \|x\| ..)` | `x` | |
//! | `device.lend(vec![&x, &y], \|xs\| ..)` | all of them | |
//! | [`in_place(&device, &x, \|x\| ..)`](in_place) | `x` | `x` |
//! | [`in_place_each(&device, &[&x, &y], \|xs\| ..)`](in_place_each) | all of them | all of them |
//! | [`between(&device, &x, &y, \|x, y\| ..)`](between) | `x` | `y` |
//!
//! The closure uses the views, and no method of candle's on these tensors or on others over the same
//! memory. What is lent to be written is out of its tensor until the call returns, and such a method is an
//! error of candle's, on other threads too ([`in_place`]). What is lent to be read stays, under candle's
//! lock: it can be read meanwhile, and what writes it (`var.set(..)`, an operation in place) waits for the
//! end of the loan: **in the closure itself, for ever**. A loan of ours that would write what another one
//! has, or read what another one writes, is [`Error::NotAdoptable`]; so ranks that are threads have a tensor
//! each to write.
//!
//! The elements are one piece of memory in C order: a tensor, or a part of one from the middle (`narrow`
//! along the first dimension). Another order is refused, since no rank knows in which one the others have
//! theirs; of a transposed tensor, its `t()?` is the same memory in C order.
//!
//! Gradients are not recorded. A [`Var`](candle_core::Var) is lent as its tensor.
//!
//! On a GPU our first use comes after what is on the tensor's stream, and that stream waits for our last
//! one; the host does not wait. candle's `Device::new_cuda` uses CUDA's per-thread stream: lend on the
//! thread that computes. The device that [`device`] gives has a stream of its own.
//!
//! candle takes no memory that is not its own, so there is no tensor in memory of NCCL's, which a window
//! needs: fill the window with [`Stream::copy`](crate::Stream::copy) from a lent tensor.
//!
//! ```
//! use candle_core::Tensor;
//! use typed_nccl::interop::candle;
//! use typed_nccl::{Avg, Host, Result, Seat, Sum};
//!
//! fn main() -> Result<()> {
//!     let comm = Seat::local(1).remove(0).init(Host::local()?)?;
//!     let device = candle::device(comm.device())?;
//!     let x = Tensor::arange(0.0_f32, 6.0, &device)?.reshape((2, 3))?;
//!     let y = x.zeros_like()?;
//!     candle::between(comm.device(), &x, &y, |x, y| comm.all_reduce(x, y, Sum))?;
//!     candle::in_place(comm.device(), &y, |y| comm.all_reduce_in_place(y, Avg))?;
//!     assert_eq!(y.to_vec2::<f32>()?, x.to_vec2::<f32>()?);
//!     comm.finish()
//! }
//! ```

mod in_place;
mod lend;
mod storage;
mod taken;

pub(crate) use lend::Locked;

pub use in_place::{between, in_place, in_place_each};

use crate::error::Error;
use crate::{Device, Result};

/// candle's device for `device`: the CPU, or the same GPU with a stream of its own. Local. Make it once:
/// each one of a GPU has a stream, a generator of random numbers and a handle of cuBLAS.
///
/// # Errors
/// candle reports one: it was built without CUDA (feature `candle-cuda`).
pub fn device<D: Device>(device: &D) -> Result<candle_core::Device> {
    match D::KIND {
        "cuda" => Ok(candle_core::Device::new_cuda_with_stream(device.ordinal() as usize)?),
        _ => Ok(candle_core::Device::Cpu),
    }
}

/// [`Error::Other`], for a program that calls both.
impl From<candle_core::Error> for Error {
    fn from(theirs: candle_core::Error) -> Self {
        Self::other(theirs)
    }
}

//! candle's tensors: feature `candle`, or `candle-cuda` for those on GPUs, which builds candle's
//! kernels with `nvcc`.
//!
//! A tensor is lent in place, without a copy. To read one, pass a reference to [`Device::lend`], as
//! for a slice; to write one, use one of these functions:
//!
//! | | reads | writes |
//! |---|---|---|
//! | `device.lend(&x, \|x\| ..)` | `x` | |
//! | `device.lend(vec![&x, &y], \|xs\| ..)` | all of them | |
//! | [`in_place(&device, &x, \|x\| ..)`](in_place) | `x` | `x` |
//! | [`in_place_each(&device, &[&x, &y], \|xs\| ..)`](in_place_each) | all of them | all of them |
//! | [`between(&device, &x, &y, \|x, y\| ..)`](between) | `x` | `y` |
//!
//! [`all_reduce`], [`all_gather`], [`reduce_scatter`] and [`all_to_all`] take a tensor of any
//! layout and return a new one. Layers of a model hold a [`Parallel`], whose operations record
//! gradients. [`storage`] and [`storage_mut`] are lent in custom operations.
//!
//! The closure uses the views, and none of candle's methods on these tensors or on others over the
//! same memory. A tensor that is lent for writing loses its elements until the call returns, and
//! such a method returns an error of candle's, on other threads too ([`in_place`]). A tensor that
//! is lent for reading stays readable, under candle's lock; a method that writes it (`var.set(..)`,
//! an operation in place) waits for the end of the loan, and **in the closure itself, for ever**.
//! While such a write waits on another thread, candle lets nobody read either, so a read in the
//! closure would wait for ever too: use the view. A loan that would write what another loan uses,
//! or read what another writes, is [`Error::NotAdoptable`](crate::Error::NotAdoptable); so ranks
//! that are threads each need a tensor of their own to write.
//!
//! The elements have to be one contiguous block in C order: a tensor, or a range of one (`narrow`
//! along the first dimension). Other orders are refused, since ranks do not know each other's. For
//! a transposed tensor, lend its `t()?`, which is the same memory in C order.
//!
//! Gradients are recorded by a [`Parallel`] alone. A [`Var`](candle_core::Var) is lent as its
//! tensor.
//!
//! On a GPU our first use comes after all work on the tensor's stream, and that stream waits for
//! our last one; the host does not wait. candle's `Device::new_cuda` uses CUDA's per-thread stream,
//! so lend on the thread that computes. The device from [`device`] has a stream of its own.
//!
//! candle cannot adopt memory, so no tensor can be in NCCL's memory, which a window needs. Fill the
//! window with [`Stream::copy`](crate::Stream::copy) from a lent tensor instead.
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

mod collectives;
mod crossing;
mod errors;
mod in_place;
mod lend;
mod parallel;
mod storage;
mod taken;

pub(crate) use lend::Locked;

pub use collectives::{all_gather, all_reduce, all_to_all, reduce_scatter};
pub use errors::ours;
pub use in_place::{between, in_place, in_place_each};
pub use lend::{StorageMut, StorageRef, storage, storage_mut};
pub use parallel::Parallel;
pub use storage::OperandStorage;

use crate::{Device, Result};

/// candle's device for `device`: the CPU, or the same GPU with a stream of its own. Local. Make it
/// once: each device of a GPU has a stream, a random number generator and a cuBLAS handle.
///
/// # Errors
/// candle reports an error: it was built without CUDA (feature `candle-cuda`).
pub fn device<D: Device>(device: &D) -> Result<candle_core::Device> {
    match D::KIND {
        "cuda" => Ok(candle_core::Device::new_cuda_with_stream(device.ordinal() as usize)?),
        _ => Ok(candle_core::Device::Cpu),
    }
}

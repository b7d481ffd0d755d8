//! The NCCL backend: GPUs through CUDA's driver, communication through NCCL.
//!
//! CUDA's half is here: devices, memory, streams, copies, launches. NCCL's is in [`nccl`](crate::nccl).
//!
//! Dropping buffers, streams, marks and pinned memory calls neither the driver nor NCCL: they go to
//! lists of their device, and are looked at when something is opened or allocated again. (A
//! communicator that is dropped while it is poisoned, or by a panic, is aborted there and then.) Host
//! waits poll events, so that each has a deadline.

mod aside;
mod block;
mod convert;
mod copy;
mod declared;
mod driver;
mod event;
mod gpu;
mod graph;
pub(crate) mod kernels;
mod launch;
mod pool;
mod stream;
#[cfg(feature = "python")]
mod whose;

pub(crate) use block::Block;
pub use event::LaunchEvent;
pub(crate) use event::Recorded;
pub use launch::{DeviceView, DeviceViewMut, RawStream};
pub(crate) use stream::CudaStream;
#[cfg(feature = "python")]
pub(crate) use whose::ordinal_of;

pub(crate) use driver::count;
pub(crate) use gpu::Gpu;
pub(crate) use graph::CudaGraph;

/// The NCCL backend.
#[derive(Debug)]
pub enum CudaBackend {}

//! The NCCL backend: GPUs through CUDA's driver, communication through NCCL.
//!
//! This is CUDA's half: devices, memory, streams, copies, launches. NCCL's is in
//! [`nccl`](crate::nccl).
//!
//! Dropping buffers, streams, marks and pinned memory calls neither the driver nor NCCL. They go to
//! lists of their device, which are revisited when something is opened or allocated again. The
//! exception is a communicator that is dropped while poisoned or by a panic: it is aborted at once.
//! Host waits poll events, so that each has a deadline.

mod alias_mapping;
mod block;
pub(crate) mod combine;
mod convert;
mod copy;
mod declared;
mod driver;
mod elementwise;
mod event;
pub(crate) mod exact;
mod gpu;
mod graph;
pub(crate) mod kernels;
mod launch;
mod module;
mod pool;
mod stream;
mod whose;

pub(crate) use block::{Block, adopt_nccls};
pub(crate) use copy::copy_from;
pub(crate) use event::{Recorded, hold, launch_event};
pub use launch::{DeviceView, DeviceViewMut, RawStream};
pub(crate) use stream::CudaStream;
#[cfg(feature = "python")]
pub(crate) use whose::ordinal_of;

pub(crate) use driver::{absent, count, version};
pub(crate) use gpu::Gpu;
pub(crate) use graph::CudaGraph;

/// The NCCL backend.
#[derive(Debug)]
pub enum CudaBackend {}

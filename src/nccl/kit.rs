//! Kernels of this library's own, and what a communicator has for them.

use crate::backend::Kernels;
use crate::cuda::CudaBackend;

// SAFETY: it has none.
unsafe impl Kernels for CudaBackend {}

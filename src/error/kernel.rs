//! Kernels that cannot run.

use thiserror::Error;

use super::Site;
use crate::DType;

/// A kernel that cannot run on this device. Nothing was enqueued.
///
/// ```
/// use typed_nccl::error::KernelFault;
/// use typed_nccl::{Error, Result};
///
/// /// Whether a kernel ran; without a compiler on the machine, the program has another way.
/// fn has_run(outcome: Result<()>) -> Result<bool> {
///     match outcome {
///         Ok(()) => Ok(true),
///         Err(Error::BadKernel(bad)) => match bad.fault {
///             KernelFault::NoCompiler { .. } => Ok(false),
///             _ => Err(Error::BadKernel(bad)),
///         },
///         Err(other) => Err(other),
///     }
/// }
/// # assert_eq!(has_run(Ok(())), Ok(true));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("the kernel `{kernel}` cannot run (at {site}): {fault}")]
pub struct BadKernel {
    /// Its name.
    pub kernel: &'static str,
    /// The reason.
    pub fault: KernelFault,
    /// Where it was launched.
    pub site: Site,
}

/// Why a kernel cannot run.
///
/// See the example of [`BadKernel`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum KernelFault {
    /// No compiler was found on this machine.
    #[error(
        "it is compiled when it first runs, by CUDA's NVRTC, which is not here: {tried}; install it (`pip install nvidia-cuda-nvrtc` for CUDA 13, `nvidia-cuda-nvrtc-cu12` for CUDA 12; Debian's and NVIDIA's packages call it `libnvrtc` and `cuda-nvrtc`), or name it with TYPED_NCCL_NVRTC; a kernel in PTX (`unsafe ptx`) needs none"
    )]
    NoCompiler {
        /// Every place that was tried, and why it failed.
        tried: String,
    },
    /// It does not compile.
    #[error("{compiler} does not compile it for {architecture}:\n{}", .log.trim_end())]
    DoesNotCompile {
        /// The compiler and its version.
        compiler: String,
        /// The target architecture, such as `sm_90`.
        architecture: String,
        /// The compiler's output. Line numbers are those of the file that declares the kernel.
        log: String,
    },
    /// Its body would compute with a type of the program's own.
    #[error(
        "it takes {dtype}, which CUDA C++ does not know: take the bytes as `u8`, or declare the kernel in a file of CUDA that declares the struct"
    )]
    PlainData {
        /// The type.
        dtype: DType,
    },
    /// It is written for a newer GPU.
    #[error(
        "it is written for {needs}, and this GPU is {found}; run it on a GPU that fits, or write one for this"
    )]
    Architecture {
        /// The architecture it needs, such as `sm_90`.
        needs: String,
        /// The GPU's architecture.
        found: String,
    },
    /// The compiler supports no architecture that runs on this GPU.
    #[error(
        "{compiler} compiles for {oldest} and newer, and this GPU is {found}; install an older one, and name it with TYPED_NCCL_NVRTC"
    )]
    CompilerArchitecture {
        /// The compiler and its version.
        compiler: String,
        /// The oldest architecture that it supports.
        oldest: String,
        /// The GPU's architecture.
        found: String,
    },
    /// Headers that the source includes were not found on this machine.
    #[error("its arguments take {what}, which are not here: {tried}")]
    NoHeaders {
        /// The headers.
        what: String,
        /// Every folder that was tried.
        tried: String,
    },
    /// CUDA's driver rejects the code.
    #[error(
        "CUDA's driver does not take its code: {name} ({says}); `cuobjdump` or `ptxas` says more about PTX, and a driver takes PTX of its own release and older ones"
    )]
    NotLoaded {
        /// CUDA's name for it: `CUDA_ERROR_INVALID_PTX`.
        name: String,
        /// CUDA's description.
        says: String,
    },
    /// A barrier belongs to another device communicator than the one passed along with it.
    #[error(
        "its barrier {index} is of another device communicator than the one beside it; take it of that one, by `dev.lsa_barrier({index})?`"
    )]
    OtherBarrier {
        /// Its number.
        index: u32,
    },
    /// A grid beyond the limits of every GPU.
    #[error(
        "a grid of {blocks} blocks of {threads} threads; a grid has 1 to {} blocks, and a block 1 to 1024 threads",
        i32::MAX
    )]
    Grid {
        /// The number of blocks.
        blocks: usize,
        /// Threads per block.
        threads: u32,
    },
}

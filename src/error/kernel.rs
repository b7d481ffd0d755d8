//! Kernels that cannot run.

use std::fmt;

use super::Site;

/// A kernel that cannot run where it is asked to. Nothing was enqueued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadKernel {
    /// Its name.
    pub kernel: &'static str,
    /// Why.
    pub fault: KernelFault,
    /// Where it was to run.
    pub site: Site,
}

/// Why a kernel cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KernelFault {
    /// Nothing on this machine compiles it.
    NoCompiler {
        /// Every place that was tried, and why each failed.
        tried: String,
    },
    /// It does not compile.
    DoesNotCompile {
        /// The compiler and its version.
        compiler: String,
        /// The architecture that it was compiled for, as `sm_90`.
        architecture: String,
        /// What the compiler says; the lines are those of the file that declares the kernel.
        log: String,
    },
    /// It is written for a newer GPU.
    Architecture {
        /// What it needs, as `sm_90`.
        needs: String,
        /// What the GPU is.
        found: String,
    },
    /// The compiler knows no architecture that runs on this GPU.
    CompilerArchitecture {
        /// The compiler and its version.
        compiler: String,
        /// The oldest that it knows.
        oldest: String,
        /// What the GPU is.
        found: String,
    },
    /// What the source includes is not on this machine.
    NoHeaders {
        /// Which headers.
        what: String,
        /// Every folder that was tried.
        tried: String,
    },
    /// CUDA's driver does not take the code.
    NotLoaded {
        /// CUDA's name for it: `CUDA_ERROR_INVALID_PTX`.
        name: String,
        /// What CUDA says about it.
        says: String,
    },
    /// A barrier of another device communicator than the one beside it.
    OtherBarrier {
        /// Its number.
        index: u32,
    },
    /// A grid that no GPU has.
    Grid {
        /// Blocks.
        blocks: usize,
        /// Threads of each.
        threads: u32,
    },
}

impl fmt::Display for BadKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, fault, site } = self;
        write!(f, "the kernel `{kernel}` cannot run (at {site}): ")?;
        match fault {
            KernelFault::NoCompiler { tried } => write!(
                f,
                "it is compiled when it first runs, by CUDA's NVRTC, which is not here: {tried}; install it (`pip install nvidia-cuda-nvrtc` for CUDA 13, `nvidia-cuda-nvrtc-cu12` for CUDA 12; Debian's and NVIDIA's packages call it `libnvrtc` and `cuda-nvrtc`), or name it with TYPED_NCCL_NVRTC; a kernel in PTX (`unsafe ptx`) needs none"
            ),
            KernelFault::DoesNotCompile { compiler, architecture, log } => {
                write!(f, "{compiler} does not compile it for {architecture}:\n{}", log.trim_end())
            }
            KernelFault::Architecture { needs, found } => write!(
                f,
                "it is written for {needs}, and this GPU is {found}; run it on a GPU that fits, or write one for this"
            ),
            KernelFault::CompilerArchitecture { compiler, oldest, found } => write!(
                f,
                "{compiler} compiles for {oldest} and newer, and this GPU is {found}; install an older one, and name it with TYPED_NCCL_NVRTC"
            ),
            KernelFault::NoHeaders { what, tried } => {
                write!(f, "its arguments take {what}, which are not here: {tried}")
            }
            KernelFault::NotLoaded { name, says } => write!(
                f,
                "CUDA's driver does not take its code: {name} ({says}); `cuobjdump` or `ptxas` says more about PTX, and a driver takes PTX of its own release and older ones"
            ),
            KernelFault::OtherBarrier { index } => write!(
                f,
                "its barrier {index} is of another device communicator than the one beside it; take it of that one, by `dev.lsa_barrier({index})?`"
            ),
            KernelFault::Grid { blocks, threads } => write!(
                f,
                "a grid of {blocks} blocks of {threads} threads; a grid has 1 to {} blocks, and a block 1 to 1024 threads",
                i32::MAX
            ),
        }
    }
}

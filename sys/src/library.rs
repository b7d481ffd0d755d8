//! The two libraries with NCCL's interface.

use std::ffi::CStr;
use std::fmt;

/// A library with NCCL's interface. Both report a release of NCCL's: RCCL the one that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Library {
    /// NVIDIA's NCCL.
    Nccl,
    /// AMD's RCCL, `librccl.so`: NCCL's functions by NCCL's names, on HIP's memory and streams. It
    /// lacks some of them in every release.
    Rccl,
}

/// Functions that no NCCL has, and every RCCL has one of.
pub(crate) const RCCLS_OWN: [&CStr; 2] = [c"mscclLoadAlgo", c"ncclAllReduceWithBias"];

impl Library {
    /// Its name: `NCCL` or `RCCL`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nccl => "NCCL",
            Self::Rccl => "RCCL",
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

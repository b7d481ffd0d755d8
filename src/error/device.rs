//! What devices and their libraries say.

use std::fmt;

use super::{Call, NcclResult, NcclVersion, Site};

/// CUDA's driver cannot be used on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoDriver {
    /// What was found, or tried.
    pub why: String,
}

impl fmt::Display for NoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no CUDA driver can be used here: {}; install NVIDIA's driver (`nvidia-smi` shows whether it works), or run on the host: `Host` in the place of `Cuda`, TYPED_NCCL=host:4 with `launch!`",
            self.why
        )
    }
}

/// A GPU that this machine does not have, or that this process does not see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoSuchDevice {
    /// The ordinal asked for, or the last of several.
    pub asked: u32,
    /// How many there are.
    pub count: u32,
}

impl fmt::Display for NoSuchDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, count } = self;
        write!(
            f,
            "cuda:{asked} was asked for, and this process sees {count} GPUs, numbered from 0; `CUDA_VISIBLE_DEVICES` chooses which it sees"
        )
    }
}

/// No NCCL could be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoNccl {
    /// Every place that was tried, and why each failed.
    pub tried: String,
}

impl fmt::Display for NoNccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tried)
    }
}

/// Something that the loaded NCCL, or the machine, does not offer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// What was asked for.
    pub what: String,
    /// What it needs.
    pub needs: String,
    /// What there is.
    pub found: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, needs, found } = self;
        write!(f, "{what} needs {needs}; {found}")
    }
}

/// A call of CUDA's driver failed. A fault of the device stays: every later call fails too, and only
/// a new process gets the device back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CudaFailed {
    /// What was done.
    pub doing: &'static str,
    /// The device.
    pub ordinal: u32,
    /// CUDA's number of the error: a `CUresult`.
    pub code: u32,
    /// CUDA's name for it: `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// What CUDA says about it.
    pub says: String,
}

impl fmt::Display for CudaFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, ordinal, name, says, .. } = self;
        write!(f, "{doing} on cuda:{ordinal} failed: {name} ({says})")
    }
}

/// A call of NCCL's failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NcclFailed {
    /// NCCL's function.
    pub function: &'static str,
    /// The program's call behind it, where there is one.
    pub call: Option<Call>,
    /// What it gave.
    pub result: NcclResult,
    /// What NCCL says about it.
    pub says: String,
    /// The loaded release.
    pub version: NcclVersion,
}

impl fmt::Display for NcclFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, call, result, says, version } = self;
        write!(f, "{function} of NCCL {version} gave {result}")?;
        if let Some(call) = call {
            write!(f, " for {call}")?;
        }
        if !says.is_empty() {
            write!(f, ": {says}")?;
        }
        f.write_str("; `NCCL_DEBUG=WARN` makes NCCL say more")
    }
}

/// A key for encryption that NCCL does not take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadKey {
    /// How many bytes it has.
    pub bytes: usize,
    /// Where there is a zero in it.
    pub zero_at: Option<usize>,
}

impl BadKey {
    /// How many bytes a key has at least.
    pub const LEAST: usize = 32;
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self { bytes, zero_at }, least) = (self, Self::LEAST);
        match zero_at {
            Some(at) => write!(f, "a key ends at a zero, and byte {at} of this one is a zero")?,
            None => write!(f, "a key has at least {least} bytes, and this one has {bytes}")?,
        }
        f.write_str("; `openssl rand -hex 32` makes a good one")
    }
}

/// A signal, or a wait for one, on a communicator that has no window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoWindow {
    /// The method.
    pub operation: &'static str,
    /// Where.
    pub site: Site,
}

impl fmt::Display for NoWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, site } = self;
        write!(
            f,
            "{operation} (at {}): the communicator has no window yet, and its signals are set up with the first symmetric one; make it on all ranks with `comm.window(len)`, or the communicator with `CommConfig::builder().early_signals(true)`; nothing was sent and the communicator is unharmed",
            site
        )
    }
}

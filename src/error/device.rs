//! Failures of devices and their libraries.

use std::fmt;

use thiserror::Error;

use super::{Call, NcclResult, NcclVersion, Site};

/// CUDA's driver cannot be used on this machine.
///
/// ```
/// # #[cfg(feature = "cuda")]
/// # fn main() -> typed_nccl::Result<()> {
/// use typed_nccl::{Cuda, Error};
///
/// match Cuda::any(0) {
///     Ok(device) => println!("{device:?}"),
///     Err(Error::NoDriver(none)) => println!("no driver: {}", none.why),
///     Err(Error::NoSuchDevice(none)) => println!("no GPU {}, only {}", none.asked, none.count),
///     Err(other) => return Err(other),
/// }
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "cuda"))]
/// # fn main() {}
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "no CUDA driver can be used here: {why}; install NVIDIA's driver (`nvidia-smi` shows whether it works), or run on the host: `Host` in the place of `Cuda`, TYPED_NCCL=host:4 with `launch!`, or TYPED_NCCL=host under a launcher"
)]
pub struct NoDriver {
    /// What was found or tried.
    pub why: String,
}

/// A GPU that this machine does not have, or that is not visible to this process.
///
/// See the example of [`NoDriver`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "cuda:{asked} was asked for, and this process sees {count} GPUs, numbered from 0; `CUDA_VISIBLE_DEVICES` chooses which it sees"
)]
pub struct NoSuchDevice {
    /// The ordinal asked for, or the last of several.
    pub asked: u32,
    /// The number of visible GPUs.
    pub count: u32,
}

/// No NCCL could be loaded.
///
/// ```
/// # #[cfg(feature = "cuda")]
/// # fn main() {
/// use typed_nccl::{Error, library};
///
/// match library::version() {
///     Ok(version) => println!("NCCL {version}"),
///     Err(Error::NoNccl(none)) => println!("{}", none.tried),
///     Err(other) => println!("{other}"),
/// }
/// # }
/// # #[cfg(not(feature = "cuda"))]
/// # fn main() {}
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{tried}")]
pub struct NoNccl {
    /// Every place that was tried, and why it failed.
    pub tried: String,
}

/// A feature that the loaded NCCL or the machine lacks.
///
/// ```
/// # use typed_nccl::{Error, Host, Sum, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let mut x = comm.device().zeros::<f32>(4)?;
/// let outcome = comm.estimate(|g| g.all_reduce_in_place(&mut x, Sum));
/// let Err(Error::Unsupported(not)) = outcome else { panic!("{outcome:?}") };
/// println!("{} needs {}, found {}", not.what, not.needs, not.found);
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{what} needs {needs}; {found}")]
pub struct Unsupported {
    /// What was asked for.
    pub what: String,
    /// The requirement.
    pub needs: String,
    /// What was found.
    pub found: String,
}

impl Unsupported {
    #[cold]
    pub(crate) fn error(
        what: impl Into<String>,
        needs: impl Into<String>,
        found: impl Into<String>,
    ) -> super::Error {
        Self { what: what.into(), needs: needs.into(), found: found.into() }.into()
    }
}

/// A CUDA driver call failed. A device fault is permanent: every later call fails too, and only a
/// new process can use the device again.
///
/// ```
/// use typed_nccl::Error;
///
/// /// Only a new process can use the GPU again.
/// fn needs_new_process(error: &Error) -> bool {
///     matches!(error, Error::CudaFailed(failed) if failed.name == "CUDA_ERROR_ILLEGAL_ADDRESS")
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{doing} on cuda:{ordinal} failed: {name} ({says})")]
pub struct CudaFailed {
    /// What the call was for.
    pub doing: &'static str,
    /// The device.
    pub ordinal: u32,
    /// CUDA's error number: a `CUresult`.
    pub code: u32,
    /// CUDA's name for it: `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// CUDA's description.
    pub says: String,
}

/// An NCCL call failed.
///
/// ```
/// use typed_nccl::Error;
/// use typed_nccl::error::NcclResult;
///
/// fn is_network(error: &Error) -> bool {
///     match error {
///         Error::NcclFailed(failed) => {
///             matches!(failed.result, NcclResult::SystemError | NcclResult::RemoteError)
///         }
///         _ => false,
///     }
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct NcclFailed {
    /// NCCL's function.
    pub function: &'static str,
    /// The program's call behind it, if there is one.
    pub call: Option<Call>,
    /// The result.
    pub result: NcclResult,
    /// NCCL's description.
    pub says: String,
    /// The loaded library: `NCCL`, or AMD's `RCCL`.
    pub library: &'static str,
    /// The loaded release; of RCCL, the release of NCCL that it follows.
    pub version: NcclVersion,
}

impl fmt::Display for NcclFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, call, result, says, library, version } = self;
        write!(f, "{function} of {library} {version} gave {result}")?;
        if let Some(call) = call {
            write!(f, " for {call}")?;
        }
        if !says.is_empty() {
            write!(f, ": {says}")?;
        }
        write!(f, "; `NCCL_DEBUG=WARN` makes {library} say more")
    }
}

/// An encryption key that NCCL rejects.
///
/// ```
/// # #[cfg(feature = "cuda")]
/// # fn main() {
/// use typed_nccl::error::BadKey;
/// use typed_nccl::{Error, library};
///
/// let short = library::PreSharedKey::new("too short");
/// assert!(matches!(short, Err(Error::BadKey(key)) if key.bytes < BadKey::LEAST));
/// # }
/// # #[cfg(not(feature = "cuda"))]
/// # fn main() {}
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub struct BadKey {
    /// Its length in bytes.
    pub bytes: usize,
    /// The position of a zero byte, if it has one.
    pub zero_at: Option<usize>,
}

impl BadKey {
    /// The minimum length of a key in bytes.
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
///
/// ```
/// # use typed_nccl::{Error, Host, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let refused = comm.signal(comm.ring(1));
/// assert!(matches!(refused, Err(Error::NoWindow(it)) if it.operation == "signal"));
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation} (at {site}): the communicator has no window yet, and its signals are set up with the first symmetric one; make it on all ranks with `comm.window(len)`, or the communicator with `CommConfig::builder().early_signals(true)`; nothing was sent and the communicator is unharmed"
)]
pub struct NoWindow {
    /// The method.
    pub operation: &'static str,
    /// The call site.
    pub site: Site,
}

//! NCCL's result codes and versions.

use std::fmt;

/// The result of a failed NCCL call. NCCL: `ncclResult_t`.
///
/// ```
/// use typed_nccl::error::NcclResult;
///
/// let result = NcclResult::from_code(4);
/// assert_eq!(result, NcclResult::InvalidArgument);
/// assert_eq!((result.code(), result.name()), (4, Some("ncclInvalidArgument")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum NcclResult {
    /// A CUDA call failed inside NCCL.
    UnhandledCudaError,
    /// A call of the operating system or the network failed.
    SystemError,
    /// An NCCL bug, or corrupt memory.
    InternalError,
    /// An argument is not valid.
    InvalidArgument,
    /// The call is not valid here: wrong order, wrong state, or ranks that disagree.
    InvalidUsage,
    /// Another process ended, or the network failed.
    RemoteError,
    /// The operation is still in progress.
    InProgress,
    /// NCCL's own deadline passed. NCCL 2.30.3 and newer.
    Timeout,
    /// A number that no release up to 2.32.3 has.
    Unknown(i32),
}

/// NCCL's number and name for each known result.
const KNOWN: [(NcclResult, i32, &str); 8] = [
    (NcclResult::UnhandledCudaError, 1, "ncclUnhandledCudaError"),
    (NcclResult::SystemError, 2, "ncclSystemError"),
    (NcclResult::InternalError, 3, "ncclInternalError"),
    (NcclResult::InvalidArgument, 4, "ncclInvalidArgument"),
    (NcclResult::InvalidUsage, 5, "ncclInvalidUsage"),
    (NcclResult::RemoteError, 6, "ncclRemoteError"),
    (NcclResult::InProgress, 7, "ncclInProgress"),
    (NcclResult::Timeout, 8, "ncclTimeout"),
];

impl NcclResult {
    /// The result with this number. 0, which is success, gives [`Unknown`](Self::Unknown), because
    /// this type describes failures.
    pub fn from_code(code: i32) -> Self {
        let known = KNOWN.iter().find(|known| known.1 == code);
        known.map_or(Self::Unknown(code), |known| known.0)
    }

    /// NCCL's number.
    pub fn code(self) -> i32 {
        match (self, self.known()) {
            (Self::Unknown(code), _) => code,
            (_, known) => known.map_or(0, |known| known.1),
        }
    }

    /// NCCL's name: `ncclInvalidArgument`.
    pub fn name(self) -> Option<&'static str> {
        self.known().map(|known| known.2)
    }

    fn known(self) -> Option<&'static (Self, i32, &'static str)> {
        KNOWN.iter().find(|known| known.0 == self)
    }
}

impl fmt::Display for NcclResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "result {}", self.code()),
        }
    }
}

/// An NCCL release, ordered by age.
///
/// ```
/// use typed_nccl::NcclVersion;
///
/// assert!(NcclVersion::new(2, 9, 6) < NcclVersion::new(2, 28, 3));
/// assert_eq!(NcclVersion::new(2, 32, 3).to_string(), "2.32.3");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NcclVersion {
    /// The major version, 2 since 2015.
    pub major: u32,
    /// The minor version: the release.
    pub minor: u32,
    /// The patch version.
    pub patch: u32,
}

impl NcclVersion {
    /// The release with this version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(feature = "cuda")]
impl From<nccl_sys::Version> for NcclVersion {
    fn from(version: nccl_sys::Version) -> Self {
        Self::new(version.major, version.minor, version.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::NcclResult;

    #[test]
    fn numbers_come_back() {
        for code in -1..20 {
            assert_eq!(NcclResult::from_code(code).code(), code);
        }
        assert_eq!(NcclResult::from_code(77).to_string(), "result 77");
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn names_and_numbers_are_those_of_the_header() {
        for (name, value, _) in nccl_sys::ncclResult_t::VALUES {
            // The first is success, and the last is a count.
            let is_failure = !["ncclSuccess", "ncclNumResults"].contains(name);
            let named = NcclResult::from_code(value.0).name();
            assert_eq!(named, is_failure.then_some(*name));
        }
    }
}

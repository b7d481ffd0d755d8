//! NCCL features by release. No other file of this crate, of the macros or of the library that runs
//! plans names a version; the declarations of functions and fields record their own.

use crate::ir::Version;

/// The newest known release, the default target of a plan.
pub const NEWEST: Version = Version(2, 32, 3);

/// A communicator connects its ranks in their first operation, not when it is made.
pub const CONNECTS_LATE: Version = Version(2, 22, 3);

/// 8-bit floats are data types.
pub const FLOAT8: Version = Version(2, 24, 3);

/// `ncclCommRevoke`: another thread can free a thread that is inside NCCL.
pub const FREES_THREADS: Version = Version(2, 28, 7);

/// Copy engines can replace thread blocks.
pub const ZERO_CTAS: Version = Version(2, 28, 3);

/// Windows can be registered with strict ordering.
pub const STRICT_WINDOWS: Version = Version(2, 29, 7);

/// The last release in which all signals from one rank to another are the same one.
pub const ONE_SIGNAL: Version = Version(2, 30, 7);

/// Several ranks of a communicator can share one GPU, if an environment variable of NCCL's allows
/// it.
pub const SHARES_GPUS: Version = Version(2, 30, 3);

/// `ncclCommDestroy` waits for the ranks of the host's other processes.
pub const DESTROY_MEETS: Version = Version(2, 31, 2);

/// A communicator can have several distinct contexts and signals.
pub const SEVERAL_SIGNALS: Version = Version(2, 31, 2);

/// The first symmetric window sets up one-sided operations. In earlier releases, the first of them
/// is secretly collective.
pub const WINDOWS_SET_UP_SIGNALS: Version = Version(2, 31, 2);

/// Windows can be reserved for the network's kernels, or for counted transfers.
pub const SPECIAL_WINDOWS: Version = Version(2, 32, 3);

/// A captured signal does not wait until the previous one is consumed.
pub const CAPTURED_SIGNALS_PILE_UP: Version = Version(2, 32, 3);

/// Listed requirements of a device communicator can include signals and counters. Earlier releases
/// drop them silently.
pub const SIGNALS_OF_LISTS: Version = Version(2, 31, 2);

impl Version {
    /// Whether a plan for this version targets an older release than `since`. The third number does
    /// not count, since nobody runs pre-releases.
    pub(crate) const fn is_before(self, since: Self) -> bool {
        self.0 < since.0 || self.0 == since.0 && self.1 < since.1
    }

    /// The release in the form that messages use.
    pub(crate) fn release(self) -> String {
        format!("{}.{}", self.0, self.1)
    }

    /// The release in the form of `#[target(..)]`.
    pub fn target(self) -> String {
        format!("#[target{:?}]", (self.0, self.1, self.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plans_target_is_a_release() {
        assert!(Version(2, 30, 9).is_before(SEVERAL_SIGNALS));
        assert!(!Version(2, 31, 0).is_before(SEVERAL_SIGNALS));
        assert!(!Version(3, 0, 0).is_before(SEVERAL_SIGNALS));
        assert_eq!(ONE_SIGNAL.target(), "#[target(2, 30, 7)]");
    }
}

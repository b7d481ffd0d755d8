//! What NCCL does since which release. No other file of this crate, of the macros or of the library that
//! runs plans names a version; which functions and fields a release has is said by its declarations.

use crate::ir::Version;

/// The newest release that is known: what a plan is for that does not say.
pub const NEWEST: Version = Version(2, 32, 3);

/// A communicator connects its ranks in their first operation, not when it is made.
pub const CONNECTS_LATE: Version = Version(2, 22, 3);

/// 8-bit floats are data types.
pub const FLOAT8: Version = Version(2, 24, 3);

/// `ncclCommRevoke`: a thread that is inside NCCL can be freed from outside.
pub const FREES_THREADS: Version = Version(2, 28, 7);

/// Copy engines can take the place of thread blocks.
pub const ZERO_CTAS: Version = Version(2, 28, 3);

/// Windows can be registered with strict ordering.
pub const STRICT_WINDOWS: Version = Version(2, 29, 7);

/// The last release in which all signals from one rank to another are one.
pub const ONE_SIGNAL: Version = Version(2, 30, 7);

/// Several ranks of a communicator can share one GPU, where a variable of NCCL's asks for it.
pub const SHARES_GPUS: Version = Version(2, 30, 3);

/// A communicator can have several contexts and signals, which are told apart.
pub const SEVERAL_SIGNALS: Version = Version(2, 31, 2);

/// One-sided operations are set up with the first symmetric window. Before, the first of them is secretly
/// collective.
pub const WINDOWS_SET_UP_SIGNALS: Version = Version(2, 31, 2);

/// Windows can be for the network's kernels only, or for counted transfers.
pub const SPECIAL_WINDOWS: Version = Version(2, 32, 3);

/// A captured signal does not wait for the one before it to be consumed.
pub const CAPTURED_SIGNALS_PILE_UP: Version = Version(2, 32, 3);

/// What a list of requirements of a device communicator asks for has signals and counters too. Before, they
/// are dropped without a word.
pub const SIGNALS_OF_LISTS: Version = Version(2, 31, 2);

impl Version {
    /// Whether a plan for this version is for an older release than `since`. The third number does not
    /// count: nobody runs what a release was before it came out.
    pub(crate) const fn is_before(self, since: Self) -> bool {
        self.0 < since.0 || self.0 == since.0 && self.1 < since.1
    }

    /// The release, as it is called.
    pub(crate) fn release(self) -> String {
        format!("{}.{}", self.0, self.1)
    }

    /// As `#[target(..)]` names the release.
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

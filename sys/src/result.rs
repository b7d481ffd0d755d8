//! Result codes, the version, and what NCCL says about an error.

use std::ffi::{c_char, c_int};

use crate::handles::ncclComm_t;
use crate::macros::{c_enum, functions};

c_enum! {
    /// How a call ended. A library newer than 2.32.3 may return values without a name here.
    #[must_use = "a call that failed has done nothing"]
    pub struct ncclResult_t;
    since "2.18" {
        /// It did what it says.
        ncclSuccess = 0;
        /// A call of CUDA's failed.
        ncclUnhandledCudaError = 1;
        /// A call of the operating system's failed.
        ncclSystemError = 2;
        /// NCCL is at fault, or memory is corrupt.
        ncclInternalError = 3;
        /// An argument is not valid.
        ncclInvalidArgument = 4;
        /// The call is not valid here: wrong order, wrong state, or ranks that disagree.
        ncclInvalidUsage = 5;
        /// Another process ended, or the network failed.
        ncclRemoteError = 6;
        /// A non-blocking communicator is still busy with it.
        ncclInProgress = 7;
    }
    since "2.30.3" {
        /// A deadline of NCCL's own passed. The number was [`NUM_RESULTS_BEFORE_TIMEOUT`] before.
        ncclTimeout = 8;
        /// How many codes 2.32.3 has; not a result.
        ncclNumResults = 9;
    }
}

/// `ncclNumResults` of every header before 2.30: no library returned it.
pub const NUM_RESULTS_BEFORE_TIMEOUT: c_int = 8;

functions! {
    /// Writes the library's version, as one integer
    /// ([`Version::from_code`](crate::Version::from_code)).
    fn ncclGetVersion(version: *mut c_int) -> ncclResult_t;

    /// A sentence for a result code, for ever valid. Never null, also for codes without a name.
    fn ncclGetErrorString(result: ncclResult_t) -> *const c_char;

    /// The text of the last warning of this process; the communicator is not looked at and may be
    /// null. The storage is NCCL's and is overwritten by the next warning.
    fn ncclGetLastError(comm: ncclComm_t) -> *const c_char;

    /// Reads the variables that choose what is logged anew. Deprecated by NVIDIA; not on Windows.
    fn ncclResetDebugInit();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_codes_survive() {
        assert_eq!(format!("{:?}", ncclResult_t(4)), "ncclInvalidArgument");
        assert_eq!(format!("{:?}", ncclResult_t(77)), "ncclResult_t(77)");
        assert_eq!(ncclResult_t(77).name(), None);
    }
}

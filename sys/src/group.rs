//! Groups of calls, and the simulation of one.

use std::ffi::{c_float, c_uint};

use crate::macros::{end_of, functions, layout};
use crate::result::ncclResult_t;
use crate::version::BOUND;

/// A float that is not set.
pub const NCCL_UNDEF_FLOAT: c_float = -1.0;

/// The magic number of [`ncclSimInfo_t`]: not the one of the other structs, and not named in the
/// header.
pub const SIM_INFO_MAGIC: c_uint = 0x7468_5283;

layout! {
    /// What the simulation of a group found.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclSimInfo_t;
    since "2.22.3" {
        /// The end of the last field.
        size: usize,
        /// [`SIM_INFO_MAGIC`].
        magic: c_uint,
        /// The code of the header's version.
        version: c_uint,
        /// Out: the estimated time of the group, in microseconds.
        estimatedTime: c_float,
    }
}

impl ncclSimInfo_t {
    /// `NCCL_SIM_INFO_INITIALIZER`, with the size of what is set.
    pub const fn new() -> Self {
        Self {
            size: end_of!(Self, estimatedTime: c_float),
            magic: SIM_INFO_MAGIC,
            version: BOUND.code(),
            estimatedTime: NCCL_UNDEF_FLOAT,
        }
    }
}

impl Default for ncclSimInfo_t {
    fn default() -> Self {
        Self::new()
    }
}

functions! {
    /// Opens a group on this thread; groups nest.
    fn ncclGroupStart() -> ncclResult_t;

    /// Closes a group; the outermost one issues everything that was called since.
    fn ncclGroupEnd() -> ncclResult_t;

    /// Closes a group without issuing it, and writes what it would have cost.
    fn ncclGroupSimulateEnd(simInfo: *mut ncclSimInfo_t) -> ncclResult_t;
}

const _: () = {
    assert!(size_of::<ncclSimInfo_t>() == 24 && align_of::<ncclSimInfo_t>() == 8);
    assert!(ncclSimInfo_t::new().size == 20);
};

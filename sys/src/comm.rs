//! The life of a communicator: making, splitting, suspending, ending.

use std::ffi::c_int;

use crate::config::ncclConfig_t;
use crate::handles::{ncclComm_t, ncclUniqueId};
use crate::macros::{c_enum, functions};
use crate::result::ncclResult_t;

/// The colour of a rank that joins no child.
pub const NCCL_SPLIT_NOCOLOR: c_int = -1;

/// `ncclCommShrink`: the parent is sound. Since 2.27.
pub const NCCL_SHRINK_DEFAULT: c_int = 0;
/// `ncclCommShrink`: end the parent's operations first. Since 2.27.
pub const NCCL_SHRINK_ABORT: c_int = 1;

/// `ncclCommRevoke`: the only value. Since 2.28.
pub const NCCL_REVOKE_DEFAULT: c_int = 0;

/// `ncclCommSuspend`: release memory. Since 2.29.
pub const NCCL_SUSPEND_MEM: c_int = 1;

c_enum! {
    /// What `ncclCommMemStats` tells.
    pub struct ncclCommMemStat_t;
    since "2.29.7" {
        /// Bytes of device memory that a suspend releases.
        ncclStatGpuMemSuspend = 0;
        /// 1 while suspended, else 0.
        ncclStatGpuMemSuspended = 1;
        /// Bytes of device memory that stay.
        ncclStatGpuMemPersist = 2;
        /// Bytes of device memory in all.
        ncclStatGpuMemTotal = 3;
    }
}

functions! {
    /// Makes an id for one communicator; this process must live until all ranks are connected.
    fn ncclGetUniqueId(uniqueId: *mut ncclUniqueId) -> ncclResult_t;

    /// Joins a communicator as one rank, on the current CUDA device.
    fn ncclCommInitRank(
        comm: *mut ncclComm_t,
        nranks: c_int,
        commId: ncclUniqueId,
        rank: c_int,
    ) -> ncclResult_t;

    /// `ncclCommInitRank` with a configuration; null for the defaults.
    fn ncclCommInitRankConfig(
        comm: *mut ncclComm_t,
        nranks: c_int,
        commId: ncclUniqueId,
        rank: c_int,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t;

    /// `ncclCommInitRankConfig` with several ids, the same on every rank.
    fn ncclCommInitRankScalable(
        newcomm: *mut ncclComm_t,
        nranks: c_int,
        myrank: c_int,
        nId: c_int,
        commIds: *mut ncclUniqueId,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t;

    /// Makes a communicator of this process's devices; writes one handle each.
    fn ncclCommInitAll(
        comm: *mut ncclComm_t,
        ndev: c_int,
        devlist: *const c_int,
    ) -> ncclResult_t;

    /// Makes children of a communicator: ranks of one colour, ordered by key.
    fn ncclCommSplit(
        comm: ncclComm_t,
        color: c_int,
        key: c_int,
        newcomm: *mut ncclComm_t,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t;

    /// Makes a child without some ranks. They do not call it; with a null communicator it crashes.
    fn ncclCommShrink(
        comm: ncclComm_t,
        excludeRanksList: *mut c_int,
        excludeRanksCount: c_int,
        newcomm: *mut ncclComm_t,
        config: *mut ncclConfig_t,
        shrinkFlags: c_int,
    ) -> ncclResult_t;

    /// Makes an id for `ncclCommGrow`; one at a time, each used once.
    fn ncclCommGetUniqueId(comm: ncclComm_t, uniqueId: *mut ncclUniqueId) -> ncclResult_t;

    /// Makes a child with more ranks. Members: `comm`, no rank (-1), the id on one of them and null
    /// on the others. New ranks: no `comm`, the id, their rank.
    fn ncclCommGrow(
        comm: ncclComm_t,
        nRanks: c_int,
        uniqueId: *const ncclUniqueId,
        rank: c_int,
        newcomm: *mut ncclComm_t,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t;

    /// Flushes a communicator; all ranks call it. `ncclCommDestroy` then only frees.
    fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t;

    /// Frees a communicator.
    fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;

    /// Ends a communicator and what it still runs, and frees it.
    fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t;

    /// Stops what a communicator runs, and keeps it for split, shrink and destroy.
    fn ncclCommRevoke(comm: ncclComm_t, revokeFlags: c_int) -> ncclResult_t;

    /// Releases resources of an idle communicator, which cannot be used until it resumes.
    fn ncclCommSuspend(comm: ncclComm_t, flags: c_int) -> ncclResult_t;

    /// Takes back what a suspend released.
    fn ncclCommResume(comm: ncclComm_t) -> ncclResult_t;

    /// Writes one number about a communicator's memory.
    fn ncclCommMemStats(
        comm: ncclComm_t,
        stat: ncclCommMemStat_t,
        value: *mut u64,
    ) -> ncclResult_t;

    /// Writes the communicator's state: success, in progress, or its error.
    fn ncclCommGetAsyncError(comm: ncclComm_t, asyncError: *mut ncclResult_t) -> ncclResult_t;

    /// Writes the number of ranks.
    fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t;

    /// Writes the CUDA ordinal of this rank's device.
    fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t;

    /// Writes this rank.
    fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t;
}

//! The device communicator, as the host sees it, and the resources that kernels ask for.

use std::ffi::{c_int, c_uint, c_void};

use crate::handles::ncclComm_t;
use crate::macros::{functions, layout};
use crate::requirements::{ncclDevCommRequirements_t, ncclDevResourceRequirements_t};
use crate::result::ncclResult_t;
use crate::team::{
    ncclCftLeId_t, ncclDevResourceHandle_t, ncclGinSignal_t, ncclMultimemHandle_t, ncclTeam_t,
};
use crate::version::Version;
use crate::window::ncclWindow_t;

/// The most connections of a device communicator to the network. Since 2.29.
pub const NCCL_GIN_MAX_CONNECTIONS: usize = 4;

/// The most ways to the network at a time. Since 2.31.
pub const NCCL_GIN_MAX_ACTIVE_BACKENDS: c_int = 4;

/// The granularity of barriers of counted transfers, in bytes. Since 2.31.
pub const NCCL_CFT_BARRIER_ALIGN: c_int = 16;

layout! {
    /// Barriers among the ranks that share memory.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclLsaBarrierHandle_t;
    since "2.28.3" {
        /// Their memory.
        bufHandle: ncclDevResourceHandle_t,
        /// How many.
        nBarriers: c_int,
    }
}

layout! {
    /// Barriers over the network.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclGinBarrierHandle_t;
    since "2.28.7" {
        /// The first signal.
        signal0: ncclGinSignal_t,
        /// Was a buffer up to 2.29.3.
        unused: ncclDevResourceHandle_t,
    }
}

layout! {
    /// Barriers of counted transfers.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclCftBarrierHandle_t;
    since "2.31.2" {
        /// Their memory.
        bufHandle: ncclDevResourceHandle_t,
        /// How many.
        nBarriers: c_int,
    }
}

layout! {
    /// The all-to-all among the ranks that share memory.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclLLA2AHandle_t;
    since "2.28.3" {
        /// Its memory.
        bufHandle: ncclDevResourceHandle_t,
        /// Its slots.
        nSlots: u32,
    }
}

layout! {
    /// Memory to send from over the network: NCCL's own, which 2.32 declares for Windows alone.
    /// Older libraries have it with more fields and no header for it.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclGinOutboxHandle;
    since "2.32.3" {
        /// Its memory.
        bufHandle: ncclDevResourceHandle_t,
        /// The logarithm of its size.
        size_log2: u32,
    }
}

layout! {
    /// Memory to receive into over the network: NCCL's own, which 2.32 declares for Windows alone.
    /// Older libraries have it with other fields and no header for it.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclGinInboxA2AHandle;
    since "2.32.3" {
        /// Its memory.
        bufHandle: ncclDevResourceHandle_t,
        /// The first signal.
        signals: ncclGinSignal_t,
        /// The logarithm of its size.
        size_log2: u32,
        /// For dividing by the number of peers.
        nPeers_rcp32: u32,
    }
}

layout! {
    /// The window of a device communicator's own memory, as far as kernels need it.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclResourceWindow_vidmem_t;
    since "2.31.2" {
        /// The first byte of the first rank that shares memory.
        lsaFlatBase: *mut std::ffi::c_char,
        /// The distance between ranks, in 4 GiB.
        stride4G: u32,
        /// Where multicast begins, in 4 KiB.
        mcOffset4K: u32,
    }
}

layout! {
    /// A device communicator, to be passed to kernels by value. The host looks into none of it.
    ///
    /// The layout is that of 2.31 and 2.32. Which one a library writes follows from the `version`
    /// of the requirements; those of 2.28, 2.29 and 2.30 are others, of which [`DevCommShape`]
    /// tells.
    #[derive(Clone, Copy)]
    #[allow(missing_docs, reason = "for kernels; the header says no more than the names")]
    pub struct ncclDevComm_t;
    since "2.31.2" {
        magic: c_uint,
        version: c_uint,
        rank: c_int,
        nRanks: c_int,
        nRanks_rcp32: u32,
        lsaRank: c_int,
        lsaSize: c_int,
        lsaSize_rcp32: u32,
        windowTable: *mut c_void,
        resourceWindow: ncclWindow_t,
        resourceWindow_inlined: ncclResourceWindow_vidmem_t,
        hybridDenseGinBarrier: ncclGinBarrierHandle_t,
        lsaMultimem: ncclMultimemHandle_t,
        lsaBarrier: ncclLsaBarrierHandle_t,
        railGinBarrier: ncclGinBarrierHandle_t,
        ginConnectionCount: u8,
        backendIndex: u8,
        ginNetDeviceTypes: [u8; NCCL_GIN_MAX_CONNECTIONS],
        ginHandles: [*mut c_void; NCCL_GIN_MAX_CONNECTIONS],
        ginSignalCount: c_int,
        ginCounterCount: c_int,
        ginSignalShadows: *mut u64,
        ginContextCount: u32,
        ginConnectionStride: c_int,
        ginContextStride: c_int,
        ginStrongLegacySignals: bool,
        abortFlag: *mut u32,
        hybridLsaBarrier: ncclLsaBarrierHandle_t,
        hybridRailGinBarrier: ncclGinBarrierHandle_t,
        worldGinBarrier: ncclGinBarrierHandle_t,
        ginConnectionStride_rcp32: u32,
        cftRank: c_int,
        cftSize: c_int,
        cftMultimemRank: c_int,
        cftMultimemSize: c_int,
        cftMultimemSize_rcp32: u32,
        ucLeId: ncclCftLeId_t,
        mcLeId: ncclCftLeId_t,
        cftBarrier: ncclCftBarrierHandle_t,
        cftMultimemBarrier: ncclCftBarrierHandle_t,
    }
}

/// How a release lays a device communicator out, as far as the host reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevCommShape {
    /// The first release that has it so.
    pub since: Version,
    /// Bytes.
    pub size: usize,
    /// Where `lsaMultimem` is.
    pub lsaMultimem: usize,
    /// Where `lsaBarrier` is.
    pub lsaBarrier: usize,
    /// Where `ginContextCount` is, and its size; nothing before there were any.
    pub ginContextCount: Option<(usize, usize)>,
}

impl DevCommShape {
    /// All that there have been, oldest first.
    pub const ALL: &'static [Self] = &[
        Self::new("2.28.3", 88, 72, None),
        Self::new("2.28.7", 200, 112, Some((136, 1))),
        Self::new("2.29.7", 224, 112, Some((200, 4))),
        Self::new("2.30.3", 240, 120, Some((200, 4))),
        Self::new("2.31.2", 248, 72, Some((152, 4))),
    ];

    /// That of a library to whose requirements `version` was written; `None` before 2.28.3.
    pub fn of(version: Version) -> Option<&'static Self> {
        Self::ALL.iter().rfind(|shape| version.at_least(shape.since))
    }

    const fn new(
        since: &str,
        size: usize,
        lsaMultimem: usize,
        ginContextCount: Option<(usize, usize)>,
    ) -> Self {
        let (since, lsaBarrier) = (Version::parse(since), lsaMultimem + 8);
        Self { since, size, lsaMultimem, lsaBarrier, ginContextCount }
    }
}

functions! {
    /// Makes a device communicator; collective. `outDevComm` is written when the group is over.
    fn ncclDevCommCreate(
        comm: ncclComm_t,
        reqs: *const ncclDevCommRequirements_t,
        outDevComm: *mut ncclDevComm_t,
    ) -> ncclResult_t;

    /// Frees a device communicator; no kernel may use it any more.
    fn ncclDevCommDestroy(comm: ncclComm_t, devComm: *const ncclDevComm_t) -> ncclResult_t;

    /// Writes what barriers among the ranks that share memory need.
    fn ncclLsaBarrierCreateRequirement(
        team: ncclTeam_t,
        nBarriers: c_int,
        outHandle: *mut ncclLsaBarrierHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t;

    /// Writes what barriers over the network need.
    fn ncclGinBarrierCreateRequirement(
        comm: ncclComm_t,
        team: ncclTeam_t,
        nBarriers: c_int,
        outHandle: *mut ncclGinBarrierHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t;

    /// Writes what barriers of counted transfers need. Declared by 2.31 and 2.32, exported by
    /// neither.
    fn ncclCftBarrierCreateRequirement(
        team: ncclTeam_t,
        nBarriers: c_int,
        outHandle: *mut ncclCftBarrierHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t;

    /// The slots that an all-to-all of so many elements needs.
    fn ncclLLA2ACalcSlots(maxElts: c_int, maxEltSize: c_int) -> c_int;

    /// Writes what an all-to-all among the ranks that share memory needs.
    fn ncclLLA2ACreateRequirement(
        nBlocks: c_int,
        nSlots: c_int,
        outHandle: *mut ncclLLA2AHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t;

    /// Writes what memory to send from over the network needs. Not declared outside Windows.
    fn ncclGinOutboxCreateRequirement(
        nBlocks: c_int,
        size_log2: c_int,
        outHandle: *mut ncclGinOutboxHandle,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t;

    /// Writes what memory to receive into over the network needs. Not declared outside Windows.
    fn ncclGinInboxA2ACreateRequirement(
        peers: ncclTeam_t,
        nBlocks: c_int,
        size_log2: c_int,
        outHandle: *mut ncclGinInboxA2AHandle,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t;
}

const _: () = {
    assert!(size_of::<ncclDevComm_t>() == 248 && align_of::<ncclDevComm_t>() == 8);
    assert!(size_of::<ncclResourceWindow_vidmem_t>() == 16);
    assert!(size_of::<ncclLsaBarrierHandle_t>() == 8);
    assert!(size_of::<ncclGinBarrierHandle_t>() == 8);
    assert!(size_of::<ncclCftBarrierHandle_t>() == 8);
    assert!(size_of::<ncclLLA2AHandle_t>() == 8);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BOUND, Layout};

    #[test]
    fn the_newest_shape_is_that_of_the_declaration() {
        let newest = DevCommShape::of(BOUND).unwrap();
        let offset = |name: &str| ncclDevComm_t::field(name).map(|field| field.offset);
        assert_eq!(newest.size, size_of::<ncclDevComm_t>());
        assert_eq!(offset("lsaMultimem"), Some(newest.lsaMultimem));
        assert_eq!(offset("lsaBarrier"), Some(newest.lsaBarrier));
        assert_eq!(offset("ginContextCount"), newest.ginContextCount.map(|(at, _)| at));
        assert_eq!(DevCommShape::of(Version::new(2, 27, 7)), None);
        let size = |patch| DevCommShape::of(patch).unwrap().size;
        assert_eq!((size(Version::new(2, 28, 9)), size(Version::new(2, 29, 3))), (200, 200));
        assert!(DevCommShape::ALL.is_sorted_by_key(|shape| shape.since));
    }
}

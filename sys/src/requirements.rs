//! What a device communicator shall have.

use std::ffi::{c_int, c_uint};
use std::ptr;

use crate::config::{NCCL_API_MAGIC, NCCL_CONFIG_UNDEF_INT};
use crate::layout::Layout;
use crate::macros::{c_enum, end_of, layout};
use crate::properties::{ncclGinConnectionType_t, ncclGinType_t};
use crate::team::{
    ncclDevResourceHandle_t, ncclGinCounter_t, ncclGinSignal_t, ncclMultimemHandle_t, ncclTeam_t,
};
use crate::version::{BOUND, Version};

c_enum! {
    /// Kinds of counted transfers, as bits.
    pub struct ncclCftCap_t;
    since "2.31.2" {
        /// None.
        NCCL_CFT_NONE = 0;
        /// To one rank.
        NCCL_CFT = 1;
        /// By multicast.
        NCCL_CFT_MULTIMEM = 2;
    }
}

layout! {
    /// A resource of one's own: memory in each rank's buffer, signals, counters. A list; where it
    /// is put is written to the `out` pointers when the device communicator is made.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclDevResourceRequirements_t;
    since "2.28.7" {
        /// The next one, or null.
        next: *mut ncclDevResourceRequirements_t,
        /// Bytes.
        bufferSize: usize,
        /// Their alignment.
        bufferAlign: usize,
        /// Out, unless null: where they are.
        outBufferHandle: *mut ncclDevResourceHandle_t,
        /// Signals. Not heeded from 2.29 to 2.30.
        ginSignalCount: c_int,
        /// Counters. Not heeded from 2.29 to 2.30.
        ginCounterCount: c_int,
        /// Out, unless null: the first signal.
        outGinSignalStart: *mut ncclGinSignal_t,
        /// Out, unless null: the first counter.
        outGinCounterStart: *mut ncclGinCounter_t,
    }
}

impl ncclDevResourceRequirements_t {
    /// Nothing.
    pub const fn new() -> Self {
        Self {
            next: ptr::null_mut(),
            bufferSize: 0,
            bufferAlign: 0,
            outBufferHandle: ptr::null_mut(),
            ginSignalCount: 0,
            ginCounterCount: 0,
            outGinSignalStart: ptr::null_mut(),
            outGinCounterStart: ptr::null_mut(),
        }
    }
}

impl Default for ncclDevResourceRequirements_t {
    fn default() -> Self {
        Self::new()
    }
}

layout! {
    /// A team that the device communicator shall know. A list.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclTeamRequirements_t;
    since "2.28.3" {
        /// The next one, or null.
        next: *mut ncclTeamRequirements_t,
        /// The team.
        team: ncclTeam_t,
        /// Whether it shall have multicast.
        multimem: bool,
        /// Out, unless null: the multicast mapping.
        outMultimemHandle: *mut ncclMultimemHandle_t,
    }
}

layout! {
    /// What a device communicator shall have; the same on every rank. A version newer than the
    /// library is refused. 2.28 has a struct of this name that begins with the lists: its
    /// `ncclDevCommCreate` must not be given this one.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclDevCommRequirements_t;
    since "2.29.2" {
        /// The end of the last field that is set here.
        size: usize,
        /// [`NCCL_API_MAGIC`].
        magic: c_uint,
        /// The code of a header's version; it decides the layout of the device communicator too.
        version: c_uint,
        /// Resources of one's own, or null.
        resourceRequirementsList: *mut ncclDevResourceRequirements_t,
        /// Teams, or null.
        teamRequirementsList: *mut ncclTeamRequirements_t,
        /// Multicast among the ranks that share memory.
        lsaMultimem: bool,
        /// Barriers of all ranks.
        barrierCount: c_int,
        /// Barriers of the ranks that share memory.
        lsaBarrierCount: c_int,
        /// Barriers of the ranks of a rail.
        railGinBarrierCount: c_int,
        /// Thread blocks of the all-to-all among the ranks that share memory.
        lsaLLA2ABlockCount: c_int,
        /// Slots of it.
        lsaLLA2ASlotCount: c_int,
        /// The network, to all ranks. Superseded by `ginConnectionType`.
        ginForceEnable: bool,
        /// Contexts for the network, as a hint.
        ginContextCount: c_int,
        /// Signals, from number 0.
        ginSignalCount: c_int,
        /// Counters, from number 0.
        ginCounterCount: c_int,
    }
    since "2.29.7" {
        /// Which ranks kernels reach over the network.
        ginConnectionType: ncclGinConnectionType_t,
        /// Contexts that nobody else uses.
        ginExclusiveContexts: bool,
        /// The depth of the network's queues; 0 for NCCL's choice.
        ginQueueDepth: c_int,
    }
    since "2.30.3" {
        /// The network's traffic class.
        ginTrafficClass: c_int,
        /// Barriers of all ranks, over the network alone.
        worldGinBarrierCount: c_int,
    }
    since "2.30.7" {
        /// Whether strong signals are used. True unless said otherwise.
        ginStrongSignalsRequired: bool,
        /// Whether signals by address are used. True unless said otherwise.
        ginVaSignalsRequired: bool,
    }
    since "2.31.2" {
        /// The distance of `NCCL_GIN_CONNECTION_CUSTOM_STRIDE`.
        ginCustomStride: c_int,
        /// The way to the network.
        ginType: ncclGinType_t,
        /// Kernels are compiled for the library's own version; the device communicator then takes
        /// `devCommRuntimeVersionSize` bytes.
        useRuntimeVersion: bool,
        /// Values of [`ncclCftCap_t`], as bits.
        cftCaps: c_int,
        /// Barriers of counted transfers.
        cftBarrierCount: c_int,
    }
}

impl ncclDevCommRequirements_t {
    /// `NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER`, with the size of what is set; for libraries from
    /// 2.32.3 on.
    pub const fn new() -> Self {
        Self {
            size: end_of!(Self, cftBarrierCount: c_int),
            magic: NCCL_API_MAGIC,
            version: BOUND.code(),
            resourceRequirementsList: ptr::null_mut(),
            teamRequirementsList: ptr::null_mut(),
            lsaMultimem: false,
            barrierCount: 0,
            lsaBarrierCount: 0,
            railGinBarrierCount: 0,
            lsaLLA2ABlockCount: 0,
            lsaLLA2ASlotCount: 0,
            ginForceEnable: false,
            ginContextCount: 4,
            ginSignalCount: 0,
            ginCounterCount: 0,
            ginConnectionType: ncclGinConnectionType_t::NCCL_GIN_CONNECTION_NONE,
            ginExclusiveContexts: false,
            ginQueueDepth: 0,
            ginTrafficClass: NCCL_CONFIG_UNDEF_INT,
            worldGinBarrierCount: 0,
            ginStrongSignalsRequired: true,
            ginVaSignalsRequired: true,
            ginCustomStride: 1,
            ginType: ncclGinType_t::NCCL_GIN_TYPE_NONE,
            useRuntimeVersion: false,
            cftCaps: ncclCftCap_t::NCCL_CFT_NONE.0,
            cftBarrierCount: 0,
        }
    }

    /// The struct as the older of this header and the `loaded` library has it; fields that the
    /// library does not know are not read. `None` before 2.29.2, whose struct is another.
    ///
    /// The device communicator that comes back has that version's layout too:
    /// [`ncclDevComm_t`](crate::ncclDevComm_t) is the one of 2.31 and 2.32.
    pub fn for_library(loaded: Version) -> Option<Self> {
        let version = BOUND.min(loaded);
        let size = Self::end_in(version);
        (size > 0).then_some(Self { size, version: version.code(), ..Self::new() })
    }
}

impl Default for ncclDevCommRequirements_t {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = {
    assert!(size_of::<ncclDevResourceRequirements_t>() == 56);
    assert!(size_of::<ncclTeamRequirements_t>() == 32);
    assert!(size_of::<ncclDevCommRequirements_t>() == 120);
    assert!(ncclDevCommRequirements_t::new().size == 116);
    assert!(std::mem::offset_of!(ncclDevCommRequirements_t, ginConnectionType) == 72);
    assert!(std::mem::offset_of!(ncclDevCommRequirements_t, ginStrongSignalsRequired) == 92);
    assert!(std::mem::offset_of!(ncclDevCommRequirements_t, ginCustomStride) == 96);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_newer_than_the_library() {
        let make = ncclDevCommRequirements_t::for_library;
        assert!(make(Version::new(2, 28, 9)).is_none());
        let sized = |patch| make(patch).map(|made| (made.version, made.size));
        assert_eq!(sized(Version::new(2, 29, 3)), Some((22903, 72)));
        assert_eq!(sized(Version::new(2, 29, 7)), Some((22907, 84)));
        assert_eq!(sized(Version::new(2, 30, 7)), Some((23007, 94)));
        assert_eq!(sized(BOUND), Some((23203, 116)));
    }
}

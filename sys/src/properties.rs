//! What a communicator can do.

use std::ffi::{c_int, c_uint};

use crate::config::NCCL_API_MAGIC;
use crate::handles::ncclComm_t;
use crate::layout::Layout;
use crate::macros::{c_enum, end_of, functions, layout};
use crate::result::ncclResult_t;
use crate::version::{BOUND, Version};

c_enum! {
    /// How kernels reach the network.
    pub struct ncclGinType_t;
    since "2.29.2" {
        /// Not; as a requirement: any way.
        NCCL_GIN_TYPE_NONE = 0;
        /// Through a thread of the host's.
        NCCL_GIN_TYPE_PROXY = 2;
        /// Directly, with DOCA.
        NCCL_GIN_TYPE_GDAKI = 3;
    }
    since "2.30.7" {
        /// Directly, with GPI.
        NCCL_GIN_TYPE_GPI = 4;
    }
    since "2.31.2" {
        /// Directly, on EFA.
        NCCL_GIN_TYPE_EFA_GDA = 5;
        /// Above all of 2.31 and 2.32; not a way.
        NCCL_GIN_MAX_TYPES = 6;
    }
}

c_enum! {
    /// Which ranks a kernel reaches over the network.
    pub struct ncclGinConnectionType_t;
    since "2.29.7" {
        /// None.
        NCCL_GIN_CONNECTION_NONE = 0;
        /// All.
        NCCL_GIN_CONNECTION_FULL = 1;
        /// Those of the same rail.
        NCCL_GIN_CONNECTION_RAIL = 2;
    }
    since "2.31.2" {
        /// Those at a distance that is asked for.
        NCCL_GIN_CONNECTION_CUSTOM_STRIDE = 3;
    }
}

layout! {
    /// What a communicator can do. NCCL writes the fields that `version` knows; a version newer
    /// than the library is refused.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclCommProperties_t;
    since "2.29.2" {
        /// The end of the last field.
        size: usize,
        /// [`NCCL_API_MAGIC`].
        magic: c_uint,
        /// The code of a header's version.
        version: c_uint,
        /// This rank.
        rank: c_int,
        /// The number of ranks.
        nRanks: c_int,
        /// The CUDA ordinal of the device.
        cudaDev: c_int,
        /// The NVML index of the device.
        nvmlDev: c_int,
        /// Whether device communicators and symmetric windows can be had.
        deviceApiSupport: bool,
        /// Whether NVLink multicast can be had.
        multimemSupport: bool,
    }
    since "2.29.7" {
        /// The best way of kernels to the network. 2.29.2 and 2.29.3 have it as one byte, right
        /// after `multimemSupport`, where there is padding here.
        ginType: ncclGinType_t,
        /// How many sets of ranks share memory.
        nLsaTeams: c_int,
        /// Whether one-sided operations of the host can be had.
        hostRmaSupport: bool,
        /// The best way of kernels to the network within a rail.
        railedGinType: ncclGinType_t,
    }
    since "2.31.2" {
        /// A number that ranks of one communicator have in common.
        commHash: u64,
        /// The smallest distance for a stride of one's own.
        ginMinStride: c_int,
        /// Which ranks a kernel can reach over the network.
        ginConnectionType: ncclGinConnectionType_t,
        /// Which ways to the network can be had, by the number of the way.
        ginSupport: [bool; 64],
        /// Bytes of the library's own device communicator.
        devCommRuntimeVersionSize: usize,
    }
    since "2.32.3" {
        /// Whether counted transfers can be had.
        cftSupport: bool,
        /// Whether counted transfers by multicast can be had.
        cftMulticastSupport: bool,
        /// Whether windows for counted transfers can be had.
        cftCountedSupport: bool,
    }
}

impl ncclCommProperties_t {
    /// `NCCL_COMM_PROPERTIES_INITIALIZER`, with the size of what is declared; for libraries from
    /// 2.32.3 on.
    pub const fn new() -> Self {
        Self {
            size: end_of!(Self, cftCountedSupport: bool),
            magic: NCCL_API_MAGIC,
            version: BOUND.code(),
            rank: 0,
            nRanks: 0,
            cudaDev: 0,
            nvmlDev: 0,
            deviceApiSupport: false,
            multimemSupport: false,
            ginType: ncclGinType_t::NCCL_GIN_TYPE_NONE,
            nLsaTeams: 0,
            hostRmaSupport: false,
            railedGinType: ncclGinType_t::NCCL_GIN_TYPE_NONE,
            commHash: 0,
            ginMinStride: 0,
            ginConnectionType: ncclGinConnectionType_t::NCCL_GIN_CONNECTION_NONE,
            ginSupport: [false; 64],
            devCommRuntimeVersionSize: 0,
            cftSupport: false,
            cftMulticastSupport: false,
            cftCountedSupport: false,
        }
    }

    /// The struct as the older of this header and the `loaded` library has it; fields that the
    /// library does not know stay zero. `None` before 2.29.2, which has no such struct.
    pub fn for_library(loaded: Version) -> Option<Self> {
        let version = BOUND.min(loaded);
        let size = Self::end_in(version);
        (size > 0).then_some(Self { size, version: version.code(), ..Self::new() })
    }
}

impl Default for ncclCommProperties_t {
    fn default() -> Self {
        Self::new()
    }
}

functions! {
    /// Writes what a communicator can do.
    fn ncclCommQueryProperties(
        comm: ncclComm_t,
        props: *mut ncclCommProperties_t,
    ) -> ncclResult_t;
}

const _: () = {
    assert!(size_of::<ncclCommProperties_t>() == 152);
    assert!(align_of::<ncclCommProperties_t>() == 8);
    assert!(ncclCommProperties_t::new().size == 147);
    assert!(std::mem::offset_of!(ncclCommProperties_t, ginType) == 36);
    assert!(std::mem::offset_of!(ncclCommProperties_t, commHash) == 56);
    assert!(std::mem::offset_of!(ncclCommProperties_t, cftSupport) == 144);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_newer_than_the_library() {
        assert!(ncclCommProperties_t::for_library(Version::new(2, 28, 9)).is_none());
        let old = ncclCommProperties_t::for_library(Version::new(2, 29, 3)).unwrap();
        assert_eq!((old.version, old.size), (22903, 34));
        let newer = ncclCommProperties_t::for_library(Version::new(2, 40, 0)).unwrap();
        assert_eq!((newer.version, newer.size), (23203, 147));
    }
}

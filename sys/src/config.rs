//! The configurations of a communicator and of one collective.
//!
//! Both begin with `size`, `magic` and `version`. NCCL copies `size` bytes over its defaults, then
//! puts the defaults back into the fields that are newer than `version`; what is newer than the
//! library itself is ignored without a word. So a config is always written as the bound header's,
//! for any library.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::handles::cudaEvent_t;
use crate::macros::{c_enum, end_of, layout};
use crate::version::BOUND;

/// The magic number of NCCL's versioned structs.
pub const NCCL_API_MAGIC: c_uint = 0xcafe_beef;

/// An integer that is not set.
pub const NCCL_CONFIG_UNDEF_INT: c_int = c_int::MIN;

/// A pointer that is not set.
pub const NCCL_CONFIG_UNDEF_PTR: *mut c_void = ptr::null_mut();

/// `CTAPolicy`: as fast as it gets.
pub const NCCL_CTA_POLICY_DEFAULT: c_int = 0;
/// `CTAPolicy`: fewer thread blocks where that costs little. Since 2.27.
pub const NCCL_CTA_POLICY_EFFICIENCY: c_int = 1;
/// `CTAPolicy`: no thread blocks where copy engines can do it. Since 2.28.
pub const NCCL_CTA_POLICY_ZERO: c_int = 2;

c_enum! {
    /// `hostCftMode`: counted transfers from the host.
    pub struct ncclHostCftMode_t;
    since "2.31.2" {
        /// NCCL chooses.
        ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT;
        /// On.
        ncclHostCftEnable = 1;
        /// Off.
        ncclHostCftDisable = 2;
        /// On, with another way where it is not to be had.
        ncclHostCftFallback = 3;
    }
}

c_enum! {
    /// `nvlsHostMode`: which uses of NVLink multicast are off, as bits.
    pub struct ncclNvlsHostMode_t;
    since "2.32.3" {
        /// NCCL chooses.
        ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT;
        /// None is off.
        ncclNvlsHostModeEnable = 0;
        /// The transport is off, and the path of registered buffers.
        ncclNvlsHostModeDisableTransport = 1;
        /// The symmetric kernels and the copy engines do without multicast.
        ncclNvlsHostModeDisableSymmetricMultimem = 2;
        /// All are off, future ones too.
        ncclNvlsHostModeDisable = c_int::MAX;
    }
}

layout! {
    /// A communicator's configuration. An integer that is [`NCCL_CONFIG_UNDEF_INT`] and a pointer
    /// that is null leave the choice to NCCL.
    ///
    /// Its tag names no layout: `ncclConfig_v22800` is one struct in 2.28, another in 2.29 and a
    /// third in 2.30.3, `ncclConfig_v23100` one in 2.31 and another in 2.32.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclConfig_t;
    since "2.18" {
        /// The end of the last field that is set here.
        size: usize,
        /// [`NCCL_API_MAGIC`].
        magic: c_uint,
        /// The code of the header's version.
        version: c_uint,
        /// 1: calls return when they are done. 0: they return at once, and the result is polled
        /// for.
        blocking: c_int,
        /// Thread blocks of a cluster, 0 to 8.
        cgaClusterSize: c_int,
        /// The fewest thread blocks of a kernel. Up to 2.31.1 it must not be set alone.
        minCTAs: c_int,
        /// The most thread blocks of a kernel.
        maxCTAs: c_int,
        /// The network plugin; copied.
        netName: *const c_char,
        /// 1: a split child shares its parent's resources.
        splitShare: c_int,
    }
    since "2.26.2" {
        /// The network's traffic class.
        trafficClass: c_int,
    }
    since "2.27.3" {
        /// The communicator's name. NOT copied: it must live as long as NCCL is loaded.
        commName: *const c_char,
        /// 1: reductions in the network's switches.
        collnetEnable: c_int,
        /// One of the `NCCL_CTA_POLICY` values, or several as bits.
        CTAPolicy: c_int,
        /// 1: a shrunk child shares its parent's resources.
        shrinkShare: c_int,
        /// Thread blocks for NVLink multicast.
        nvlsCTAs: c_int,
    }
    since "2.28.3" {
        /// Channels to one peer over the network.
        nChannelsPerNetPeer: c_int,
        /// 1: prefer NVLink over balance.
        nvlinkCentricSched: c_int,
    }
    since "2.29.2" {
        /// How graphs and direct calls mix: 0 one graph at a time, 1 one at a time of either, 2
        /// any.
        graphUsageMode: c_int,
        /// Contexts for one-sided operations; 0 turns them off.
        numRmaCtx: c_int,
    }
    since "2.30.3" {
        /// The most peers of concurrent sends and receives.
        maxP2pPeers: c_int,
    }
    since "2.30.7" {
        /// 0: no order between captured operations on different streams. This was padding.
        graphStreamOrdering: c_int,
    }
    since "2.31.2" {
        /// 1: operations of all communicators on a device run in the order of the host's calls.
        launchOrderImplicit: c_int,
        /// Signals for one-sided operations.
        numRmaSig: c_int,
        /// 1: one-sided operations are set up with the communicator.
        rmaEagerInit: c_int,
        /// A value of [`ncclHostCftMode_t`].
        hostCftMode: c_int,
    }
    since "2.32.3" {
        /// A value of [`ncclNvlsHostMode_t`].
        nvlsHostMode: c_int,
    }
}

impl ncclConfig_t {
    /// `NCCL_CONFIG_INITIALIZER`, with the size of what is set.
    pub const fn new() -> Self {
        Self {
            size: end_of!(Self, nvlsHostMode: c_int),
            magic: NCCL_API_MAGIC,
            version: BOUND.code(),
            blocking: NCCL_CONFIG_UNDEF_INT,
            cgaClusterSize: NCCL_CONFIG_UNDEF_INT,
            minCTAs: NCCL_CONFIG_UNDEF_INT,
            maxCTAs: NCCL_CONFIG_UNDEF_INT,
            netName: ptr::null(),
            splitShare: NCCL_CONFIG_UNDEF_INT,
            trafficClass: NCCL_CONFIG_UNDEF_INT,
            commName: ptr::null(),
            collnetEnable: NCCL_CONFIG_UNDEF_INT,
            CTAPolicy: NCCL_CONFIG_UNDEF_INT,
            shrinkShare: NCCL_CONFIG_UNDEF_INT,
            nvlsCTAs: NCCL_CONFIG_UNDEF_INT,
            nChannelsPerNetPeer: NCCL_CONFIG_UNDEF_INT,
            nvlinkCentricSched: NCCL_CONFIG_UNDEF_INT,
            graphUsageMode: NCCL_CONFIG_UNDEF_INT,
            numRmaCtx: NCCL_CONFIG_UNDEF_INT,
            maxP2pPeers: NCCL_CONFIG_UNDEF_INT,
            graphStreamOrdering: NCCL_CONFIG_UNDEF_INT,
            launchOrderImplicit: NCCL_CONFIG_UNDEF_INT,
            numRmaSig: NCCL_CONFIG_UNDEF_INT,
            rmaEagerInit: NCCL_CONFIG_UNDEF_INT,
            hostCftMode: NCCL_CONFIG_UNDEF_INT,
            nvlsHostMode: NCCL_CONFIG_UNDEF_INT,
        }
    }
}

impl Default for ncclConfig_t {
    fn default() -> Self {
        Self::new()
    }
}

layout! {
    /// Whose option, and which.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ncclConfigExtKey;
    since "2.31.2" {
        /// The vendor: not 0, below 2^24.
        vendorId: c_int,
        /// The vendor's number for the option.
        optionId: c_int,
    }
}

/// The value of a vendor's option.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ncclConfigExtValue {
    /// An integer.
    pub i: c_int,
    /// A string.
    pub s: *const c_char,
    /// Anything of a pointer's size.
    pub raw: *mut c_void,
}

layout! {
    /// A vendor's option for one collective: a list, which NVIDIA's library ignores. The header
    /// leaves the types of `key` and `val` without a name.
    #[derive(Clone, Copy)]
    pub struct ncclConfigExt_t;
    since "2.31.2" {
        /// The next option, or null.
        next: *mut ncclConfigExt_t,
        /// Whose option, and which.
        key: ncclConfigExtKey,
        /// Its value.
        val: ncclConfigExtValue,
    }
}

layout! {
    /// The configuration of one collective: the same on every rank, and valid until the call that
    /// got it has returned. Fields that are not set are the communicator's.
    ///
    /// NCCL believes `size` where `version` is not newer than the library.
    #[derive(Clone, Copy, Debug)]
    pub struct ncclCollConfig_t;
    since "2.31.2" {
        /// The end of the last field that is set here.
        size: usize,
        /// [`NCCL_API_MAGIC`].
        magic: c_uint,
        /// The code of the header's version.
        version: c_uint,
        /// Vendors' options, or null.
        ext: *mut ncclConfigExt_t,
        /// The fewest channels.
        minCTAs: c_int,
        /// The most channels, no more than the communicator's.
        maxCTAs: c_int,
        /// The most channels with NVLink multicast.
        nvlsCTAs: c_int,
        /// Thread blocks of a cluster; the same for all collectives of a group.
        cgaClusterSize: c_int,
        /// Which algorithms may be used; null or empty for any.
        algSelection: *const c_char,
        /// 1: it is an error where none of them can be. The default.
        forceAlgSelection: c_int,
        /// One of the `NCCL_CTA_POLICY` values, or several as bits.
        CTAPolicy: c_int,
        /// A number for profilers; 0 is none. The upper half of all values is NCCL's.
        userProfilerTag: u64,
    }
    since "2.32.3" {
        /// An event of this rank's that is recorded when the kernel has launched; on every rank or
        /// on none.
        launchCompletionEvent: cudaEvent_t,
    }
}

impl ncclCollConfig_t {
    /// `NCCL_COLLCONFIG_INITIALIZER`.
    pub const fn new() -> Self {
        Self {
            size: end_of!(Self, launchCompletionEvent: cudaEvent_t),
            magic: NCCL_API_MAGIC,
            version: BOUND.code(),
            ext: ptr::null_mut(),
            minCTAs: NCCL_CONFIG_UNDEF_INT,
            maxCTAs: NCCL_CONFIG_UNDEF_INT,
            nvlsCTAs: NCCL_CONFIG_UNDEF_INT,
            cgaClusterSize: NCCL_CONFIG_UNDEF_INT,
            algSelection: ptr::null(),
            forceAlgSelection: 1,
            CTAPolicy: NCCL_CONFIG_UNDEF_INT,
            userProfilerTag: 0,
            launchCompletionEvent: ptr::null_mut(),
        }
    }
}

impl Default for ncclCollConfig_t {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = {
    assert!(size_of::<ncclConfig_t>() == 120 && align_of::<ncclConfig_t>() == 8);
    assert!(ncclConfig_t::new().size == 116 && ncclConfig_t::new().version == 23203);
    assert!(std::mem::offset_of!(ncclConfig_t, blocking) == 16);
    assert!(std::mem::offset_of!(ncclConfig_t, netName) == 32);
    assert!(std::mem::offset_of!(ncclConfig_t, commName) == 48);
    assert!(std::mem::offset_of!(ncclConfig_t, graphStreamOrdering) == 92);
    assert!(std::mem::offset_of!(ncclConfig_t, nvlsHostMode) == 112);
    assert!(size_of::<ncclConfigExt_t>() == 24);
    assert!(size_of::<ncclCollConfig_t>() == 72 && ncclCollConfig_t::new().size == 72);
    assert!(std::mem::offset_of!(ncclCollConfig_t, userProfilerTag) == 56);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Version};

    /// The last field of each release, and where it ends.
    #[test]
    fn a_release_knows_so_many_bytes() {
        let end = |version| ncclConfig_t::end_in(Version::parse(version));
        assert_eq!(end("2.18"), 44);
        assert_eq!(end("2.26.5"), 48);
        assert_eq!(end("2.27.7"), 72);
        assert_eq!(end("2.28.9"), 80);
        assert_eq!(end("2.29.7"), 88);
        assert_eq!(end("2.30.4"), 92);
        assert_eq!(end("2.30.7"), 96);
        assert_eq!(end("2.31.2"), 112);
        assert_eq!(end("2.32.3"), ncclConfig_t::new().size);
        assert_eq!(ncclCollConfig_t::end_in(Version::parse("2.30.7")), 0);
    }

    #[test]
    fn fields_say_when_they_came() {
        let field = ncclConfig_t::field("numRmaSig").unwrap();
        assert_eq!(field.since, Version::new(2, 31, 2));
        assert!(ncclConfig_t::field("numRma").is_none());
    }
}

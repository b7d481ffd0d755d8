//! The declarations of `nccl-sys` in a form for comparison.

use std::collections::BTreeMap;
use std::fs;

use nccl_sys::*;

use super::header::Made;
use crate::{Check, Failure, root};

/// A struct of ours.
pub(super) struct Struct {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) align: usize,
    pub(super) fields: &'static [Field],
    /// The end of the fields that a release knows.
    pub(super) end_in: fn(Version) -> usize,
}

/// A value of ours.
pub(super) struct Value {
    pub(super) name: &'static str,
    pub(super) value: i64,
    pub(super) since: Version,
}

fn layout<T: Layout>() -> Struct {
    Struct {
        name: T::NAME,
        size: size_of::<T>(),
        align: align_of::<T>(),
        fields: T::FIELDS,
        end_in: T::end_in,
    }
}

pub(super) fn structs() -> Vec<Struct> {
    vec![
        layout::<ncclUniqueId>(),
        layout::<ncclConfig_t>(),
        layout::<ncclConfigExt_t>(),
        layout::<ncclConfigExtKey>(),
        layout::<ncclCollConfig_t>(),
        layout::<ncclSimInfo_t>(),
        layout::<ncclEncryptionConfig_t>(),
        layout::<ncclWaitSignalDesc_t>(),
        layout::<ncclTeam_t>(),
        layout::<ncclMultimemHandle_t>(),
        layout::<ncclLsaBarrierHandle_t>(),
        layout::<ncclGinBarrierHandle_t>(),
        layout::<ncclCftBarrierHandle_t>(),
        layout::<ncclLLA2AHandle_t>(),
        layout::<ncclGinOutboxHandle>(),
        layout::<ncclGinInboxA2AHandle>(),
        layout::<ncclResourceWindow_vidmem_t>(),
        layout::<ncclDevComm_t>(),
        layout::<ncclDevResourceRequirements_t>(),
        layout::<ncclTeamRequirements_t>(),
        layout::<ncclDevCommRequirements_t>(),
        layout::<ncclCommProperties_t>(),
    ]
}

macro_rules! enums {
    ($($name:ident),* $(,)?) => {{
        let mut values = Vec::new();
        $(values.extend($name::VALUES.iter().map(|(name, value, since)| Value {
            name,
            value: value.0.into(),
            since: *since,
        }));)*
        values
    }};
}

macro_rules! constants {
    ($($since:literal { $($name:ident),* $(,)? })*) => {
        vec![$($(Value {
            name: stringify!($name),
            #[allow(clippy::unnecessary_cast, reason = "the constants have several types")]
            value: $name as i64,
            since: version($since),
        },)*)*]
    };
}

fn version(text: &str) -> Version {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    Version::new(next(), next(), next())
}

/// The values of enums.
pub(super) fn enums() -> Vec<Value> {
    enums![
        ncclResult_t,
        ncclDataType_t,
        ncclRedOp_t,
        ncclScalarResidence_t,
        ncclHostCftMode_t,
        ncclNvlsHostMode_t,
        ncclCommMemStat_t,
        ncclEncryptionMode_t,
        ncclGinType_t,
        ncclGinConnectionType_t,
        ncclCftTeamMode_t,
        ncclCftCap_t,
    ]
}

/// The values of macros. Pointers are null in both.
pub(super) fn constants() -> Vec<Value> {
    constants! {
        "2.18" {
            NCCL_UNIQUE_ID_BYTES,
            NCCL_CONFIG_UNDEF_INT,
            NCCL_CONFIG_UNDEF_PTR,
            NCCL_SPLIT_NOCOLOR,
            NCCL_COMM_NULL,
        }
        "2.22.3" {
            NCCL_UNDEF_FLOAT,
        }
        "2.27.3" {
            NCCL_WIN_DEFAULT,
            NCCL_WIN_COLL_SYMMETRIC,
            NCCL_CTA_POLICY_DEFAULT,
            NCCL_CTA_POLICY_EFFICIENCY,
            NCCL_SHRINK_DEFAULT,
            NCCL_SHRINK_ABORT,
        }
        "2.28.3" {
            NCCL_CTA_POLICY_ZERO,
            NCCL_WIN_REQUIRED_ALIGNMENT,
        }
        "2.28.7" {
            NCCL_REVOKE_DEFAULT,
        }
        "2.29.2" {
            NCCL_API_MAGIC,
        }
        "2.29.7" {
            NCCL_WIN_STRICT_ORDERING,
            NCCL_SUSPEND_MEM,
            NCCL_GIN_MAX_CONNECTIONS,
        }
        "2.31.2" {
            NCCL_GIN_MAX_ACTIVE_BACKENDS,
            NCCL_CFT_BARRIER_ALIGN,
            NCCL_LE_ID_INVALID,
        }
        "2.32.3" {
            NCCL_WIN_GIN_ONLY,
            NCCL_WIN_CFT_COUNTED,
        }
    }
}

/// A struct with an initialiser in the header, and the values that ours sets.
pub(super) struct Initial {
    pub(super) header: Made,
    pub(super) values: Vec<(&'static str, i64)>,
}

macro_rules! initial {
    ($type:ident, $initializer:literal, $($field:ident),* $(,)?) => {{
        let made = $type::new();
        Initial {
            header: Made {
                name: stringify!($type),
                initializer: $initializer,
                fields: vec![$(stringify!($field)),*],
            },
            values: vec![$((stringify!($field), number!(made.$field))),*],
        }
    }};
}

/// Integers, newtypes of integers, booleans and pointers, like the header's `(long long)`.
trait Number {
    fn number(self) -> i64;
}

macro_rules! numbers {
    ($($type:ty => |$value:ident| $number:expr;)*) => {
        $(impl Number for $type {
            fn number(self) -> i64 {
                let $value = self;
                $number
            }
        })*
    };
}

numbers! {
    i32 => |value| value.into();
    u32 => |value| value.into();
    u64 => |value| value as i64;
    f32 => |value| value as i64;
    bool => |value| value.into();
    ncclGinConnectionType_t => |value| value.0.into();
    ncclGinType_t => |value| value.0.into();
}

macro_rules! number {
    ($value:expr) => {
        $value.number()
    };
}

/// All but `size`, which differs on purpose, and pointers, which are null.
pub(super) fn initials() -> Vec<Initial> {
    vec![
        initial!(
            ncclConfig_t,
            "NCCL_CONFIG_INITIALIZER",
            magic,
            version,
            blocking,
            cgaClusterSize,
            minCTAs,
            maxCTAs,
            splitShare,
            trafficClass,
            collnetEnable,
            CTAPolicy,
            shrinkShare,
            nvlsCTAs,
            nChannelsPerNetPeer,
            nvlinkCentricSched,
            graphUsageMode,
            numRmaCtx,
            maxP2pPeers,
            graphStreamOrdering,
            launchOrderImplicit,
            numRmaSig,
            rmaEagerInit,
            hostCftMode,
            nvlsHostMode,
        ),
        initial!(
            ncclCollConfig_t,
            "NCCL_COLLCONFIG_INITIALIZER",
            magic,
            version,
            minCTAs,
            maxCTAs,
            nvlsCTAs,
            cgaClusterSize,
            forceAlgSelection,
            CTAPolicy,
            userProfilerTag,
        ),
        initial!(ncclSimInfo_t, "NCCL_SIM_INFO_INITIALIZER", magic, version, estimatedTime),
        initial!(
            ncclEncryptionConfig_t,
            "NCCL_ENCRYPTION_CONFIG_INITIALIZER",
            magic,
            version,
            mode
        ),
        initial!(
            ncclDevCommRequirements_t,
            "NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER",
            magic,
            version,
            lsaMultimem,
            barrierCount,
            lsaBarrierCount,
            railGinBarrierCount,
            lsaLLA2ABlockCount,
            lsaLLA2ASlotCount,
            ginForceEnable,
            ginContextCount,
            ginSignalCount,
            ginCounterCount,
            ginConnectionType,
            ginExclusiveContexts,
            ginQueueDepth,
            ginTrafficClass,
            worldGinBarrierCount,
            ginStrongSignalsRequired,
            ginVaSignalsRequired,
            ginCustomStride,
            ginType,
            useRuntimeVersion,
            cftCaps,
            cftBarrierCount,
        ),
        initial!(
            ncclCommProperties_t,
            "NCCL_COMM_PROPERTIES_INITIALIZER",
            magic,
            version,
            rank,
            nRanks,
            cudaDev,
            nvmlDev,
            deviceApiSupport,
            multimemSupport,
            ginType,
            nLsaTeams,
            hostRmaSupport,
            railedGinType,
            commHash,
            ginMinStride,
            ginConnectionType,
            cftSupport,
            cftMulticastSupport,
            cftCountedSupport,
        ),
    ]
}

/// The signatures of the functions, from the source: compiled function types lack the argument
/// names, which distinguish two integers.
pub(super) fn functions() -> Check<BTreeMap<String, String>> {
    let folder = root().join("sys/src");
    let failed = |error: std::io::Error| {
        Failure::NotMade(format!("{} cannot be read: {error}", folder.display()))
    };
    let mut functions = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let text = fs::read_to_string(entry.map_err(failed)?.path()).map_err(failed)?;
        let Some((_, declared)) = text.split_once("functions! {\n") else { continue };
        let declared = declared.split_once("\n}").map_or(declared, |(declared, _)| declared);
        for item in declared.split("\n    fn ").skip(1) {
            let Some((name, rest)) = item.split_once('(') else { continue };
            let Some((signature, _)) = rest.split_once(';') else { continue };
            functions.insert(name.to_owned(), super::plain(&format!("({signature}")));
        }
    }
    Ok(functions)
}

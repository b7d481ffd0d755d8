//! What a communicator can do, according to NCCL.

use nccl_sys::{Layout, ncclCommProperties_t};

use super::api::lacking;
use super::comm::Comm;
use crate::Result;
use crate::communicator::{GinConnections, GinType, Properties};

impl Comm {
    /// Adds NCCL's properties of this communicator to `known`. Those that the loaded release does
    /// not report are `None`.
    pub(super) fn properties(&self, known: Properties) -> Result<Properties> {
        let (version, found) = (self.nccl.api.version(), self.raw_properties()?);
        // NCCL writes only the fields of its own release.
        let end = ncclCommProperties_t::end_in(version);
        let has = |name| {
            ncclCommProperties_t::field(name).is_some_and(|field| field.offset + field.size <= end)
        };
        let ways = found.ginSupport.iter().zip(0..).filter(|(has, _)| **has);
        let ways = ways.map(|(_, way)| GinType::from_code(way)).collect();
        Ok(Properties {
            nvml_device: u32::try_from(found.nvmlDev).ok(),
            device_api: found.deviceApiSupport,
            multimem: found.multimemSupport,
            gin: has("ginType").then(|| GinType::from_code(found.ginType.0)),
            lsa_teams: has("nLsaTeams").then(|| usize::try_from(found.nLsaTeams).unwrap_or(0)),
            one_sided: has("hostRmaSupport").then_some(found.hostRmaSupport),
            railed_gin: has("railedGinType").then(|| GinType::from_code(found.railedGinType.0)),
            hash: has("commHash").then_some(found.commHash),
            gin_min_stride: has("ginMinStride")
                .then(|| usize::try_from(found.ginMinStride).unwrap_or(0)),
            gin_connections: has("ginConnectionType")
                .then(|| GinConnections::from_code(found.ginConnectionType.0)),
            gin_types: has("ginSupport").then_some(ways),
            device_comm_bytes: has("devCommRuntimeVersionSize")
                .then_some(found.devCommRuntimeVersionSize),
            cft: has("cftSupport").then_some(found.cftSupport),
            cft_multicast: has("cftMulticastSupport").then_some(found.cftMulticastSupport),
            cft_counted: has("cftCountedSupport").then_some(found.cftCountedSupport),
            ..known
        })
    }

    /// Whether windows can be the targets of counted transfers.
    pub(super) fn has_counted(&self) -> Result<bool> {
        // 0 if the release does not know the field.
        Ok(self.raw_properties()?.cftCountedSupport)
    }

    fn raw_properties(&self) -> Result<ncclCommProperties_t> {
        let query = self
            .nccl
            .api
            .ncclCommQueryProperties()
            .map_err(lacking("a communicator's properties"))?;
        // NCCL refuses a struct that is newer than itself.
        let version = self.nccl.api.version();
        let mut found = ncclCommProperties_t::for_library(version).unwrap_or_default();
        // SAFETY: the communicator is alive and its rank's thread asks; `found` is complete and
        // states its size.
        let result = unsafe { query(self.handle, &raw mut found) };
        self.check("ncclCommQueryProperties", result)?;
        Ok(found)
    }
}

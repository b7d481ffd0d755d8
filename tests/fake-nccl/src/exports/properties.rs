//! A communicator's properties: few capabilities unless the test enables them.

use nccl_sys::{
    ncclComm_t, ncclCommProperties_t, ncclGinConnectionType_t, ncclGinType_t, ncclResult_t,
};

use crate::export::exports;
use crate::state::{Refusal, State};

/// The same for every communicator.
const HASH: u64 = 0xfeed;

/// Refuses a struct of a release that is newer than this one.
pub(super) fn not_newer(state: &State, version: u32) -> Result<(), Refusal> {
    if i64::from(version) > i64::from(state.version) {
        let words = format!("a struct of {version} is newer than {}", state.version);
        return Err(Refusal::argument(words));
    }
    Ok(())
}

exports! {
    answer fn ncclCommQueryProperties(
        comm: ncclComm_t,
        props: *mut ncclCommProperties_t,
    ) -> ncclResult_t = |state| {
        let found = *state.live(comm)?;
        not_newer(state, props.source().header()?.version)?;
        let (way, railed, connections) = state.gin;
        let one_host = state.moving(comm).is_some_and(|member| member.one_host);
        props.fill(&ncclCommProperties_t {
            rank: found.rank,
            nRanks: found.count,
            cudaDev: found.device,
            nvmlDev: found.device,
            nLsaTeams: if one_host { 1 } else { found.count },
            hostRmaSupport: state.has_rma || one_host,
            deviceApiSupport: state.has_device_api,
            multimemSupport: true,
            ginType: ncclGinType_t(way),
            railedGinType: ncclGinType_t(railed),
            commHash: HASH,
            ginMinStride: 2,
            ginConnectionType: ncclGinConnectionType_t(connections),
            ginSupport: std::array::from_fn(|number| number as i32 == way || number == 40),
            devCommRuntimeVersionSize: 4096,
            cftSupport: state.is_mapped,
            cftMulticastSupport: true,
            cftCountedSupport: state.has_counted,
            ..ncclCommProperties_t::new()
        })
    };
}

//! Device communicators, which no kernel can use, and requirements, which ask for nothing.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use nccl_sys::{
    Version, ncclComm_t, ncclDevComm_t, ncclDevCommRequirements_t, ncclDevResourceRequirements_t,
    ncclGinBarrierHandle_t, ncclGinInboxA2AHandle, ncclGinOutboxHandle, ncclLLA2AHandle_t,
    ncclLsaBarrierHandle_t, ncclResult_t, ncclTeam_t,
};

use super::properties::not_newer;
use crate::export::exports;
use crate::state::Refusal;

exports! {
    answer fn ncclDevCommCreate(
        comm: ncclComm_t,
        reqs: *const ncclDevCommRequirements_t,
        outDevComm: *mut ncclDevComm_t,
    ) -> ncclResult_t = |state| {
        let found = state.ready(comm)?;
        outDevComm.needed()?;
        // 2.28 has another struct of this name, without a header.
        if state.at_least(Version::new(2, 29, 2)) {
            let header = reqs.header()?;
            not_newer(state, header.version)?;
            // Older ones have other layouts, of which nothing is declared: those stay as they are.
            if Version::from_code(header.version as c_int)
                .is_some_and(|version| version.at_least(Version::new(2, 31, 2)))
            {
                // SAFETY: it has integers, pointers and a bool, for which zero is a value.
                let empty = unsafe { MaybeUninit::<ncclDevComm_t>::zeroed().assume_init() };
                let (rank, nRanks, version) = (found.rank, found.count, header.version);
                outDevComm.put(ncclDevComm_t { version, rank, nRanks, ..empty })?;
            }
        }
        state.live(comm)?.on_device += 1;
        Ok(())
    };

    answer fn ncclDevCommDestroy(
        comm: ncclComm_t,
        devComm: *const ncclDevComm_t,
    ) -> ncclResult_t = |state| {
        let on_device = &mut state.live(comm)?.on_device;
        let left = on_device.checked_sub(1);
        *on_device = left.ok_or_else(|| Refusal::usage("it has no device communicator"))?;
        Ok(())
    };

    answer fn ncclLsaBarrierCreateRequirement(
        team: ncclTeam_t,
        nBarriers: c_int,
        outHandle: *mut ncclLsaBarrierHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t = |_| {
        outHandle.put(ncclLsaBarrierHandle_t { bufHandle: 0, nBarriers })?;
        outReq.put(ncclDevResourceRequirements_t::new())
    };

    answer fn ncclGinBarrierCreateRequirement(
        comm: ncclComm_t,
        team: ncclTeam_t,
        nBarriers: c_int,
        outHandle: *mut ncclGinBarrierHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t = |state| {
        state.live(comm)?;
        outHandle.put(ncclGinBarrierHandle_t { signal0: 0, unused: 0 })?;
        outReq.put(ncclDevResourceRequirements_t::new())
    };

    tell fn ncclLLA2ACalcSlots(maxElts: c_int, maxEltSize: c_int) -> c_int =
        |_| maxElts.saturating_mul(maxEltSize.saturating_add(7) / 8);

    answer fn ncclLLA2ACreateRequirement(
        nBlocks: c_int,
        nSlots: c_int,
        outHandle: *mut ncclLLA2AHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t = |_| {
        outHandle.put(ncclLLA2AHandle_t { bufHandle: 0, nSlots: nSlots.unsigned_abs() })?;
        outReq.put(ncclDevResourceRequirements_t::new())
    };

    answer fn ncclGinOutboxCreateRequirement(
        nBlocks: c_int,
        size_log2: c_int,
        outHandle: *mut ncclGinOutboxHandle,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t = |_| {
        outHandle.put(ncclGinOutboxHandle { bufHandle: 0, size_log2: size_log2.unsigned_abs() })?;
        outReq.put(ncclDevResourceRequirements_t::new())
    };

    answer fn ncclGinInboxA2ACreateRequirement(
        peers: ncclTeam_t,
        nBlocks: c_int,
        size_log2: c_int,
        outHandle: *mut ncclGinInboxA2AHandle,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t = |_| {
        let size_log2 = size_log2.unsigned_abs();
        let handle = ncclGinInboxA2AHandle { bufHandle: 0, signals: 0, size_log2, nPeers_rcp32: 0 };
        outHandle.put(handle)?;
        outReq.put(ncclDevResourceRequirements_t::new())
    };
}

//! Device communicators, which no kernel can use, and their requirements, which allocate nothing.
//! NCCL's rules for requirements are checked.

use std::ffi::c_int;
use std::mem::offset_of;

use nccl_sys::{
    DevCommShape, Layout, Version, ncclComm, ncclComm_t, ncclDevComm_t, ncclDevCommRequirements_t,
    ncclDevResourceRequirements_t, ncclGinBarrierHandle_t, ncclGinConnectionType_t,
    ncclGinInboxA2AHandle, ncclGinOutboxHandle, ncclLLA2AHandle_t, ncclLsaBarrierHandle_t,
    ncclMultimemHandle_t, ncclResult_t, ncclTeam_t, ncclTeamRequirements_t,
};

use super::properties::not_newer;
use crate::export::exports;
use crate::pointer::{Place, Source};
use crate::state::{Answer, Refusal, State};

/// How many network contexts there are, whatever was requested.
const CONTEXTS: u8 = 3;

/// Where a device communicator stores its number; kernels read something else there.
fn number_at(shape: &DevCommShape) -> usize {
    shape.lsaMultimem - 8
}

/// A rank's requirements, as far as its release reads them; the rest is zero.
fn read(reqs: Source<ncclDevCommRequirements_t>) -> Result<ncclDevCommRequirements_t, Refusal> {
    let header = reqs.header()?;
    let mut whole = ncclDevCommRequirements_t::new();
    let bytes = reqs.bytes().unwrap_or_default();
    for field in ncclDevCommRequirements_t::FIELDS {
        let Some(from) = bytes.get(field.offset..field.offset + field.size) else { break };
        let to = std::ptr::from_mut(&mut whole).cast::<u8>().wrapping_add(field.offset);
        // SAFETY: the field lies within the struct, and these are its bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
    whole.version = header.version;
    Ok(whole)
}

/// NCCL's rules.
fn check(asked: &ncclDevCommRequirements_t) -> Answer {
    let kind = asked.ginConnectionType;
    let none = kind == ncclGinConnectionType_t::NCCL_GIN_CONNECTION_NONE;
    let rail = kind == ncclGinConnectionType_t::NCCL_GIN_CONNECTION_RAIL;
    let uses = [
        asked.ginSignalCount,
        asked.ginCounterCount,
        asked.barrierCount,
        asked.railGinBarrierCount,
        asked.worldGinBarrierCount,
    ];
    if none && uses.iter().any(|count| *count > 0) {
        return Err(Refusal::argument("what needs the network is asked for without connections"));
    }
    if rail && asked.worldGinBarrierCount > 0 {
        return Err(Refusal::argument("a barrier of all ranks is asked for with those of a rail"));
    }
    if asked.ginForceEnable {
        return Err(Refusal::argument("ginForceEnable is deprecated"));
    }
    Ok(())
}

/// Fills in the lists' results: numbers in their order.
fn place_lists(asked: &ncclDevCommRequirements_t) -> Answer {
    let mut teams = asked.teamRequirementsList;
    let mut number = 0;
    while !teams.is_null() {
        // SAFETY: the list is the caller's, and complete until the call returns.
        let team: ncclTeamRequirements_t = unsafe { teams.read_unaligned() };
        if !team.outMultimemHandle.is_null() {
            number += 1;
            let base = std::ptr::without_provenance_mut(number << 21);
            // SAFETY: it is valid for a write.
            unsafe { team.outMultimemHandle.write(ncclMultimemHandle_t { mcBasePtr: base }) };
        }
        teams = team.next;
    }
    let (mut resources, mut place) = (asked.resourceRequirementsList, 0);
    while !resources.is_null() {
        // SAFETY: as above.
        let found: ncclDevResourceRequirements_t = unsafe { resources.read_unaligned() };
        place += 1;
        for out in [found.outBufferHandle, found.outGinSignalStart, found.outGinCounterStart] {
            if !out.is_null() {
                // SAFETY: it is valid for a write.
                unsafe { out.write(place * 16) };
            }
        }
        resources = found.next;
    }
    Ok(())
}

/// Refuses requirements that differ from the first rank's; the program compares the lists.
fn same_on_all(
    state: &mut State,
    comm: Place<ncclComm>,
    asked: &ncclDevCommRequirements_t,
) -> Answer {
    let found = state.live(comm)?;
    let nth = found.made_on_device;
    found.made_on_device += 1;
    let Some(id) = found.id else { return Ok(()) };
    let start = offset_of!(ncclDevCommRequirements_t, barrierCount);
    let fields = ncclDevCommRequirements_t::FIELDS.iter().filter(|field| field.offset >= start);
    let bytes: Vec<u8> = fields
        .flat_map(|field| {
            let from = std::ptr::from_ref(asked).cast::<u8>().wrapping_add(field.offset);
            // SAFETY: the field lies within the struct.
            unsafe { std::slice::from_raw_parts(from, field.size) }.to_vec()
        })
        .collect();
    match state.asked.entry((id, nth)).or_insert_with(|| bytes.clone()) == &bytes {
        true => Ok(()),
        false => Err(Refusal::argument("the ranks ask for different device communicators")),
    }
}

exports! {
    answer fn ncclDevCommCreate(
        comm: ncclComm_t,
        reqs: *const ncclDevCommRequirements_t,
        outDevComm: *mut ncclDevComm_t,
    ) -> ncclResult_t = |state| {
        let found = state.ready(comm)?;
        outDevComm.needed()?;
        // 2.28 has another struct of this name.
        if state.at_least(Version::new(2, 29, 2)) {
            let header = reqs.header()?;
            not_newer(state, header.version)?;
            if !state.has_device_api {
                return Err(Refusal::usage("the communicator has no symmetric memory"));
            }
            let asked = read(reqs)?;
            check(&asked)?;
            same_on_all(state, comm, &asked)?;
            let version = Version::from_code(header.version as c_int);
            let shape = version.and_then(DevCommShape::of);
            let shape = shape.ok_or_else(|| Refusal::usage("a release without them"))?;
            let (mut bytes, number) = (vec![0; shape.size], state.number());
            let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
            let has_header = shape.since >= Version::new(2, 30, 3);
            if has_header {
                put(4, &header.version.to_ne_bytes());
            }
            let rank_at = if has_header { 8 } else { 0 };
            put(rank_at, &found.rank.to_ne_bytes());
            put(rank_at + 4, &found.count.to_ne_bytes());
            put(number_at(shape), &number.to_ne_bytes());
            if asked.lsaMultimem {
                put(shape.lsaMultimem, &(1_u64 << 40).to_ne_bytes());
            }
            if let Some((at, _)) = shape.ginContextCount {
                put(at, &[CONTEXTS]);
            }
            place_lists(&asked)?;
            // SAFETY: a caller provides room for what this release writes.
            unsafe { outDevComm.put_bytes(&bytes) }?;
            state.device_comms.insert(number, comm.address());
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
        let version = Version::from_code(state.version).unwrap_or(Version::new(2, 18, 0));
        let Some(shape) = DevCommShape::of(version.min(nccl_sys::BOUND)) else { return Ok(()) };
        if state.has_device_api {
            // SAFETY: it is a device communicator of this release, by this function's contract.
            let words = unsafe { devComm.of_bytes().list(shape.size as c_int) };
            let words = words.ok_or_else(|| Refusal::argument("the device communicator is NULL"))?;
            let at = number_at(shape);
            let number: [u8; 8] = words[at..at + 8].try_into().expect("eight bytes");
            if state.device_comms.remove(&usize::from_ne_bytes(number)) != Some(comm.address()) {
                return Err(Refusal::argument("it is no device communicator of this one"));
            }
        }
        Ok(())
    };

    answer fn ncclLsaBarrierCreateRequirement(
        team: ncclTeam_t,
        nBarriers: c_int,
        outHandle: *mut ncclLsaBarrierHandle_t,
        outReq: *mut ncclDevResourceRequirements_t,
    ) -> ncclResult_t = |_| {
        outHandle.put(ncclLsaBarrierHandle_t { bufHandle: 0, nBarriers })?;
        let outBufferHandle = outHandle.part(offset_of!(ncclLsaBarrierHandle_t, bufHandle));
        outReq.put(ncclDevResourceRequirements_t {
            outBufferHandle,
            ..ncclDevResourceRequirements_t::new()
        })
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
        let outGinSignalStart = outHandle.part(offset_of!(ncclGinBarrierHandle_t, signal0));
        outReq.put(ncclDevResourceRequirements_t {
            outGinSignalStart,
            ..ncclDevResourceRequirements_t::new()
        })
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
        let outBufferHandle = outHandle.part(offset_of!(ncclLLA2AHandle_t, bufHandle));
        outReq.put(ncclDevResourceRequirements_t {
            outBufferHandle,
            ..ncclDevResourceRequirements_t::new()
        })
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

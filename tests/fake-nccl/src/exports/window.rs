//! Windows. A rank reaches its own memory, and no other rank's unless data moves. If tests enable
//! multicast and counted transfers, addresses and endpoints encode the query.

use std::ffi::{c_int, c_void};
use std::ptr;

use nccl_sys::{
    NCCL_LE_ID_INVALID, NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_REQUIRED_ALIGNMENT, Version,
    ncclCftLeId_t, ncclComm_t, ncclMultimemHandle_t, ncclResult_t, ncclTeam_t, ncclWindow_t,
    ncclWindow_vidmem,
};

use crate::books::{Window, pointer};
use crate::export::exports;
use crate::moves::{self, Reach};
use crate::pointer::Place;
use crate::state::{Answer, Refusal, State};

/// The address of an offset, which lies in the window or at its end.
fn address(window: Window, offset: usize) -> Result<*mut c_void, Refusal> {
    if offset > window.size {
        return Err(Refusal::argument(format!("{offset} is behind a window of {}", window.size)));
    }
    Ok(pointer(window.memory.wrapping_add(offset)))
}

/// The address of an offset in a rank's part; null if it is not reachable.
fn elsewhere(reach: &Reach, rank: c_int, offset: usize) -> Result<*mut c_void, Refusal> {
    let rank = usize::try_from(rank).unwrap_or(usize::MAX);
    let size = reach.size_at(rank).unwrap_or(usize::MAX);
    if offset > size {
        return Err(Refusal::argument(format!("{offset} is behind a window of {size}")));
    }
    Ok(reach.address(rank, offset).unwrap_or(ptr::null_mut()))
}

/// The first address of multicast memory.
const MULTICAST: usize = 1 << 44;

/// The endpoint of rank 0. The other ranks' follow, and then the one of all ranks at once.
const FIRST: ncclCftLeId_t = 100;

/// Where an endpoint's memory begins.
const START: usize = 1 << 16;

/// The endpoint of the rank at this distance from the first, if there is one.
fn endpoint(
    state: &State,
    window: Place<ncclWindow_vidmem>,
    number: c_int,
    at: usize,
    id: Place<ncclCftLeId_t>,
    offset: Place<usize>,
) -> Answer {
    state.window(window)?;
    offset.needed()?;
    if !state.is_mapped {
        id.put(NCCL_LE_ID_INVALID)?;
        return offset.put(0);
    }
    id.put(FIRST + number.cast_unsigned())?;
    offset.put(START + at)
}

exports! {
    answer fn ncclCommWindowRegister(
        comm: ncclComm_t,
        buff: *mut c_void,
        size: usize,
        win: *mut ncclWindow_t,
        winFlags: c_int,
    ) -> ncclResult_t = |state| {
        state.ready(comm)?;
        win.needed()?;
        let memory = buff.address();
        let aligned = memory.is_multiple_of(NCCL_WIN_REQUIRED_ALIGNMENT as usize);
        if !aligned && state.at_least(Version::new(2, 28, 3)) {
            return Err(Refusal::argument(format!("{memory:#x} is not aligned for a window")));
        }
        if !state.has_windows {
            return win.put(ptr::null_mut());
        }
        if winFlags & NCCL_WIN_COLL_SYMMETRIC != 0 {
            state.live(comm)?.has_signals = true;
        }
        let (handle, comm) = (state.handle(), comm);
        let window = Window { comm: comm.address(), memory, size };
        let Some(member) = state.moving(comm) else {
            state.windows.insert(handle, window);
            return state.arrives(comm, win, handle);
        };
        moves::later(move || {
            let Some(reach) = moves::register(&member, memory, size, winFlags)? else {
                return win.put(ptr::null_mut());
            };
            member.add_window(handle, reach);
            let mut state = State::lock();
            state.windows.insert(handle, window);
            state.arrives(comm, win, handle)
        })
    };

    answer fn ncclCommWindowDeregister(
        comm: ncclComm_t,
        win: ncclWindow_t,
    ) -> ncclResult_t = |state| {
        state.window_of(comm, win)?;
        state.windows.remove(&win.address());
        if let Some(member) = state.moving(comm) {
            member.remove_window(win.address());
        }
        Ok(())
    };

    answer fn ncclWinGetUserPtr(
        comm: ncclComm_t,
        win: ncclWindow_t,
        outUserPtr: *mut *mut c_void,
    ) -> ncclResult_t = |state| outUserPtr.put(address(state.window_of(comm, win)?, 0)?);

    answer fn ncclGetLsaMultimemDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t = |state| {
        state.window(window)?;
        outPtr.put(match state.is_mapped {
            true => pointer(MULTICAST + offset),
            false => ptr::null_mut(),
        })
    };

    answer fn ncclGetMultimemDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        multimem: ncclMultimemHandle_t,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t = |state| {
        state.window(window)?;
        outPtr.put(match state.is_mapped {
            true => multimem.mcBasePtr.wrapping_byte_add(offset),
            false => ptr::null_mut(),
        })
    };

    answer fn ncclGetLsaDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        lsaRank: c_int,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t = |state| {
        let handle = window.address();
        let window = state.window(window)?;
        if let Some(reach) = state.reach(window.comm, handle) {
            return outPtr.put(elsewhere(&reach, lsaRank, offset)?);
        }
        if lsaRank != 0 {
            return Err(Refusal::argument(format!("{lsaRank} shares no memory")));
        }
        outPtr.put(address(window, offset)?)
    };

    answer fn ncclGetPeerDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        peer: c_int,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t = |state| {
        let handle = window.address();
        let window = state.window(window)?;
        if let Some(reach) = state.reach(window.comm, handle) {
            return outPtr.put(elsewhere(&reach, peer, offset)?);
        }
        let this = state.communicators.get(&window.comm).copied();
        let this = this.ok_or_else(|| Refusal::argument("its communicator is gone"))?;
        this.has_rank(peer)?;
        let address = address(window, offset)?;
        outPtr.put(if peer == this.rank { address } else { ptr::null_mut() })
    };

    answer fn ncclGetMultimemDeviceLeInfo(
        window: ncclWindow_t,
        offset: usize,
        leId: *mut ncclCftLeId_t,
        leOffset: *mut usize,
    ) -> ncclResult_t = |state| {
        let found = state.window(window)?;
        let this = state.communicators.get(&found.comm).map_or(0, |this| this.count);
        endpoint(state, window, this, offset, leId, leOffset)
    };

    answer fn ncclGetCftDeviceLeInfo(
        window: ncclWindow_t,
        offset: usize,
        peerCft: c_int,
        cftTeam: ncclTeam_t,
        leId: *mut ncclCftLeId_t,
        leOffset: *mut usize,
    ) -> ncclResult_t = |state| {
        let found = state.window(window)?;
        let this = state.communicators.get(&found.comm).map_or(0, |this| this.rank);
        let peer = this + (peerCft - cftTeam.rank) * cftTeam.stride;
        endpoint(state, window, peer, offset, leId, leOffset)
    };

    answer fn ncclGetPeerDeviceLeInfo(
        window: ncclWindow_t,
        offset: usize,
        peerWorld: c_int,
        leId: *mut ncclCftLeId_t,
        leOffset: *mut usize,
    ) -> ncclResult_t = |state| endpoint(state, window, peerWorld, offset, leId, leOffset);
}

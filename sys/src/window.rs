//! Windows: memory that is registered by all ranks together.

use std::ffi::{c_int, c_void};

use crate::handles::ncclComm_t;
use crate::macros::functions;
use crate::result::ncclResult_t;
use crate::team::{ncclCftLeId_t, ncclMultimemHandle_t, ncclTeam_t};

/// `struct ncclWindow_vidmem`: device memory, whose layout is another in every release.
#[repr(C)]
pub struct ncclWindow_vidmem {
    opaque: [u8; 0],
    _not_send: std::marker::PhantomData<*mut ()>,
}

/// This rank's handle of a window.
pub type ncclWindow_t = *mut ncclWindow_vidmem;

/// Registration: for this rank alone. Since 2.27.
pub const NCCL_WIN_DEFAULT: c_int = 0x00;
/// Registration: the same length on every rank, usable for symmetric kernels and one-sided
/// operations. Since 2.27.
pub const NCCL_WIN_COLL_SYMMETRIC: c_int = 0x01;
/// Registration: writes arrive in order. Since 2.29.7.
pub const NCCL_WIN_STRICT_ORDERING: c_int = 0x02;
/// Registration: for network operations of kernels only. Since 2.32.
pub const NCCL_WIN_GIN_ONLY: c_int = 0x04;
/// Registration: for counted transfers only. Since 2.32.
pub const NCCL_WIN_CFT_COUNTED: c_int = 0x08;
/// The alignment of a window's first byte. Since 2.28.
pub const NCCL_WIN_REQUIRED_ALIGNMENT: c_int = 4096;

functions! {
    /// Registers memory as a window; collective. Leaves the handle null where windows are not
    /// supported. 2.27 crashes on a null communicator.
    fn ncclCommWindowRegister(
        comm: ncclComm_t,
        buff: *mut c_void,
        size: usize,
        win: *mut ncclWindow_t,
        winFlags: c_int,
    ) -> ncclResult_t;

    /// Ends a registration, in the same order on every rank.
    fn ncclCommWindowDeregister(comm: ncclComm_t, win: ncclWindow_t) -> ncclResult_t;

    /// Writes the address that was registered.
    fn ncclWinGetUserPtr(
        comm: ncclComm_t,
        win: ncclWindow_t,
        outUserPtr: *mut *mut c_void,
    ) -> ncclResult_t;

    /// Writes the multicast address of the ranks that share memory.
    fn ncclGetLsaMultimemDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t;

    /// Writes the multicast address of a team.
    fn ncclGetMultimemDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        multimem: ncclMultimemHandle_t,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t;

    /// Writes the address of a rank that shares memory, counted among those.
    fn ncclGetLsaDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        lsaRank: c_int,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t;

    /// Writes the address of a rank, or null where it does not share memory.
    fn ncclGetPeerDevicePointer(
        window: ncclWindow_t,
        offset: usize,
        peer: c_int,
        outPtr: *mut *mut c_void,
    ) -> ncclResult_t;

    /// Writes the multicast endpoint of an offset, and the offset there.
    fn ncclGetMultimemDeviceLeInfo(
        window: ncclWindow_t,
        offset: usize,
        leId: *mut ncclCftLeId_t,
        leOffset: *mut usize,
    ) -> ncclResult_t;

    /// Writes a team member's endpoint of an offset, and the offset there.
    fn ncclGetCftDeviceLeInfo(
        window: ncclWindow_t,
        offset: usize,
        peerCft: c_int,
        cftTeam: ncclTeam_t,
        leId: *mut ncclCftLeId_t,
        leOffset: *mut usize,
    ) -> ncclResult_t;

    /// Writes a rank's endpoint of an offset, and the offset there.
    fn ncclGetPeerDeviceLeInfo(
        window: ncclWindow_t,
        offset: usize,
        peerWorld: c_int,
        leId: *mut ncclCftLeId_t,
        leOffset: *mut usize,
    ) -> ncclResult_t;
}

//! One-sided operations from the host.

use std::ffi::{c_int, c_uint, c_void};

use crate::handles::{cudaStream_t, ncclComm_t};
use crate::macros::{functions, layout};
use crate::reduction::ncclDataType_t;
use crate::result::ncclResult_t;
use crate::window::ncclWindow_t;

layout! {
    /// How many signals to wait for, and from whom.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ncclWaitSignalDesc_t;
    since "2.29.2" {
        /// How many.
        opCnt: c_int,
        /// The rank that sends them.
        peer: c_int,
        /// Which signal.
        sigIdx: c_int,
        /// Which context; 0 is the only one.
        ctx: c_int,
    }
}

functions! {
    /// Copies `count` elements from a window of this rank into the peer's, then raises its signal.
    /// `peerWin` is this rank's own handle of the window; `peerWinOffset` counts bytes.
    fn ncclPutSignal(
        localbuff: *const c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        peerWin: ncclWindow_t,
        peerWinOffset: usize,
        sigIdx: c_int,
        ctx: c_int,
        flags: c_uint,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t;

    /// Raises a signal of the peer's; no data moves.
    fn ncclSignal(
        peer: c_int,
        sigIdx: c_int,
        ctx: c_int,
        flags: c_uint,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t;

    /// Makes the stream wait until all these signals have come, and takes them off the count.
    fn ncclWaitSignal(
        nDesc: c_int,
        signalDescs: *mut ncclWaitSignalDesc_t,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t;
}

const _: () = assert!(size_of::<ncclWaitSignalDesc_t>() == 16);

//! Send and receive.

use std::ffi::{c_int, c_void};

use crate::handles::{cudaStream_t, ncclComm_t};
use crate::macros::functions;
use crate::reduction::ncclDataType_t;
use crate::result::ncclResult_t;

functions! {
    /// Sends `count` elements to `peer`, which must receive as many of the same type.
    fn ncclSend(
        sendbuff: *const c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t;

    /// Receives `count` elements from `peer`, which must send as many of the same type.
    fn ncclRecv(
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t;
}

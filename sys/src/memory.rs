//! Memory that NCCL allocates, and plain registration of a buffer.

use std::ffi::c_void;

use crate::handles::ncclComm_t;
use crate::macros::functions;
use crate::result::ncclResult_t;

functions! {
    /// Allocates at least `size` bytes of device memory that can be registered in every way.
    fn ncclMemAlloc(ptr: *mut *mut c_void, size: usize) -> ncclResult_t;

    /// Frees what `ncclMemAlloc` gave.
    fn ncclMemFree(ptr: *mut c_void) -> ncclResult_t;

    /// Registers a device buffer with one communicator for transfers without a copy.
    fn ncclCommRegister(
        comm: ncclComm_t,
        buff: *mut c_void,
        size: usize,
        handle: *mut *mut c_void,
    ) -> ncclResult_t;

    /// Ends a registration.
    fn ncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t;
}

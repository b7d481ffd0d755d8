//! Opaque handles: NCCL's own, and CUDA's as NCCL's functions take them.

use std::ffi::{c_char, c_int, c_void};
use std::fmt;

use crate::macros::layout;

/// `struct ncclComm`, which only NCCL can look into.
#[repr(C)]
pub struct ncclComm {
    opaque: [u8; 0],
    _not_send: std::marker::PhantomData<*mut ()>,
}

/// A communicator.
pub type ncclComm_t = *mut ncclComm;

/// No communicator.
pub const NCCL_COMM_NULL: ncclComm_t = std::ptr::null_mut();

/// A CUDA stream; null is the default stream of the current device.
pub type cudaStream_t = *mut c_void;

/// A CUDA event.
pub type cudaEvent_t = *mut c_void;

/// Where a piece of device-visible memory lies: CUDA's enum, as an integer.
pub type CUmemLocationType = c_int;

/// Bytes of a [`ncclUniqueId`].
pub const NCCL_UNIQUE_ID_BYTES: usize = 128;

layout! {
    /// What the ranks of one communicator agree on before they are connected. Plain bytes: they are
    /// made on one rank and sent to the others by any means.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct ncclUniqueId;
    since "2.18" {
        /// The bytes.
        internal: [c_char; NCCL_UNIQUE_ID_BYTES],
    }
}

impl ncclUniqueId {
    /// All zero: a place for `ncclGetUniqueId` to write to.
    pub const fn zeroed() -> Self {
        Self { internal: [0; NCCL_UNIQUE_ID_BYTES] }
    }

    /// From the bytes of another process.
    pub fn from_bytes(bytes: [u8; NCCL_UNIQUE_ID_BYTES]) -> Self {
        Self { internal: bytes.map(|byte| c_char::from_ne_bytes([byte])) }
    }

    /// The bytes, to be sent.
    pub fn to_bytes(&self) -> [u8; NCCL_UNIQUE_ID_BYTES] {
        self.internal.map(|byte| byte.to_ne_bytes()[0])
    }
}

/// Never the bytes: who knows them can join the communicator.
impl fmt::Debug for ncclUniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ncclUniqueId(..)")
    }
}

const _: () = {
    assert!(size_of::<ncclUniqueId>() == 128 && align_of::<ncclUniqueId>() == 1);
    assert!(size_of::<ncclComm_t>() == size_of::<*mut c_void>());
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive() {
        let bytes = std::array::from_fn(|i| i as u8 ^ 0xa5);
        assert_eq!(ncclUniqueId::from_bytes(bytes).to_bytes(), bytes);
        assert_eq!(format!("{:?}", ncclUniqueId::from_bytes(bytes)), "ncclUniqueId(..)");
    }
}

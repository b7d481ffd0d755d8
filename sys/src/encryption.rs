//! Encryption of NCCL's own TCP connections.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr;

use crate::config::NCCL_API_MAGIC;
use crate::macros::{c_enum, end_of, functions, layout};
use crate::result::ncclResult_t;
use crate::version::BOUND;

c_enum! {
    /// How TCP connections are protected.
    pub struct ncclEncryptionMode_t;
    since "2.32.3" {
        /// Not at all.
        NCCL_ENCRYPTION_MODE_NONE = 0;
        /// By a key that every process knows.
        NCCL_ENCRYPTION_MODE_PSK = 1;
    }
}

layout! {
    /// The wish for encryption.
    #[derive(Clone, Copy)]
    pub struct ncclEncryptionConfig_t;
    since "2.32.3" {
        /// The end of the last field.
        size: usize,
        /// [`NCCL_API_MAGIC`].
        magic: c_uint,
        /// The code of the header's version.
        version: c_uint,
        /// A value of [`ncclEncryptionMode_t`].
        mode: c_int,
        /// The key, at least 32 bytes and a zero; copied by the call.
        psk: *const c_char,
    }
}

impl ncclEncryptionConfig_t {
    /// `NCCL_ENCRYPTION_CONFIG_INITIALIZER`.
    pub const fn new() -> Self {
        Self {
            size: end_of!(Self, psk: *const c_char),
            magic: NCCL_API_MAGIC,
            version: BOUND.code(),
            mode: ncclEncryptionMode_t::NCCL_ENCRYPTION_MODE_NONE.0,
            psk: ptr::null(),
        }
    }
}

impl Default for ncclEncryptionConfig_t {
    fn default() -> Self {
        Self::new()
    }
}

functions! {
    /// Asks for encryption, for the whole process, before NCCL opens its first connection.
    fn ncclSetEncryption(config: *const ncclEncryptionConfig_t) -> ncclResult_t;
}

const _: () = {
    assert!(size_of::<ncclEncryptionConfig_t>() == 32);
    assert!(ncclEncryptionConfig_t::new().size == 32);
};

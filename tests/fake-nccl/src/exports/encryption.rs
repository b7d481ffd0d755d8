//! The request for encryption, which is checked as by NCCL.

use std::ffi::CStr;

use nccl_sys::{ncclEncryptionConfig_t, ncclEncryptionMode_t, ncclResult_t};

use crate::export::exports;
use crate::state::Refusal;

/// The shortest key.
const KEY_BYTES: usize = 32;

exports! {
    answer fn ncclSetEncryption(config: *const ncclEncryptionConfig_t) -> ncclResult_t = |_| {
        let Some(header) = config.optional_header()? else { return Ok(()) };
        let wish = (header.size >= ncclEncryptionConfig_t::new().size).then(|| config.get());
        let Some(wish) = wish.flatten() else {
            return Err(Refusal::argument(format!("{} bytes have no key", header.size)));
        };
        match ncclEncryptionMode_t(wish.mode) {
            ncclEncryptionMode_t::NCCL_ENCRYPTION_MODE_NONE => Ok(()),
            ncclEncryptionMode_t::NCCL_ENCRYPTION_MODE_PSK => {
                // SAFETY: it is not null, and by NCCL's contract, which the caller keeps, it ends
                // with a zero.
                let key = (!wish.psk.is_null()).then(|| unsafe { CStr::from_ptr(wish.psk) });
                if key.is_none_or(|key| key.count_bytes() < KEY_BYTES) {
                    return Err(Refusal::argument(format!("a key needs at least {KEY_BYTES} bytes")));
                }
                Ok(())
            }
            other => Err(Refusal::argument(format!("there is no encryption mode={}", other.0))),
        }
    };
}

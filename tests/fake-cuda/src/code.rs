//! The driver's results.

use std::ffi::{CStr, c_int};
use std::fmt;

/// A result of the driver's functions (`CUresult`). Only declared values, as callers may treat it
/// as an enum.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Code(c_int);

macro_rules! codes {
    ($($name:ident = $value:literal, $cuda:literal, $says:literal;)*) => {
        impl Code {
            $(
                #[doc = concat!("`", stringify!($cuda), "`: ", stringify!($says), ".")]
                pub const $name: Self = Self($value);
            )*

            /// The driver's name for it, and its description.
            pub(crate) fn text(number: c_int) -> Option<(&'static CStr, &'static CStr)> {
                match number {
                    $($value => Some(($cuda, $says)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS",
        c"an illegal memory access was encountered";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    SYSTEM_DRIVER_MISMATCH = 803, c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        c"system has unsupported display driver / cuda driver combination";
    STREAM_CAPTURE_UNSUPPORTED = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"operation failed due to a previous error during capture";
    STREAM_CAPTURE_UNJOINED = 904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        c"capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        c"dependency created on uncaptured work in another stream";
    CAPTURED_EVENT = 907, c"CUDA_ERROR_CAPTURED_EVENT",
        c"operation not permitted on an event last recorded in a capturing stream";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

impl Code {
    /// The value in the header.
    pub fn number(self) -> c_int {
        self.0
    }

    /// The code of a number, if the double knows it.
    pub(crate) fn of(number: c_int) -> Option<Self> {
        Self::text(number).map(|_| Self(number))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::text(self.0).map_or(c"CUresult", |(name, _)| name);
        f.write_str(&name.to_string_lossy())
    }
}

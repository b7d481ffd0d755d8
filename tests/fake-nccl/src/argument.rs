//! Types of arguments, for the library and for the log.

use std::ffi::{c_char, c_int, c_void};

use nccl_sys::*;

use crate::call::Value;
use crate::pointer::{Place, Source, fields};

/// A type of argument.
pub(crate) trait Argument: Sized {
    /// The library's view of it.
    type Seen: Copy;

    /// # Safety
    ///
    /// A pointer is valid for the NCCL function: null, valid for its reads and writes until the
    /// call returns, or only compared.
    unsafe fn seen(self) -> Self::Seen;

    /// The log's view of it.
    fn value(seen: Self::Seen) -> Value;
}

macro_rules! integers {
    ($($type:ty $(: $inner:tt)?),* $(,)?) => { $(
        impl Argument for $type {
            type Seen = Self;

            unsafe fn seen(self) -> Self {
                self
            }

            fn value(seen: Self) -> Value {
                Value::Int(seen $(.$inner)? as i128)
            }
        }
    )* };
}

integers!(
    c_int,
    u32,
    usize,
    ncclCftTeamMode_t: 0,
    ncclCommMemStat_t: 0,
    ncclDataType_t: 0,
    ncclRedOp_t: 0,
    ncclResult_t: 0,
    ncclScalarResidence_t: 0,
);

macro_rules! structs {
    ($($type:ty),*) => { $(
        impl Argument for $type {
            type Seen = Self;

            unsafe fn seen(self) -> Self {
                self
            }

            fn value(seen: Self) -> Value {
                // SAFETY: it is a struct of this type.
                Value::Bytes(unsafe { fields(&raw const seen, size_of::<Self>()) })
            }
        }
    )* };
}

structs!(ncclMultimemHandle_t, ncclTeam_t, ncclUniqueId, ncclWaitSignalDesc_t);

/// The target of a pointer.
pub(crate) trait Pointee: Sized {
    /// The log's view of the pointer.
    fn value(source: Source<Self>) -> Value {
        Value::Pointer(source.address())
    }
}

macro_rules! addresses {
    ($($type:ty),* $(,)?) => { $( impl Pointee for $type {} )* };
}

addresses!(
    *const c_char,
    *mut *const c_char,
    *mut c_void,
    c_void,
    i8,
    i16,
    c_int,
    i64,
    u8,
    u16,
    u32,
    u64,
    usize,
    ncclComm,
    ncclComm_t,
    ncclDevComm_t,
    ncclDevResourceRequirements_t,
    ncclGinBarrierHandle_t,
    ncclGinInboxA2AHandle,
    ncclGinOutboxHandle,
    ncclLLA2AHandle_t,
    ncclLsaBarrierHandle_t,
    ncclParamHandle,
    ncclParamHandle_t,
    ncclRedOp_t,
    ncclResult_t,
    ncclUniqueId,
    ncclWaitSignalDesc_t,
    ncclWindow_t,
    ncclWindow_vidmem,
);

macro_rules! versioned {
    ($($type:ty),* $(,)?) => { $(
        impl Pointee for $type {
            fn value(source: Source<Self>) -> Value {
                source.bytes().map_or(Value::Pointer(0), Value::Bytes)
            }
        }
    )* };
}

versioned!(
    ncclCollConfig_t,
    ncclCommProperties_t,
    ncclConfig_t,
    ncclDevCommRequirements_t,
    ncclEncryptionConfig_t,
    ncclSimInfo_t,
);

impl<T: Pointee> Argument for *const T {
    type Seen = Source<T>;

    unsafe fn seen(self) -> Source<T> {
        // SAFETY: this function's contract is that one's.
        unsafe { Source::new(self) }
    }

    fn value(seen: Source<T>) -> Value {
        T::value(seen)
    }
}

impl<T: Pointee> Argument for *mut T {
    type Seen = Place<T>;

    unsafe fn seen(self) -> Place<T> {
        // SAFETY: this function's contract is that one's.
        unsafe { Place::new(self) }
    }

    fn value(seen: Place<T>) -> Value {
        T::value(seen.source())
    }
}

/// The log's view of an array.
///
/// # Safety
///
/// If it is not null, it has this many values.
pub(crate) unsafe fn list<T: Argument<Seen = T> + Copy>(array: Source<T>, count: c_int) -> Value {
    // SAFETY: this function's contract is that one's.
    let values = unsafe { array.list(count) };
    match values {
        Some(values) => Value::List(values.into_iter().map(T::value).collect()),
        None => Value::Pointer(0),
    }
}

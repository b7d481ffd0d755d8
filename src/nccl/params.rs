//! NCCL's own parameters in the loaded library: the values set by its environment variables and
//! configuration files, or the defaults.
//!
//! ```no_run
//! use typed_nccl::{Result, params};
//!
//! fn show() -> Result<()> {
//!     for key in params::keys()? {
//!         println!("{key} = {}", params::get(&key)?.unwrap_or_default());
//!     }
//!     Ok(())
//! }
//! ```
//!
//! NCCL reads a variable when it first needs it and keeps the value, so set variables before the
//! first call into NCCL. 2.32.3 lists few of its variables here; 2.30.3 and 2.30.4 have the
//! functions but no parameters. Each function loads NCCL, needs neither GPU nor communicator, and
//! is local. NCCL: `ncclParam*`, 2.30.3.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use nccl_sys::{MissingSymbol, ncclResult_t};

use sealed::Param;

use super::api::{Nccl, lacking, text};
use crate::Result;
use crate::error::{Error, Unsupported};

/// The keys of the documented parameters, or of all parameters if the process was started with
/// `NCCL_PARAM_DUMP_ALL=true`. NCCL: `ncclParamGetAllParameterKeys`.
///
/// # Errors
/// [`Error::NoNccl`]; [`Error::Unsupported`]: an older release.
pub fn keys() -> Result<Vec<String>> {
    let nccl = Nccl::load()?;
    let all = nccl.api.ncclParamGetAllParameterKeys().map_err(too_old)?;
    let mut table: *mut *const c_char = ptr::null_mut();
    let mut len: c_int = 0;
    // SAFETY: both are valid for writes of the declared types.
    let result = unsafe { all(&raw mut table, &raw mut len) };
    nccl.check("ncclParamGetAllParameterKeys", None, result)?;
    let len = usize::try_from(len).unwrap_or(0);
    if table.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: NCCL wrote a table of this length, which stays valid until this thread asks again.
    let keys = unsafe { std::slice::from_raw_parts(table, len) };
    Ok(keys.iter().filter_map(|&key| text(key)).collect())
}

/// A parameter's value as text, whatever its type; `None` if the loaded release has no such
/// parameter. NCCL: `ncclParamGetParameter`.
///
/// # Errors
/// See [`keys`].
pub fn get(key: &str) -> Result<Option<String>> {
    let nccl = Nccl::load()?;
    let get = nccl.api.ncclParamGetParameter().map_err(too_old)?;
    let Some((key, _)) = bind(nccl, key)? else { return Ok(None) };
    let mut value: *const c_char = ptr::null();
    let mut len: c_int = 0;
    // SAFETY: the key ends with a zero; the other arguments are valid for writes of the declared
    // types.
    let result = unsafe { get(key.as_ptr(), &raw mut value, &raw mut len) };
    nccl.check("ncclParamGetParameter", None, result)?;
    Ok(Some(text(value).unwrap_or_default()))
}

/// A parameter's value in the type that NCCL stores it in: an integer, or `String`. `None` if the
/// loaded release has no such parameter. NCCL: `ncclParamBind`, `ncclParamGetI64` and similar.
///
/// ```no_run
/// # use typed_nccl::{Result, params};
/// # fn main() -> Result<()> {
/// let levels: Option<u32> = params::read("NCCL_DEBUG_LEVELS")?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As for [`keys`]; [`Error::Unsupported`] also if the parameter has another type.
pub fn read<T: Stored>(key: &str) -> Result<Option<T>> {
    let nccl = Nccl::load()?;
    let Some((_, param)) = bind(nccl, key)? else { return Ok(None) };
    let (function, read) = T::read(&param).map_err(too_old)?;
    match read {
        Ok(value) => Ok(Some(value)),
        Err(ncclResult_t::ncclInvalidArgument) => Err(Unsupported::error(
            format!("{key} as `{}`", std::any::type_name::<T>()),
            "the type that NCCL stores it in",
            "it is another one: `params::get` gives any parameter as text",
        )),
        Err(result) => Err(nccl.failed(function, None, result)),
    }
}

/// Writes the documented parameters to NCCL's log, or all of them with `NCCL_PARAM_DUMP_ALL=true`.
/// NCCL: `ncclParamDumpAll`.
///
/// # Errors
/// See [`keys`].
pub fn dump() -> Result<()> {
    let dump = Nccl::load()?.api.ncclParamDumpAll().map_err(too_old)?;
    // SAFETY: the function takes nothing and may be called at any time.
    unsafe { dump() };
    Ok(())
}

/// Types in which NCCL stores parameters.
pub trait Stored: Sized + sealed::Sealed {
    /// The NCCL function that reads the value, and its result.
    #[doc(hidden)]
    fn read(param: &Param) -> Result<(&'static str, Result<Self, ncclResult_t>), MissingSymbol>;
}

mod sealed {
    pub trait Sealed {}

    /// An NCCL parameter.
    pub struct Param {
        pub(super) api: &'static nccl_sys::Api,
        pub(super) handle: nccl_sys::ncclParamHandle_t,
    }
}

macro_rules! stored {
    ($($type:ident: $function:ident,)*) => {
        $(
            impl sealed::Sealed for $type {}

            impl Stored for $type {
                fn read(
                    param: &Param,
                ) -> Result<(&'static str, Result<Self, ncclResult_t>), MissingSymbol> {
                    let get = param.api.$function()?;
                    let mut value = 0;
                    // SAFETY: the handle is NCCL's; `value` is valid for a write of the declared
                    // type.
                    let result = unsafe { get(param.handle, &raw mut value) };
                    Ok((stringify!($function), done(result).map(|()| value)))
                }
            }
        )*
    };
}

stored! {
    i8: ncclParamGetI8,
    i16: ncclParamGetI16,
    i32: ncclParamGetI32,
    i64: ncclParamGetI64,
    u8: ncclParamGetU8,
    u16: ncclParamGetU16,
    u32: ncclParamGetU32,
    u64: ncclParamGetU64,
}

impl sealed::Sealed for String {}

impl Stored for String {
    fn read(param: &Param) -> Result<(&'static str, Result<Self, ncclResult_t>), MissingSymbol> {
        let get = param.api.ncclParamGetStr()?;
        let mut value: *const c_char = ptr::null();
        // SAFETY: the handle is NCCL's; `value` is valid for a write of an address.
        let result = unsafe { get(param.handle, &raw mut value) };
        Ok(("ncclParamGetStr", done(result).map(|()| text(value).unwrap_or_default())))
    }
}

fn done(result: ncclResult_t) -> Result<(), ncclResult_t> {
    if result == ncclResult_t::ncclSuccess { Ok(()) } else { Err(result) }
}

/// NCCL's handle of a parameter, valid as long as the library is loaded; `None` if there is no such
/// parameter.
fn bind(nccl: &Nccl, key: &str) -> Result<Option<(CString, Param)>> {
    let bind = nccl.api.ncclParamBind().map_err(too_old)?;
    let Ok(key) = CString::new(key) else { return Ok(None) };
    let mut handle = ptr::null_mut();
    // SAFETY: the key ends with a zero; `handle` is valid for a write.
    match unsafe { bind(&raw mut handle, key.as_ptr()) } {
        ncclResult_t::ncclSuccess => Ok(Some((key, Param { api: nccl.api, handle }))),
        ncclResult_t::ncclInvalidArgument => Ok(None),
        result => Err(nccl.failed("ncclParamBind", None, result)),
    }
}

fn too_old(missing: MissingSymbol) -> Error {
    lacking("NCCL's parameters")(missing)
}

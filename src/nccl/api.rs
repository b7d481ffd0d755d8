//! The loaded NCCL, and what its results mean.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use nccl_sys::{Api, Library, MissingSymbol, Version, ncclResult_t};
use typed_nccl_plan::ir::Version as Release;

use super::environment::Environment;
use crate::Result;
use crate::error::{Call, Error, NcclFailed, NcclResult, NoNccl, Unsupported};

/// NCCL's functions. Those that every release from 2.18 on has are looked up once.
pub(super) struct Nccl {
    pub(super) api: &'static Api,
    pub(super) all_reduce: nccl_sys::ncclAllReduce,
    pub(super) broadcast: nccl_sys::ncclBroadcast,
    pub(super) reduce: nccl_sys::ncclReduce,
    pub(super) all_gather: nccl_sys::ncclAllGather,
    pub(super) reduce_scatter: nccl_sys::ncclReduceScatter,
    pub(super) send: nccl_sys::ncclSend,
    pub(super) recv: nccl_sys::ncclRecv,
    pub(super) group_start: nccl_sys::ncclGroupStart,
    pub(super) group_end: nccl_sys::ncclGroupEnd,
    pub(super) async_error: nccl_sys::ncclCommGetAsyncError,
    pub(super) abort: nccl_sys::ncclCommAbort,
    pub(super) environment: Environment,
}

impl Nccl {
    /// The NCCL of this process.
    pub(super) fn load() -> Result<&'static Self> {
        static LOADED: OnceLock<Nccl> = OnceLock::new();
        if let Some(nccl) = LOADED.get() {
            return Ok(nccl);
        }
        // SAFETY: the library that the system's search or `TYPED_NCCL_LIB` finds is NCCL. The user
        // vouches for that, as for every library on the machine.
        let api = unsafe { Api::load() }
            .map_err(|error| Error::from(NoNccl { tried: error.to_string() }))?;
        let nccl = Self::of(api).map_err(lacking("a communicator"))?;
        Ok(LOADED.get_or_init(|| nccl))
    }

    fn of(api: &'static Api) -> Result<Self, MissingSymbol> {
        Ok(Self {
            api,
            all_reduce: api.ncclAllReduce()?,
            broadcast: api.ncclBroadcast()?,
            reduce: api.ncclReduce()?,
            all_gather: api.ncclAllGather()?,
            reduce_scatter: api.ncclReduceScatter()?,
            send: api.ncclSend()?,
            recv: api.ncclRecv()?,
            group_start: api.ncclGroupStart()?,
            group_end: api.ncclGroupEnd()?,
            async_error: api.ncclCommGetAsyncError()?,
            abort: api.ncclCommAbort()?,
            environment: Environment::read(),
        })
    }

    /// Whether the loaded release is at least this one.
    pub(super) fn at_least(&self, release: Release) -> bool {
        self.api.version().at_least(version_of(release))
    }

    /// Fails if the loaded release is older.
    pub(super) fn needs(&self, what: &str, release: Release) -> Result<()> {
        self.needs_version(what, version_of(release))
    }

    /// Like [`needs`](Self::needs), for the version in a function's declaration.
    pub(super) fn needs_version(&self, what: &str, version: Version) -> Result<()> {
        if self.api.version().at_least(version) {
            return Ok(());
        }
        Err(too_old(what, version, self.api.version(), self.api.library()))
    }

    /// Converts a result.
    pub(super) fn check(
        &self,
        function: &'static str,
        call: Option<Call>,
        result: ncclResult_t,
    ) -> Result<()> {
        if result == ncclResult_t::ncclSuccess {
            return Ok(());
        }
        Err(self.failed(function, call, result))
    }

    #[cold]
    pub(super) fn failed(
        &self,
        function: &'static str,
        call: Option<Call>,
        result: ncclResult_t,
    ) -> Error {
        let mut says = self.sentence(result);
        if let Some(last) = self.last_words() {
            says = format!("{says}; {last}");
        }
        let (result, version) = (NcclResult::from_code(result.0), self.api.version().into());
        let library = self.api.library().name();
        NcclFailed { function, call, result, says, library, version }.into()
    }

    pub(super) fn sentence(&self, result: ncclResult_t) -> String {
        let Ok(sentence) = self.api.ncclGetErrorString() else { return String::new() };
        // SAFETY: the function accepts any value.
        text(unsafe { sentence(result) }).unwrap_or_default().trim().to_owned()
    }

    /// NCCL's last warning in this process.
    pub(super) fn last_words(&self) -> Option<String> {
        let last = self.api.ncclGetLastError().ok()?;
        // SAFETY: the function ignores the communicator.
        let words = text(unsafe { last(nccl_sys::NCCL_COMM_NULL) })?.trim().to_owned();
        (!words.is_empty()).then_some(words)
    }
}

pub(super) fn version_of(Release(major, minor, patch): Release) -> Version {
    Version::new(major.into(), minor.into(), patch.into())
}

pub(super) fn text(words: *const std::ffi::c_char) -> Option<String> {
    if words.is_null() {
        return None;
    }
    // SAFETY: NCCL's texts are C strings, which stay valid until this thread asks again.
    let words = unsafe { CStr::from_ptr(words) };
    Some(words.to_string_lossy().into_owned())
}

/// The error for a function that the loaded NCCL lacks.
pub(super) fn lacking(what: &str) -> impl Fn(MissingSymbol) -> Error {
    move |missing| {
        let what = format!("{what} ({})", missing.function);
        let MissingSymbol { needs, loaded, library, .. } = missing;
        if !missing.is_never_there() {
            return too_old(&what, needs, loaded, library);
        }
        let found = format!("{library} {loaded} is loaded, which does not export it");
        Unsupported::error(what, format!("NCCL {needs}"), found)
    }
}

#[cold]
fn too_old(what: &str, needs: Version, loaded: Version, library: Library) -> Error {
    let library = if library == Library::Nccl { String::new() } else { format!("{library} ") };
    let name = nccl_sys::ENVIRONMENT;
    let found = format!("{library}{loaded} is loaded: load a newer one, which {name} can name");
    Unsupported::error(what, format!("NCCL {needs}"), found)
}

/// Allocates with NCCL's allocator on the current GPU, which is `ordinal`.
pub(crate) fn alloc(bytes: usize, ordinal: u32) -> Result<u64> {
    let nccl = Nccl::load()?;
    let alloc = nccl.api.ncclMemAlloc().map_err(lacking("memory for windows"))?;
    let mut address: *mut c_void = std::ptr::null_mut();
    // SAFETY: `address` is valid for a write; the size is not 0.
    let result = unsafe { alloc(&raw mut address, bytes) };
    nccl.check("ncclMemAlloc", None, result)?;
    log::trace!("cuda:{ordinal}: ncclMemAlloc of {bytes} bytes");
    Ok(address.addr() as u64)
}

/// Frees memory of [`alloc`].
///
/// # Safety
/// The memory is from [`alloc`] on the current GPU, no work uses it, and no window contains it.
pub(crate) unsafe fn free(address: u64) -> Result<()> {
    let nccl = Nccl::load()?;
    let free = nccl.api.ncclMemFree().map_err(lacking("freeing memory"))?;
    // SAFETY: the caller's promise.
    let result = unsafe { free(std::ptr::with_exposed_provenance_mut(address as usize)) };
    nccl.check("ncclMemFree", None, result)
}

//! Finding NCCL while the program runs.
//!
//! A process should have one NCCL: two copies share no communicator and fight for the same devices.
//! So a copy that is loaded already comes before any search. A library is never unloaded.
//!
//! RCCL is taken only where a path leads to it: a program that searches for NCCL has CUDA's memory.

use std::ffi::{CStr, c_void};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::error::{Attempt, Failure, LoadError};
use crate::pip;
use crate::table::Api;

/// The environment variable that names the library to load: a file, or a folder that holds one.
/// AMD's RCCL too.
pub const ENVIRONMENT: &str = "TYPED_NCCL_LIB";

/// Where a library was found, or sought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// The path that the program gave.
    Path(PathBuf),
    /// The path that [`ENVIRONMENT`] gave.
    Environment(PathBuf),
    /// A copy that this process had loaded under this name.
    Loaded(&'static str),
    /// The program itself, which was linked with NCCL.
    Program,
    /// The system's search path, under this name.
    System(&'static str),
    /// A Python environment's wheel.
    Wheel(PathBuf),
    /// A table that the program made, under a name that it gave.
    Given(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Environment(path) => write!(f, "{} (from {ENVIRONMENT})", path.display()),
            Self::Loaded(name) => write!(f, "{name}, already loaded"),
            Self::Program => f.write_str("the program itself"),
            Self::System(name) => write!(f, "{name} on the system's search path"),
            Self::Wheel(path) => write!(f, "{} (a Python wheel)", path.display()),
            Self::Given(name) => f.write_str(name),
        }
    }
}

impl Api {
    /// The NCCL of this process: the first that is found, for good.
    ///
    /// Tried in this order: what [`ENVIRONMENT`] names, and then nothing else; a copy that the
    /// process has loaded already, or was linked with; `libnccl.so.2` and `libnccl.so` on the
    /// system's search path; the wheels `nvidia-nccl-cu13` and `nvidia-nccl-cu12` in the active
    /// Python environment and in Python's usual places.
    ///
    /// # Errors
    ///
    /// No library was found, or none of them is NCCL. A later call searches again.
    ///
    /// # Safety
    ///
    /// What goes by NCCL's name on this machine, or is named by [`ENVIRONMENT`], is NCCL: loading
    /// runs its initialisers, and its functions must be what this crate declares.
    pub unsafe fn load() -> Result<&'static Self, LoadError> {
        static FOUND: OnceLock<&Api> = OnceLock::new();
        if let Some(api) = FOUND.get() {
            return Ok(api);
        }
        // SAFETY: what these places hold is NCCL, by this function's contract.
        let api = unsafe { first(places()) }?;
        Ok(FOUND.get_or_init(|| api))
    }

    /// The library at a path: a file, a folder that holds one, or a bare name for the system's
    /// search path. The same library again gives the same table.
    ///
    /// # Errors
    ///
    /// It is not there, does not load, or is not NCCL.
    ///
    /// # Safety
    ///
    /// It is NCCL, as of [`Self::load`].
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Self, LoadError> {
        // SAFETY: what the path names is NCCL, by this function's contract.
        unsafe { first([Origin::Path(path.as_ref().to_owned())]) }
    }

    /// The file that the system loaded it from. `None` where that is not known: on Windows unless a
    /// path was given, and for a table of the program's own.
    pub fn path(&self) -> Option<PathBuf> {
        match self.origin() {
            Origin::Given(_) => None,
            Origin::Path(path) | Origin::Environment(path) if cfg!(windows) => Some(path.clone()),
            _ => platform::file_of(self.v2_18.ncclGetVersion? as *const c_void),
        }
    }
}

/// Where [`Api::load`] looks.
fn places() -> Vec<Origin> {
    if let Some(path) = std::env::var_os(ENVIRONMENT) {
        return vec![Origin::Environment(path.into())];
    }
    let loaded = platform::NAMES.iter().map(|name| Origin::Loaded(name));
    let system = platform::NAMES.iter().map(|name| Origin::System(name));
    let wheels = pip::folders().into_iter().map(Origin::Wheel);
    loaded.chain([Origin::Program]).chain(system).chain(wheels).collect()
}

/// # Safety
///
/// What is in these places is NCCL.
unsafe fn first(places: impl IntoIterator<Item = Origin>) -> Result<&'static Api, LoadError> {
    let mut attempts = Vec::new();
    for origin in places {
        // SAFETY: what is in this place is NCCL, by this function's contract.
        match unsafe { open(&origin) } {
            Ok(api) => return Ok(api),
            Err(failure) => attempts.push(Attempt { origin, failure }),
        }
    }
    Err(LoadError::new(attempts))
}

/// # Safety
///
/// What is in this place is NCCL.
unsafe fn open(origin: &Origin) -> Result<&'static Api, Failure> {
    let library = match origin {
        Origin::Path(path) | Origin::Environment(path) | Origin::Wheel(path) => {
            let path = in_folder(path)?;
            // SAFETY: what is in this place is NCCL, by this function's contract.
            unsafe { platform::Library::open(&path) }
        }
        Origin::System(name) => {
            // SAFETY: what is in this place is NCCL, by this function's contract.
            unsafe { platform::Library::open(Path::new(name)) }
        }
        Origin::Loaded(name) => platform::Library::already_loaded(name),
        Origin::Program => platform::Library::program(),
        Origin::Given(_) => Err(Failure::NotThere),
    }?;
    // SAFETY: the symbols are those of a library that is NCCL, by this function's contract, or that
    // has no symbol of these names; `keep` never lets it be unloaded.
    let api = unsafe { Api::from_symbols(origin.clone(), |name| library.symbol(name)) }?;
    Ok(keep(api, library))
}

/// A path to a file, for a path to a file or to its folder.
fn in_folder(path: &Path) -> Result<PathBuf, Failure> {
    if path.as_os_str().is_empty() {
        return Err(Failure::Empty);
    }
    if path.is_dir() {
        let names = platform::NAMES.iter().chain(platform::RCCL_NAMES);
        let files = names.map(|name| path.join(name));
        return files.into_iter().find(|file| file.exists()).ok_or(Failure::NotThere);
    }
    // A bare name is the system's to find.
    let is_name = path.parent() == Some(Path::new(""));
    if is_name || path.exists() { Ok(path.to_owned()) } else { Err(Failure::NotThere) }
}

/// Keeps a library for the life of the process, once: two ways to it give one table.
fn keep(api: Api, library: platform::Library) -> &'static Api {
    static KEPT: Mutex<Vec<&Api>> = Mutex::new(Vec::new());
    library.forget();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let address = |api: &Api| api.v2_18.ncclGetVersion.map(|function| function as usize);
    if let Some(same) = kept.iter().find(|other| address(other) == address(&api)) {
        return same;
    }
    let api: &'static Api = Box::leak(Box::new(api));
    kept.push(api);
    api
}

#[cfg(unix)]
mod platform {
    use super::*;

    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};

    /// What the library is called, newest convention first.
    pub(super) const NAMES: &[&str] = if cfg!(target_vendor = "apple") {
        &["libnccl.2.dylib", "libnccl.dylib"]
    } else {
        &["libnccl.so.2", "libnccl.so"]
    };

    /// What RCCL is called.
    pub(super) const RCCL_NAMES: &[&str] = &["librccl.so.1", "librccl.so"];

    pub(super) struct Library(Handle);

    impl Library {
        /// # Safety
        ///
        /// The library's initialisers may run.
        pub(super) unsafe fn open(path: &Path) -> Result<Self, Failure> {
            // SAFETY: the initialisers may run, by this function's contract.
            let handle = unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
            handle.map(Self).map_err(|error| Failure::DoesNotLoad(reason(&error)))
        }

        pub(super) fn already_loaded(name: &str) -> Result<Self, Failure> {
            let flags = RTLD_NOW | RTLD_LOCAL | libc::RTLD_NOLOAD;
            // SAFETY: with RTLD_NOLOAD nothing is loaded, so no initialiser runs; a library that is
            // already there gets one user more.
            let handle = unsafe { Handle::open(Some(name), flags) };
            handle.map(Self).map_err(|_| Failure::NotLoaded)
        }

        pub(super) fn program() -> Result<Self, Failure> {
            Ok(Self(Handle::this()))
        }

        pub(super) fn symbol(&self, name: &CStr) -> *mut c_void {
            // SAFETY: the address is not used here, and `*mut c_void` stands for one of anything.
            let symbol =
                unsafe { self.0.get_singlethreaded::<*mut c_void>(name.to_bytes_with_nul()) };
            symbol.map_or(std::ptr::null_mut(), |symbol| symbol.into_raw())
        }

        /// Never unloads it.
        pub(super) fn forget(self) {
            std::mem::forget(self.0);
        }
    }

    /// The file that an address of a function is from.
    pub(super) fn file_of(address: *const c_void) -> Option<PathBuf> {
        let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: any address may be asked for, and `info` is a place for what is known of it.
        let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
        // SAFETY: it is all zeros, or what the call wrote.
        let info = unsafe { info.assume_init() };
        if found == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: it is not null, so it is the name of a library that is never unloaded.
        let name = unsafe { CStr::from_ptr(info.dli_fname) };
        Some(OsStr::from_bytes(name.to_bytes()).into())
    }

    /// What the dynamic linker said; libloading's own words only name its function.
    fn reason(error: &libloading::Error) -> String {
        std::error::Error::source(error).map_or_else(|| error.to_string(), |said| said.to_string())
    }
}

#[cfg(windows)]
mod platform {
    use super::*;

    use libloading::os::windows::Library as Handle;

    /// What the library is called.
    pub(super) const NAMES: &[&str] = &["nccl.dll"];

    /// What RCCL is called.
    pub(super) const RCCL_NAMES: &[&str] = &["rccl.dll"];

    pub(super) struct Library(Handle);

    impl Library {
        /// # Safety
        ///
        /// The library's initialisers may run.
        pub(super) unsafe fn open(path: &Path) -> Result<Self, Failure> {
            // SAFETY: the initialisers may run, by this function's contract.
            let handle = unsafe { Handle::new(path) };
            handle.map(Self).map_err(|error| Failure::DoesNotLoad(error.to_string()))
        }

        pub(super) fn already_loaded(name: &str) -> Result<Self, Failure> {
            Handle::open_already_loaded(name).map(Self).map_err(|_| Failure::NotLoaded)
        }

        pub(super) fn program() -> Result<Self, Failure> {
            Handle::this().map(Self).map_err(|error| Failure::DoesNotLoad(error.to_string()))
        }

        pub(super) fn symbol(&self, name: &CStr) -> *mut c_void {
            // SAFETY: the address is not used here, and `*mut c_void` stands for one of anything.
            let symbol = unsafe { self.0.get::<*mut c_void>(name.to_bytes_with_nul()) };
            let address = symbol.ok().and_then(|symbol| symbol.into_raw());
            address.map_or(std::ptr::null_mut(), |address| address as *mut c_void)
        }

        /// Never unloads it.
        pub(super) fn forget(self) {
            std::mem::forget(self.0);
        }
    }

    /// Not known.
    pub(super) fn file_of(_: *const c_void) -> Option<PathBuf> {
        None
    }
}

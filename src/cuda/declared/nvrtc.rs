//! NVRTC: CUDA's compiler as a library, located when a kernel is first compiled.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use crate::cuda::driver;

/// Names the library, or a folder that contains it.
const ENVIRONMENT: &str = "TYPED_NCCL_NVRTC";

/// The library's file names, newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
} else {
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
};

type Program = *mut c_void;
type Give = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;

/// The loaded compiler.
pub(super) struct Nvrtc {
    version: (c_int, c_int),
    path: PathBuf,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    log: (Size, Give),
    cubin: (Size, Give),
    ptx: (Size, Give),
    /// The architectures that it compiles for, such as 90.
    pub(super) architectures: Vec<u32>,
}

/// A header that a source includes by name.
pub(super) struct Header {
    pub(super) name: CString,
    pub(super) text: CString,
}

impl Nvrtc {
    /// The compiler of this process, or every place that was tried.
    pub(super) fn load() -> Result<&'static Self, String> {
        static LOADED: OnceLock<Nvrtc> = OnceLock::new();
        if let Some(nvrtc) = LOADED.get() {
            return Ok(nvrtc);
        }
        let mut tried = Vec::new();
        for path in places() {
            match Self::open(&path) {
                Ok(nvrtc) => return Ok(LOADED.get_or_init(|| nvrtc)),
                Err(why) => tried.push(why),
            }
        }
        Err(tried.join("; "))
    }

    fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: the library that this machine, or the variable, names as NVRTC is NVRTC: a user
        // of this crate vouches for it, as for every library of the machine.
        let library = unsafe { Library::new(path) }.map_err(|error| driver::why(&error))?;
        let nvrtc =
            Self::of(&library, path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Its functions are used for the life of the process.
        std::mem::forget(library);
        let (major, minor) = nvrtc.version;
        match driver::version() {
            Some(driver) if driver / 1000 < major => Err(format!(
                "{}: it is of CUDA {major}.{minor}, and the driver of CUDA {}.{} does not take its code",
                path.display(),
                driver / 1000,
                driver % 1000 / 10
            )),
            _ => Ok(nvrtc),
        }
    }

    fn of(library: &Library, path: &Path) -> Result<Self, String> {
        macro_rules! function {
            ($name:literal) => {{
                let name = concat!($name, "\0").as_bytes();
                // SAFETY: the library is NVRTC, whose function of this name has the type at which
                // it is used.
                let found = unsafe { library.get(name) };
                *found.map_err(|_| concat!("it has no ", $name).to_owned())?
            }};
        }
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
            function!("nvrtcVersion");
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are valid for the write.
        let _ = unsafe { version(&raw mut major, &raw mut minor) };
        let count: unsafe extern "C" fn(*mut c_int) -> c_int =
            function!("nvrtcGetNumSupportedArchs");
        let known: unsafe extern "C" fn(*mut c_int) -> c_int = function!("nvrtcGetSupportedArchs");
        let mut number = 0;
        // SAFETY: valid for the write.
        let _ = unsafe { count(&raw mut number) };
        let mut architectures = vec![0; usize::try_from(number).unwrap_or(0)];
        // SAFETY: the buffer holds as many numbers as NVRTC reports architectures.
        let _ = unsafe { known(architectures.as_mut_ptr()) };
        Ok(Self {
            version: (major, minor),
            path: path.to_owned(),
            create: function!("nvrtcCreateProgram"),
            compile: function!("nvrtcCompileProgram"),
            destroy: function!("nvrtcDestroyProgram"),
            log: (function!("nvrtcGetProgramLogSize"), function!("nvrtcGetProgramLog")),
            cubin: (function!("nvrtcGetCUBINSize"), function!("nvrtcGetCUBIN")),
            ptx: (function!("nvrtcGetPTXSize"), function!("nvrtcGetPTX")),
            architectures: architectures.into_iter().map(|number| number.unsigned_abs()).collect(),
        })
    }

    /// `NVRTC 13.0`
    pub(super) fn name(&self) -> String {
        let (major, minor) = self.version;
        format!("NVRTC {major}.{minor}")
    }

    /// The file, as it was found.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Compiles a text: to machine code if the options ask for `sm_..`, else to PTX.
    ///
    /// # Errors
    /// The compiler's log.
    pub(super) fn compile(
        &self,
        (name, text): (&str, &str),
        headers: &[Header],
        options: &[String],
    ) -> Result<Vec<u8>, String> {
        let is_code = options.iter().any(|option| option.contains("=sm_"));
        let text = CString::new(text).map_err(|_| "the source has a zero in it".to_owned())?;
        let name = CString::new(name).unwrap_or_default();
        let names: Vec<_> = headers.iter().map(|header| header.name.as_ptr()).collect();
        let texts: Vec<_> = headers.iter().map(|header| header.text.as_ptr()).collect();
        let mut program = ptr::null_mut();
        // SAFETY: the handle is valid for the write; the texts end with a zero, outlive the call,
        // and are as many as it says.
        let created = unsafe {
            (self.create)(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                c_int::try_from(headers.len()).unwrap_or(0),
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        if created != 0 {
            return Err(format!("nvrtcCreateProgram gave {created}"));
        }
        let options: Vec<_> =
            options.iter().filter_map(|option| CString::new(option.as_str()).ok()).collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).unwrap_or(0);
        // SAFETY: the program was created above; this many texts that end with a zero.
        let compiled = unsafe { (self.compile)(program, count, pointers.as_ptr()) };
        let outcome = match compiled {
            // SAFETY: the program was compiled.
            0 => unsafe { give(program, if is_code { self.cubin } else { self.ptx }) },
            _ => {
                // SAFETY: the program was created.
                let log = unsafe { give(program, self.log) }.unwrap_or_default();
                let log = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
                Err(if log.is_empty() { format!("it gave {compiled}") } else { log.into_owned() })
            }
        };
        // SAFETY: it was created above, and is not used any more.
        let _ = unsafe { (self.destroy)(&raw mut program) };
        outcome
    }
}

/// Calls one of NVRTC's pairs of functions, which return a length and then that many bytes.
///
/// # Safety
/// The functions belong to NVRTC; the program is valid and has such an output.
unsafe fn give(program: Program, (size, give): (Size, Give)) -> Result<Vec<u8>, String> {
    let mut len = 0;
    // SAFETY: the caller's promise; valid for the write.
    let sized = unsafe { size(program, &raw mut len) };
    let mut bytes = vec![0_u8; len];
    // SAFETY: the caller's promise; the buffer has the length that NVRTC reported.
    let given = unsafe { give(program, bytes.as_mut_ptr().cast()) };
    match (sized, given, len) {
        (0, 0, 1..) => Ok(bytes),
        _ => Err(format!("it compiled to nothing ({sized}, {given})")),
    }
}

/// Candidate files, the likeliest first.
fn places() -> Vec<PathBuf> {
    let in_folder = |folder: PathBuf| NAMES.iter().map(move |name| folder.join(name));
    if let Some(path) = env::var_os(ENVIRONMENT).map(PathBuf::from) {
        return if path.is_dir() { in_folder(path).collect() } else { vec![path] };
    }
    let mut places: Vec<PathBuf> = NAMES.iter().map(PathBuf::from).collect();
    let folders = folders().into_iter().flat_map(in_folder);
    // Missing ones need no entry each in the error.
    places.extend(folders.filter(|path| path.exists()));
    places
}

/// The folders of CUDA's libraries: a toolkit's, and those of Python wheels.
fn folders() -> Vec<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let toolkits = homes.chain(["/usr/local/cuda".into()]);
    let toolkits = toolkits.flat_map(|home| ["lib64", "lib"].map(|lib| home.join(lib)));
    let wheels = nccl_sys::site_packages().into_iter().flat_map(|packages| {
        ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"].map(|lib| packages.join(lib))
    });
    toolkits.chain(wheels).collect()
}

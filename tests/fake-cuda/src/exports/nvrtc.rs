//! A double of NVRTC, which compiles no C++. Its output is the PTX in a comment of the source, `/*
//! ptx .. */`. A line `#error ..` is reported as an error, with line numbers according to `#line`.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use crate::code::Code;
use crate::state::Library;

/// The functions whose calls are recorded.
pub(super) const NAMES: &[&str] =
    &["nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcDestroyProgram"];

const SUCCESS: c_int = 0;
const INVALID_INPUT: c_int = 3;
const INVALID_PROGRAM: c_int = 4;
const INVALID_OPTION: c_int = 5;
const COMPILATION: c_int = 6;

#[derive(Default)]
struct Program {
    text: String,
    compiled: Vec<u8>,
    log: Vec<u8>,
}

static PROGRAMS: Mutex<BTreeMap<usize, Program>> = Mutex::new(BTreeMap::new());

/// Accesses a program.
fn with(program: *mut c_void, act: impl FnOnce(&mut Program) -> c_int) -> c_int {
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    programs.get_mut(&program.addr()).map_or(INVALID_PROGRAM, act)
}

fn record(function: &'static str) {
    let mut library = Library::lock();
    let call = library.record(function, Vec::new());
    library.returns(call, Code::SUCCESS);
}

/// # Safety
///
/// Both are valid for writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { major.write(12) };
    // SAFETY: as above.
    unsafe { minor.write(8) };
    SUCCESS
}

/// # Safety
///
/// The place is valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { count.write(2) };
    SUCCESS
}

/// # Safety
///
/// The place is valid for two numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetSupportedArchs(architectures: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { architectures.cast::<[c_int; 2]>().write_unaligned([80, 90]) };
    SUCCESS
}

/// # Safety
///
/// As in NVRTC's manual: a place for a handle, and a text that ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut *mut c_void,
    text: *const c_char,
    _: *const c_char,
    _: c_int,
    _: *const *const c_char,
    _: *const *const c_char,
) -> c_int {
    record("nvrtcCreateProgram");
    if text.is_null() {
        return INVALID_INPUT;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let handle = programs.last_key_value().map_or(1, |(last, _)| last + 1);
    programs.insert(handle, Program { text, ..Program::default() });
    // SAFETY: the caller's promise.
    unsafe { program.write(std::ptr::without_provenance_mut(handle)) };
    SUCCESS
}

/// # Safety
///
/// There are this many texts, each ending with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCompileProgram(
    program: *mut c_void,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    record("nvrtcCompileProgram");
    let count = usize::try_from(count).unwrap_or(0);
    let options = (0..count).map(|at| {
        // SAFETY: the caller's promise.
        let option = unsafe { options.add(at) };
        // SAFETY: as above.
        let option = unsafe { option.read() };
        // SAFETY: as above.
        unsafe { CStr::from_ptr(option) }.to_string_lossy().into_owned()
    });
    let is_for_a_gpu = options.into_iter().any(|option| option == "--gpu-architecture=sm_90");
    with(program, |program| {
        if !is_for_a_gpu {
            program.log = b"the double's GPUs are sm_90\0".to_vec();
            return INVALID_OPTION;
        }
        match compiled(&program.text) {
            Ok(code) => {
                program.compiled = code.into_bytes();
                SUCCESS
            }
            Err(log) => {
                program.log = log.into_bytes();
                program.log.push(0);
                COMPILATION
            }
        }
    })
}

fn compiled(text: &str) -> Result<String, String> {
    let (mut line, mut file) = (0_usize, "source".to_owned());
    for now in text.lines() {
        line += 1;
        if let Some(place) = now.strip_prefix("#line ") {
            let (number, name) = place.split_once(' ').unwrap_or((place, "\"source\""));
            (line, file) = (number.parse().unwrap_or(1), name.trim_matches('"').to_owned());
            line -= 1;
        } else if let Some(words) = now.trim_start().strip_prefix("#error ") {
            return Err(format!("{file}({line}): error: #error {words}\n"));
        }
    }
    let ptx = text.split_once("/* ptx").and_then(|(_, rest)| Some(rest.split_once("*/")?.0));
    ptx.map(str::to_owned).ok_or_else(|| {
        "the double compiles no C++: a test's source has its PTX in a comment, `/* ptx .. */`\n"
            .to_owned()
    })
}

/// Returns a length, or that many bytes.
macro_rules! gives {
    ($($size:ident, $give:ident: $what:ident;)+) => { $(
        /// # Safety
        ///
        /// The place is valid for a write.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $size(program: *mut c_void, size: *mut usize) -> c_int {
            with(program, |program| {
                // SAFETY: the caller's promise.
                unsafe { size.write(program.$what.len()) };
                SUCCESS
            })
        }

        /// # Safety
        ///
        /// There is room for as many bytes as the size function returned.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $give(program: *mut c_void, to: *mut c_char) -> c_int {
            with(program, |program| {
                let from = &program.$what;
                // SAFETY: the caller's promise.
                unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                SUCCESS
            })
        }
    )+ };
}

gives! {
    nvrtcGetProgramLogSize, nvrtcGetProgramLog: log;
    nvrtcGetCUBINSize, nvrtcGetCUBIN: compiled;
    nvrtcGetPTXSize, nvrtcGetPTX: compiled;
}

/// # Safety
///
/// The place holds a handle.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcDestroyProgram(program: *mut *mut c_void) -> c_int {
    record("nvrtcDestroyProgram");
    // SAFETY: the caller's promise.
    let handle = unsafe { program.read() }.addr();
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    programs.remove(&handle).map_or(INVALID_PROGRAM, |_| SUCCESS)
}

//! Generates the kernels' PTX, one compressed file per element type: `src/cuda/kernels/ptx`. NVRTC
//! comes from PyPI, from the release whose PTX every driver since 550 accepts.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use libloading::Library;
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib;

use crate::{Check, Failure, output, root, target};

/// The compiler, by its package's version: CUDA 12.4, PTX 8.4.
const NVRTC: &str = "12.4.127";

/// The smallest that the compressor makes.
const LEVEL: u8 = 10;

/// Element types, by NCCL's numbers.
const ELEMENTS: [&str; 10] = ["i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16"];

/// Writes the files, or compares the present ones with the output.
pub(crate) fn run(only_compare: bool) -> Check {
    let nvrtc = Nvrtc::load()?;
    let folder = root().join("src/cuda/kernels");
    let source = read(&folder.join("kernels.cu"))?;
    let mut differ = Vec::new();
    for (number, name) in ELEMENTS.iter().enumerate() {
        let ptx = nvrtc.ptx(&source, number)?;
        if only_compare {
            if made(name).ok() != Some(ptx) {
                differ.push(*name);
            }
            continue;
        }
        let (path, ptx) = (path(name), compress_to_vec_zlib(ptx.as_bytes(), LEVEL));
        let written = fs::create_dir_all(folder.join("ptx")).and_then(|()| fs::write(&path, ptx));
        written.map_err(|error| not_made(&format!("{}: {error}", path.display())))?;
    }
    if differ.is_empty() {
        return Ok(());
    }
    let files = differ.join(", ");
    Err(Failure::Broken(format!("the PTX of {files} is not of kernels.cu: `xtask ptx` makes it")))
}

/// Prints what there is of an element type.
pub(crate) fn show(element: &str) -> Check {
    print!("{}", made(element)?);
    Ok(())
}

fn path(element: &str) -> PathBuf {
    root().join("src/cuda/kernels/ptx").join(format!("{element}.ptx.z"))
}

/// The text in an element type's file.
fn made(element: &str) -> Check<String> {
    let path = path(element);
    let failed = |error: &dyn Display| not_made(&format!("{}: {error}", path.display()));
    let compressed = fs::read(&path).map_err(|error| failed(&error))?;
    let text = decompress_to_vec_zlib(&compressed).map_err(|error| failed(&error))?;
    String::from_utf8(text).map_err(|error| failed(&error))
}

fn not_made(why: &str) -> Failure {
    Failure::NotMade(why.to_owned())
}

fn read(path: &Path) -> Check<String> {
    fs::read_to_string(path).map_err(|error| not_made(&format!("{}: {error}", path.display())))
}

/// Unpacks the compiler, unless present.
fn fetch() -> Check<PathBuf> {
    let folder = target().join("nvrtc").join(NVRTC);
    let library = folder.join("nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
    if !library.is_file() {
        println!("fetching NVRTC {NVRTC} into {}", folder.display());
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--no-compile", "--only-binary", ":all:", "--target"])
            .arg(&folder)
            .arg(format!("nvidia-cuda-nvrtc-cu12=={NVRTC}"));
        output(&mut pip, "it gets NVRTC from PyPI; install Python 3 with pip")?;
    }
    Ok(library)
}

type Program = *mut c_void;

/// The compiler.
struct Nvrtc(Library);

impl Nvrtc {
    fn load() -> Check<Self> {
        let path = fetch()?;
        // SAFETY: it is NVRTC, which has no initialisers that could do harm.
        let library = unsafe { Library::new(&path) };
        library.map(Self).map_err(|error| not_made(&format!("{}: {error}", path.display())))
    }

    /// A function of this name.
    ///
    /// # Safety
    /// It is of type `F`.
    unsafe fn function<F: Copy>(&self, name: &str) -> Check<F> {
        // SAFETY: the caller's promise.
        let found = unsafe { self.0.get::<F>(name.as_bytes()) };
        found.map(|function| *function).map_err(|error| not_made(&error.to_string()))
    }

    /// The PTX for one element type.
    fn ptx(&self, source: &str, element: usize) -> Check<String> {
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
        // SAFETY: these are their types, by NVRTC's header.
        let create = unsafe { self.function::<Create>("nvrtcCreateProgram") }?;
        // SAFETY: as above.
        let compile = unsafe { self.function::<Compile>("nvrtcCompileProgram") }?;
        let text = CString::new(source).map_err(|error| not_made(&error.to_string()))?;
        let mut program: Program = ptr::null_mut();
        let (name, none) = (c"kernels.cu".as_ptr(), ptr::null());
        // SAFETY: `program` is valid for the write; the texts end with a zero; there are no
        // headers.
        let made = unsafe { create(&raw mut program, text.as_ptr(), name, 0, none, none) };
        let element_is = CString::new(format!("-DELEMENT={element}")).unwrap_or_default();
        let options = [c"--gpu-architecture=compute_70".as_ptr(), element_is.as_ptr()];
        // SAFETY: the program was made above; the options end with a zero each.
        let compiled = unsafe { compile(program, 2, options.as_ptr()) };
        if (made, compiled) != (0, 0) {
            let log = self.text(program, "ProgramLog")?;
            return Err(Failure::Broken(format!("kernels.cu does not compile:\n{log}")));
        }
        let ptx = self.text(program, "PTX")?;
        Ok(format!(
            "// Made of kernels.cu by `cargo run -p xtask -- ptx`. Element {element}.\n{ptx}"
        ))
    }

    /// An output of a program, by name.
    fn text(&self, program: Program, what: &str) -> Check<String> {
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        type Get = unsafe extern "C" fn(Program, *mut u8) -> c_int;
        // SAFETY: these are their types, by NVRTC's header.
        let size = unsafe { self.function::<Size>(&format!("nvrtcGet{what}Size")) }?;
        // SAFETY: as above.
        let get = unsafe { self.function::<Get>(&format!("nvrtcGet{what}")) }?;
        let mut bytes = 0;
        // SAFETY: `bytes` is valid for the write; the program exists.
        let told = unsafe { size(program, &raw mut bytes) };
        let mut text = vec![0; bytes];
        // SAFETY: there is room for this many bytes.
        let got = unsafe { get(program, text.as_mut_ptr()) };
        if (told, got) != (0, 0) {
            return Err(not_made(&format!("NVRTC gives no {what}")));
        }
        let text = String::from_utf8_lossy(&text);
        Ok(text.trim_end_matches('\0').trim_end().to_owned() + "\n")
    }
}

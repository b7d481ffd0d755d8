//! Finds the headers that a kernel's source includes.

use std::env;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};

use super::nvrtc::{Header, Nvrtc};
use crate::error::KernelFault;
use crate::nccl::library;

/// The folders of CUDA's own headers.
pub(super) fn cuda(nvrtc: &Nvrtc) -> Vec<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let beside = nvrtc.path().canonicalize().ok();
    // `lib64/libnvrtc.so` of a toolkit, `targets/x86_64-linux/lib/libnvrtc.so`,
    // `nvidia/cu13/lib/libnvrtc.so`.
    let beside = beside.and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    let roots = homes.chain(beside).chain(["/usr/local/cuda".into()]);
    let wheels = nccl_sys::site_packages().into_iter().flat_map(|packages| {
        ["nvidia/cu13/include", "nvidia/cuda_runtime/include", "nvidia/cuda_cccl/include"]
            .map(|include| packages.join(include))
    });
    let mut found: Vec<PathBuf> = Vec::new();
    let folders = roots.map(|root| root.join("include")).chain(wheels);
    // CUDA 13 keeps C++'s own headers in a folder of their own.
    for folder in folders.flat_map(|folder| [folder.join("cccl"), folder]) {
        if folder.is_dir() && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

/// The folder with the headers of the loaded NCCL, whose version is appended to `compiler`.
///
/// # Errors
/// There is no such folder, or its headers are of another release, whose layouts may differ.
pub(super) fn nccl(compiler: &mut String) -> Result<PathBuf, KernelFault> {
    let what = |version: &str| format!("the headers of NCCL{version} (`nccl_device.h`)");
    let loaded = library::version()
        .map_err(|error| KernelFault::NoHeaders { what: what(""), tried: error.to_string() })?;
    let beside = library::path().ok().flatten().and_then(|path| path.canonicalize().ok());
    let beside = beside.and_then(|path| Some(path.parent()?.parent()?.join("include")));
    let mut tried = Vec::new();
    for folder in nccls(beside) {
        match version_of(&folder) {
            Some(version) if version == loaded.to_string() => {
                compiler.push_str(&format!(" with NCCL {version}"));
                return Ok(folder);
            }
            Some(version) => tried.push(format!("{} has those of {version}", folder.display())),
            None => tried.push(format!("{} has none", folder.display())),
        }
    }
    let tried = tried.join("; ");
    Err(KernelFault::NoHeaders { what: what(&format!(" {loaded}")), tried })
}

/// Candidate folders for NCCL's headers: the configured one, beside the library, and where systems
/// and pip install them.
pub(super) fn nccls(beside: Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let homes = ["NCCL_HOME", "NCCL_ROOT"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let wheels = nccl_sys::site_packages().into_iter().map(|at| at.join("nvidia/nccl"));
    let roots = ["/usr", "/usr/local/cuda"].map(PathBuf::from).into_iter().chain(wheels);
    let homes = homes.map(|root| root.join("include"));
    homes.chain(beside).chain(roots.map(|root| root.join("include")))
}

/// The release of these headers, if they include NCCL's device API.
pub(super) fn version_of(folder: &Path) -> Option<String> {
    if !folder.join("nccl_device").is_dir() {
        return None;
    }
    let header = fs::read_to_string(folder.join("nccl.h")).ok()?;
    let number = |name: &str| {
        let line =
            header.lines().find_map(|line| line.strip_prefix(&format!("#define {name} ")))?;
        line.trim().parse::<u32>().ok()
    };
    let [major, minor, patch] = ["NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"].map(number);
    Some(format!("{}.{}.{}", major?, minor?, patch?))
}

/// C and C++ headers that NCCL's include, and from which NVRTC needs nothing beyond CUDA's own.
pub(super) fn stand_ins() -> Vec<Header> {
    const NAMES: [&str; 22] = [
        "assert.h",
        "atomic",
        "cassert",
        "climits",
        "cstddef",
        "cstdint",
        "cuda_runtime.h",
        "errno.h",
        "float.h",
        "inttypes.h",
        "limits.h",
        "math.h",
        "memory",
        "stdarg.h",
        "stdbool.h",
        "stddef.h",
        "stdint.h",
        "stdio.h",
        "stdlib.h",
        "string.h",
        "type_traits",
        "utility",
    ];
    let header = |name: &str| Header {
        name: CString::new(name).unwrap_or_default(),
        text: CString::default(),
    };
    NAMES.into_iter().map(header).collect()
}

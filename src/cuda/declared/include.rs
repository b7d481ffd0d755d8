//! Where the headers lie that a kernel's source includes.

use std::env;
use std::path::PathBuf;

use super::nvrtc::Nvrtc;

/// The folders with CUDA's own headers.
pub(super) fn cuda(nvrtc: &Nvrtc) -> Vec<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let beside = nvrtc.path().canonicalize().ok();
    // `lib64/libnvrtc.so` of a toolkit, `targets/x86_64-linux/lib/libnvrtc.so`, `nvidia/cu13/lib/libnvrtc.so`.
    let beside = beside.and_then(|path| Some(path.parent()?.parent()?.to_owned()));
    let roots = homes.chain(beside).chain(["/usr/local/cuda".into()]);
    let wheels = nccl_sys::site_packages().into_iter().flat_map(|packages| {
        ["nvidia/cu13/include", "nvidia/cuda_runtime/include", "nvidia/cuda_cccl/include"]
            .map(|include| packages.join(include))
    });
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in roots.map(|root| root.join("include")).chain(wheels) {
        if folder.is_dir() && !found.contains(&folder) {
            found.push(folder);
        }
    }
    found
}

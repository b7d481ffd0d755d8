//! Copies of NCCL, and what their files say of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use typed_nccl::library;

use super::Library;

/// The system's folders, and CUDA's.
const SYSTEM: [&str; 7] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/cuda/lib64",
    "usr/local/nccl/lib",
];

/// The copies below a root, each once, in the order in which a program finds them.
pub(crate) fn find(root: &Path, variables: &BTreeMap<String, String>) -> Vec<Library> {
    let mut folders: Vec<(&'static str, PathBuf)> = Vec::new();
    let listed = variables.get("LD_LIBRARY_PATH").map_or("", String::as_str);
    let listed = listed.split(':').filter(|folder| !folder.is_empty());
    folders.extend(listed.map(|folder| ("LD_LIBRARY_PATH", PathBuf::from(folder))));
    folders.extend(SYSTEM.map(|folder| ("the system", root.join(folder))));
    let named = ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"];
    let mut prefixes: Vec<PathBuf> =
        named.iter().filter_map(|name| variables.get(*name)).map(PathBuf::from).collect();
    prefixes.extend(variables.get("HOME").map(|home| Path::new(home).join(".local")));
    prefixes.extend(["usr/local", "usr"].map(|prefix| root.join(prefix)));
    for prefix in prefixes {
        folders.extend(pythons(&prefix).into_iter().map(|folder| ("pip", folder)));
    }
    let mut all: Vec<Library> = Vec::new();
    for (by, folder) in folders {
        let file = ["libnccl.so.2", "libnccl.so"].map(|name| folder.join(name));
        let Some(file) = file.into_iter().find_map(|file| fs::canonicalize(file).ok()) else {
            continue;
        };
        if all.iter().all(|known| known.file != file) {
            let (release, cuda) = banner(&file).unwrap_or_default();
            all.push(Library { file, by, release, cuda });
        }
    }
    all
}

/// Where pip puts NCCL below a prefix.
fn pythons(prefix: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let pythons = entries.filter(|it| it.file_name().to_string_lossy().starts_with("python3"));
    let packages = |python: PathBuf| ["site-packages", "dist-packages"].map(|it| python.join(it));
    let packages = pythons.flat_map(|python| packages(python.path()));
    let mut all: Vec<_> = packages.map(|packages| packages.join("nvidia/nccl/lib")).collect();
    all.sort();
    all
}

type Banner = (Option<String>, Option<(u32, u32)>);

/// The text in the file: `NCCL version 2.27.3+cuda12.4`.
fn banner(file: &Path) -> Option<Banner> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(file).ok()?);
    let mut part = Vec::new();
    while file.read_until(0, &mut part).ok()? > 0 {
        let text = String::from_utf8_lossy(part.strip_suffix(b"\0").unwrap_or(&part));
        let found = text.split("NCCL version ").nth(1).and_then(|rest| {
            let (release, cuda) = rest.trim().split_once("+cuda")?;
            let is_release = release.chars().all(|it| it.is_ascii_digit() || it == '.');
            let (major, minor) = cuda.split_once('.')?;
            let cuda = (major.parse().ok()?, minor.parse().ok()?);
            is_release.then(|| (Some(release.to_owned()), Some(cuda)))
        });
        if found.is_some() {
            return found;
        }
        part.clear();
    }
    None
}

/// The copy that a program of this library loads.
pub(super) fn loaded() -> Result<(PathBuf, String), String> {
    let version = library::version().map_err(|error| error.to_string())?;
    let path = library::path().ok().flatten().unwrap_or_default();
    Ok((path, version.to_string()))
}

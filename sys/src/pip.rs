//! Where pip puts NCCL: `site-packages/nvidia/nccl/lib` of a Python environment. Found by looking
//! at folders; no Python is run.

use std::cmp::Reverse;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders in which a wheel's library lies or would lie, the active environment's first.
pub(crate) fn folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for packages in site_packages() {
        let folder = packages.join("nvidia/nccl/lib");
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The folders in which pip puts packages, the active environment's first.
pub fn site_packages() -> Vec<PathBuf> {
    prefixes().iter().flat_map(|prefix| packages(prefix)).collect()
}

/// Where Pythons are installed, the likeliest first.
fn prefixes() -> Vec<PathBuf> {
    let named = ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"];
    let mut prefixes: Vec<PathBuf> =
        named.iter().filter_map(env::var_os).map(PathBuf::from).collect();
    prefixes.extend(on_path());
    prefixes.extend(env::var_os("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    prefixes
}

/// The environments of the `python3` that a shell would start: where it lies, and where it leads.
/// pyenv's leads nowhere, and stands for every version beside it.
fn on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let pythons = env::split_paths(&path).map(|folder| folder.join("python3"));
    let Some(python) = pythons.into_iter().find(|python| python.exists()) else {
        return Vec::new();
    };
    let real = fs::canonicalize(&python).ok();
    let prefix = |python: PathBuf| Some(python.parent()?.parent()?.to_owned());
    let prefixes: Vec<PathBuf> =
        [Some(python), real].into_iter().flatten().filter_map(prefix).collect();
    let versions = prefixes.iter().flat_map(|prefix| fs::read_dir(prefix.join("versions")).ok());
    let mut versions: Vec<PathBuf> =
        versions.flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    versions.sort_by_cached_key(|version| Reverse(numbers(version)));
    prefixes.into_iter().chain(versions).collect()
}

/// The 3, 12 and 1 of pyenv's `3.12.1`, for their order.
fn numbers(version: &Path) -> Vec<u32> {
    let name = version.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').filter_map(|number| number.parse().ok()).collect()
}

/// The package folders below a prefix, newest Python first.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    // Windows has one, without a version.
    let mut found = Vec::from([prefix.join("Lib/site-packages")]);
    found.retain(|folder| folder.is_dir());
    for lib in ["lib", "lib64"] {
        let Ok(entries) = fs::read_dir(prefix.join(lib)) else { continue };
        let mut pythons: Vec<(u32, PathBuf)> = entries
            .filter_map(|entry| entry.ok())
            .filter_map(|entry| Some((minor(entry.file_name().to_str()?)?, entry.path())))
            .collect();
        pythons.sort_unstable_by(|a, b| b.cmp(a));
        for (_, python) in pythons {
            found.extend(["site-packages", "dist-packages"].map(|name| python.join(name)));
        }
    }
    found.retain(|folder| folder.is_dir());
    found
}

/// The 12 of `python3.12`; 0 for Debian's `python3`, which belongs to all.
fn minor(name: &str) -> Option<u32> {
    match name.strip_prefix("python3")? {
        "" => Some(0),
        rest => rest.strip_prefix('.')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_folders_have_numbers() {
        assert_eq!(minor("python3.12"), Some(12));
        assert_eq!(minor("python3"), Some(0));
        assert_eq!(minor("python3.12t"), None);
        assert_eq!(minor("python2.7"), None);
        assert_eq!(minor("perl5"), None);
    }
}

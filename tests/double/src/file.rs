//! A double on disk: the built library, and copies of it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// The library of this crate that was built with the running test.
///
/// # Panics
///
/// It is not beside the running program. `cargo test` builds it there for every package that lists
/// its crate as a dev-dependency.
pub fn built(name: &str) -> PathBuf {
    let program = env::current_exe().expect("a program has a path");
    let beside = program.parent().expect("a program lies in a folder");
    let folders = [beside.to_owned(), beside.join("../deps"), beside.join("deps")];
    let (prefix, suffix) = (env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let is_double = |path: &PathBuf| {
        let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let hash = file
            .strip_prefix(prefix)
            .and_then(|file| file.strip_prefix(name))
            .and_then(|file| file.strip_suffix(suffix));
        hash.is_some_and(|hash| hash.is_empty() || hash.starts_with('-'))
    };
    let files = folders.iter().flat_map(fs::read_dir).flatten().flatten();
    let newest = files
        .map(|entry| entry.path())
        .filter(is_double)
        .max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok());
    newest.unwrap_or_else(|| panic!("no {prefix}{name}{suffix} in {}", beside.display()))
}

/// Creates a file that no process has loaded, and its folder. A process that has loaded a previous
/// file keeps that one.
///
/// # Panics
///
/// The file cannot be made.
pub fn write(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}", process::id()));
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let written = fs::create_dir_all(folder)
        .and_then(|()| make(Path::new(&new)))
        .and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        panic!("{}: {error}", path.display());
    }
}

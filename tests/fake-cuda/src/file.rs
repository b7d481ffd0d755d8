//! The double on disk: what was built, and copies of it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::fake::Fake;

/// What the driver's library is called.
const NAME: &str = "libcuda.so.1";

/// What some look for first.
const SHORT: &str = "libcuda.so";

/// A file that holds the double.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    path: PathBuf,
}

impl File {
    /// What was built with the running test.
    ///
    /// # Panics
    ///
    /// It is not beside the running program. `cargo test` builds it there for every package that
    /// names this one among its dev-dependencies.
    pub fn built() -> Self {
        let program = env::current_exe().expect("a program has a path");
        let beside = program.parent().expect("a program lies in a folder");
        let folders = [beside.to_owned(), beside.join("../deps"), beside.join("deps")];
        let (prefix, suffix) = (env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
        let is_double = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let hash = name
                .strip_prefix(prefix)
                .and_then(|name| name.strip_prefix("fake_cuda"))
                .and_then(|name| name.strip_suffix(suffix));
            hash.is_some_and(|hash| hash.is_empty() || hash.starts_with('-'))
        };
        let files = folders.iter().flat_map(fs::read_dir).flatten().flatten();
        let newest = files
            .map(|entry| entry.path())
            .filter(is_double)
            .max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok());
        match newest {
            Some(path) => Self { path },
            None => panic!("no {prefix}fake_cuda{suffix} in {}", beside.display()),
        }
    }

    /// A copy: a library of its own, under the driver's names, in a folder that is made. Who has the
    /// folder on the system's search path has a driver.
    ///
    /// # Panics
    ///
    /// The folder cannot be written to.
    pub fn install(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        // A process that has loaded one that was there keeps it.
        let write = |name: &str, make: &dyn Fn(&Path) -> io::Result<()>| {
            let (path, new) = (folder.join(name), folder.join(format!("{name}.{}", process::id())));
            make(&new).and_then(|()| fs::rename(&new, path))
        };
        let written = fs::create_dir_all(folder)
            .and_then(|()| write(NAME, &|new| fs::copy(Self::built().path, new).map(drop)))
            .and_then(|()| write(SHORT, &|new| link(NAME, new)));
        match written {
            Ok(()) => Self { path: folder.join(NAME) },
            Err(error) => panic!("{}: {error}", folder.display()),
        }
    }

    /// A file that [`install`](Self::install) has written, perhaps in another process.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Loads it.
    ///
    /// # Panics
    ///
    /// It does not load.
    pub fn load(&self) -> Fake {
        Fake::load(self)
    }
}

#[cfg(unix)]
fn link(to: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, path)
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> io::Result<()> {
    Ok(())
}

//! The double on disk: what was built, and copies of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
        Self { path: double::built("fake_cuda") }
    }

    /// A copy: a library of its own, under the driver's names, in a folder that is made. Who has the
    /// folder on the system's search path has a driver.
    ///
    /// # Panics
    ///
    /// The folder cannot be written to.
    pub fn install(folder: impl AsRef<Path>) -> Self {
        let folder = folder.as_ref();
        let path = folder.join(NAME);
        double::write(&path, |new| fs::copy(Self::built().path, new).map(drop));
        double::write(&folder.join(SHORT), |new| link(NAME, new));
        Self { path }
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

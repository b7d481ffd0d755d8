//! The double on disk: the built library, and copies of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::fake::Fake;

/// The file name of the driver's library.
const NAME: &str = "libcuda.so.1";

/// The name that some programs try first.
const SHORT: &str = "libcuda.so";

/// A file that holds the double.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    path: PathBuf,
}

impl File {
    /// The library built with the running test.
    ///
    /// # Panics
    ///
    /// It is not beside the running program. `cargo test` builds it there for every package that
    /// lists this one as a dev-dependency.
    pub fn built() -> Self {
        Self { path: double::built("fake_cuda") }
    }

    /// Makes a copy: a separate library, under the driver's names, in a new folder. A process with
    /// the folder on the system's search path has a driver.
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

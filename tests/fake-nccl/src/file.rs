//! The double on disk: the built library, and copies of it.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use {
    nccl_sys::{Function, Version},
    std::collections::HashSet,
};

use crate::fake::Fake;

/// The file name of NCCL's library.
const NAME: &str = if cfg!(target_vendor = "apple") { "libnccl.2.dylib" } else { "libnccl.so.2" };

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
        Self { path: double::built("fake_nccl") }
    }

    /// A file written by [`copy`](Self::copy) or [`release`](Self::release), perhaps in another
    /// process.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Makes a copy: a separate library, with NCCL's name, in a new folder.
    ///
    /// # Panics
    ///
    /// The folder cannot be written to.
    pub fn copy(folder: impl AsRef<Path>) -> Self {
        Self::write(folder.as_ref(), &Self::built().read())
    }

    /// Makes a copy like a release: it reports that version, and lacks the functions that came
    /// later.
    ///
    /// # Panics
    ///
    /// The folder cannot be written to.
    #[cfg(target_os = "linux")]
    pub fn release(version: Version, folder: impl AsRef<Path>) -> Self {
        let mut bytes = Self::built().read();
        let code = version.code() as std::ffi::c_int;
        assert_eq!(crate::stamp::restamp(&mut bytes, code), 1, "the file has one mark");
        let newer = |function: &&Function| !version.at_least(function.since());
        let newer: HashSet<_> = Function::ALL.iter().filter(newer).map(|f| f.name()).collect();
        hide(&mut bytes, &newer);
        Self::write(folder.as_ref(), &bytes)
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

    fn read(&self) -> Vec<u8> {
        match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) => panic!("{}: {error}", self.path.display()),
        }
    }

    fn write(folder: &Path, bytes: &[u8]) -> Self {
        let path = folder.join(NAME);
        double::write(&path, |new| fs::write(new, bytes));
        Self { path }
    }
}

/// Hides functions from the dynamic linker, which finds a name by its hash and then compares it.
/// The hash stays, and the first letter of the name changes wherever the name stands alone.
#[cfg(target_os = "linux")]
fn hide(file: &mut [u8], names: &HashSet<&str>) {
    for text in file.split_mut(|byte| *byte == 0) {
        if text.starts_with(b"nccl") && str::from_utf8(text).is_ok_and(|name| names.contains(name))
        {
            text[0] = b'x';
        }
    }
}

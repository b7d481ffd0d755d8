//! The double on disk: the built library, and copies of it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use nccl_sys::{Function, Version};

use crate::fake::Fake;

/// The file name of NCCL's library.
const NAME: &str = if cfg!(target_vendor = "apple") { "libnccl.2.dylib" } else { "libnccl.so.2" };

/// The file name of RCCL's library.
#[cfg(target_os = "linux")]
const RCCL_NAME: &str = "librccl.so.1";

/// A function of RCCL's alone, which the built library exports on Linux.
const MARK_OF_RCCL: &str = "mscclLoadAlgo";

/// Beginnings of the names that `rccl.h` lacks in every release.
#[cfg(target_os = "linux")]
const RCCL_LACKS: [&str; 9] = [
    "ncclDevComm",
    "ncclTeam",
    "ncclGin",
    "ncclLsa",
    "ncclLLA2A",
    "ncclCft",
    "ncclParam",
    "ncclCommQueryProperties",
    "ncclSetEncryption",
];

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
        let mut bytes = Self::built().read();
        hide(&mut bytes, &HashSet::from([MARK_OF_RCCL]));
        Self::write(folder.as_ref(), NAME, &bytes)
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
        let newer = Function::ALL.iter().filter(newer).map(|f| f.name());
        hide(&mut bytes, &newer.chain([MARK_OF_RCCL]).collect());
        Self::write(folder.as_ref(), NAME, &bytes)
    }

    /// Makes a copy like an RCCL that follows a release: it has a function of RCCL's own, lacks
    /// what RCCL's header lacks and what came later, and has `ncclGather` and `ncclScatter`, which
    /// RCCL had first.
    ///
    /// # Panics
    ///
    /// The folder cannot be written to.
    #[cfg(target_os = "linux")]
    pub fn rccl(version: Version, folder: impl AsRef<Path>) -> Self {
        let mut bytes = Self::built().read();
        let code = version.code() as std::ffi::c_int;
        assert_eq!(crate::stamp::restamp(&mut bytes, code), 1, "the file has one mark");
        let lacks = |function: &&Function| {
            let name = function.name();
            let is_pointer = name.starts_with("ncclGet") && name.contains("Device");
            let had_first = ["ncclGather", "ncclScatter"].contains(&name);
            is_pointer
                || RCCL_LACKS.iter().any(|start| name.starts_with(start))
                || (!version.at_least(function.since()) && !had_first)
        };
        hide(&mut bytes, &Function::ALL.iter().filter(lacks).map(|f| f.name()).collect());
        Self::write(folder.as_ref(), RCCL_NAME, &bytes)
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

    fn write(folder: &Path, name: &str, bytes: &[u8]) -> Self {
        let path = folder.join(name);
        double::write(&path, |new| fs::write(new, bytes));
        Self { path }
    }
}

/// Hides functions from the dynamic linker, which finds a name by its hash and then compares it.
/// The hash stays, and the first letter of the name changes wherever the name stands alone.
fn hide(file: &mut [u8], names: &HashSet<&str>) {
    for text in file.split_mut(|byte| *byte == 0) {
        let is_name = text.starts_with(b"nccl") || text.starts_with(b"mscc");
        if is_name && str::from_utf8(text).is_ok_and(|name| names.contains(name)) {
            text[0] = b'x';
        }
    }
}

//! What can go wrong while a library is found, and when a function is asked for.

use std::ffi::c_int;
use std::fmt;

use thiserror::Error;

use crate::library::Library;
use crate::loader::{ENVIRONMENT, Origin};
use crate::result::ncclResult_t;
use crate::table::Function;
use crate::version::Version;

/// The loaded library does not have a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct MissingSymbol {
    /// What was asked for.
    pub function: Function,
    /// The first release of NCCL that has it.
    pub needs: Version,
    /// The release that is loaded.
    pub loaded: Version,
    /// The library that is loaded.
    pub library: Library,
}

impl MissingSymbol {
    /// Whether a newer release need not have it either: the loaded one is as new as the function,
    /// or is RCCL.
    pub fn is_never_there(&self) -> bool {
        self.library == Library::Rccl || self.loaded.at_least(self.needs)
    }
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, needs, loaded, library } = self;
        if self.is_never_there() {
            return write!(
                f,
                "the loaded {library} {loaded} does not export {function}, which NCCL declares since \
                 {needs}"
            );
        }
        write!(f, "{function} needs NCCL {needs}, and {loaded} is loaded: load a newer library")
    }
}

/// No NCCL could be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct LoadError {
    attempts: Vec<Attempt>,
}

impl LoadError {
    pub(crate) const fn new(attempts: Vec<Attempt>) -> Self {
        Self { attempts }
    }

    /// Every place that was tried, in order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.attempts
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no NCCL could be loaded; tried")?;
        for attempt in &self.attempts {
            write!(f, "\n  {}: {}", attempt.origin, attempt.failure)?;
        }
        write!(f, "\ninstall NCCL, or name a library in {ENVIRONMENT}")
    }
}

/// One place, and why it did not give a library.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Where.
    pub origin: Origin,
    /// Why not.
    pub failure: Failure,
}

/// Why a place did not give a library.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// There is no such file.
    #[error("not there")]
    NotThere,
    /// This process has not loaded it.
    #[error("not loaded in this process")]
    NotLoaded,
    /// The system does not load it, for this reason.
    #[error("{0}")]
    DoesNotLoad(String),
    /// It has no `ncclGetVersion`.
    #[error("it has no ncclGetVersion: it is not NCCL")]
    NotNccl,
    /// Its `ncclGetVersion` fails.
    #[error("its ncclGetVersion gives {0:?}")]
    NoVersion(ncclResult_t),
    /// Its `ncclGetVersion` writes a number that is no version.
    #[error("its ncclGetVersion says {0}, which is no version")]
    StrangeVersion(c_int),
    /// An environment variable is set and empty.
    #[error("it is empty")]
    Empty,
}

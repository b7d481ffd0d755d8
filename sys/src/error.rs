//! What can go wrong while a library is found, and when a function is asked for.

use std::ffi::c_int;
use std::fmt;

use thiserror::Error;

use crate::loader::{ENVIRONMENT, Origin};
use crate::result::ncclResult_t;
use crate::table::Function;
use crate::version::Version;

/// The loaded library does not have a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub struct MissingSymbol {
    /// What was asked for.
    pub function: Function,
    /// The first release that has it.
    pub needs: Version,
    /// The release that is loaded.
    pub loaded: Version,
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, needs, loaded } = self;
        if loaded.at_least(*needs) {
            return write!(
                f,
                "the loaded NCCL {loaded} does not export {function}, which is declared since {needs}"
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

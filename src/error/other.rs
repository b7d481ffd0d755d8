//! Errors of the program's own, where this library's are expected.

use std::error::Error as StdError;
use std::sync::Arc;

use super::Error;

/// An error of the program's own.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{source}")]
pub struct Other {
    /// What went wrong.
    pub source: Arc<dyn StdError + Send + Sync>,
}

impl Error {
    /// An error of the program's own, for compute steps and closures that return this library's:
    ///
    /// ```
    /// # use typed_nccl::{Error, Result};
    /// fn load(path: &str) -> Result<Vec<u8>> {
    ///     std::fs::read(path).map_err(Error::other)
    /// }
    ///
    /// let error = load("no/such/file").unwrap_err();
    /// assert!(matches!(error, Error::Other(_)));
    /// assert!(Error::other("disk full").to_string() == "disk full");
    /// ```
    pub fn other(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Other(Box::new(Other { source: source.into().into() }))
    }
}

//! Errors of the program's own, where this library's are expected.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use super::Error;

/// An error of the program's own.
#[derive(Clone, Debug)]
pub struct Other {
    /// What went wrong.
    pub source: Arc<dyn StdError + Send + Sync>,
    /// The same in words, as it was when the error was made.
    pub text: String,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Of one source, not of one text: what the program's own errors say may be alike.
impl PartialEq for Other {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }
}

impl Eq for Other {}

impl StdError for Other {
    /// What the program's error comes from. That error itself is this one, and its text is told already.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
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
        let source: Box<dyn StdError + Send + Sync> = source.into();
        let text = source.to_string();
        Self::Other(Box::new(Other { source: source.into(), text }))
    }

    /// The same without anything of the program's in it. What the other ranks are told is compared,
    /// printed and dropped under locks of ours.
    pub(crate) fn in_words(&self) -> Self {
        match self {
            Self::Other(other) => Self::other(other.text.as_str()),
            ours => ours.clone(),
        }
    }
}

//! The program's own errors, where this library's type is expected.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use super::Error;

/// An error of the program.
///
/// ```
/// use typed_nccl::Error;
///
/// let error = Error::other(std::io::Error::other("disk full"));
/// let Error::Other(other) = error else { panic!("it is the program's own") };
/// assert!(other.text == "disk full" && other.source.is::<std::io::Error>());
/// ```
#[derive(Clone, Debug)]
pub struct Other {
    /// The program's error.
    pub source: Arc<dyn StdError + Send + Sync>,
    /// Its message at the time of conversion.
    pub text: String,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Compares by identity, because different errors may have the same message.
impl PartialEq for Other {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }
}

impl Eq for Other {}

impl StdError for Other {
    /// The source of the program's error, whose own message `Display` has printed.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}

impl Error {
    /// Wraps an error of the program, for compute steps and closures that return this library's
    /// type:
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

    /// A copy without the program's own error. What other ranks receive is compared, printed and
    /// dropped under our locks, where no user code may run.
    pub(crate) fn in_words(&self) -> Self {
        match self {
            Self::Other(other) => Self::other(other.text.as_str()),
            ours => ours.clone(),
        }
    }
}

//! Why a file is no schedule.

use typed_nccl_plan::ir::Location;

/// A file that is no schedule: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{}:{}: {reason}", at.line, at.column)]
pub struct Unreadable {
    /// The file's name, as it was given.
    pub file: String,
    /// The line and the column; 0 if it is about the whole file.
    pub at: Location,
    /// What is wrong there.
    pub reason: Reason,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The file could not be opened.
    #[error("{0}")]
    NotOpened(String),
    /// Its bytes are not UTF-8.
    #[error("this is not UTF-8 text")]
    NotText,
    /// It begins with neither `<` nor `{`.
    #[error(
        "this is neither MSCCL's XML, which begins with `<algo`, nor MSCCL++'s JSON, an object"
    )]
    Neither,
    /// It is not XML, or not JSON.
    #[error("{0}")]
    Syntax(String),
    /// An element that has to be there is not.
    #[error("`{0}` is missing")]
    NoElement(&'static str),
    /// An element has no such attribute.
    #[error("`<{element}>` has no attribute `{attribute}`")]
    Missing {
        /// The element.
        element: &'static str,
        /// The attribute.
        attribute: &'static str,
    },
    /// A value is not one that this attribute or field can have.
    #[error("`{attribute}` is `{value}`, which is not {wanted}")]
    Value {
        /// The attribute or field.
        attribute: &'static str,
        /// What it is.
        value: String,
        /// What it can be.
        wanted: String,
    },
    /// Two things have one number.
    #[error("there are two {what} with the number {number}")]
    Twice {
        /// What they are.
        what: &'static str,
        /// Their number.
        number: i64,
    },
    /// It is larger than what is looked at.
    #[error("there are too many {what}: at most {most} are looked at")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much is looked at.
        most: u64,
    },
}

impl Unreadable {
    pub(crate) fn new(at: Location, reason: Reason) -> Self {
        Self { file: String::new(), at, reason }
    }

    pub(crate) fn too_large(what: &'static str, most: impl TryInto<u64>) -> Self {
        let most = most.try_into().unwrap_or(u64::MAX);
        Self::new(Location::default(), Reason::TooLarge { what, most })
    }
}

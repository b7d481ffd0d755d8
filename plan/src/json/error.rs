//! Why a text is not read as a plan.

use crate::verdict::Rejected;

/// Why a text is no plan: one case for each kind of bad file.
///
/// Lines and columns are those of the text, from 1; columns count bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// There is too much of it.
    #[error(
        "a plan was to be read from {len} bytes, and texts of more than {} are not read: use loops, \
         or split the plan",
        super::MOST_BYTES
    )]
    TooLarge {
        /// How many bytes it has.
        len: usize,
    },
    /// It is no text.
    #[error(
        "a plan was to be read from UTF-8, and the byte at line {line}, column {column} is none: save \
         the file as UTF-8"
    )]
    NotUtf8 {
        /// Where the first such byte is.
        line: usize,
        /// Where in the line.
        column: usize,
    },
    /// It is no JSON, or nested too deep.
    #[error(
        "a plan was to be read from JSON, and this is none at line {line}, column {column}: {what}"
    )]
    NotJson {
        /// Where it stops to be JSON.
        line: usize,
        /// Where in the line.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// It is a plan of a format that this version does not know, or no plan at all.
    #[error(
        "a plan was to be read from an object with `\"typed-nccl-plan\": 1`, and {found}: write that \
         key into the file, or read it with the version of this library that wrote it"
    )]
    Version {
        /// What there is instead.
        found: String,
    },
    /// A value is not of the shape that its place asks for.
    #[error("{path} (line {line}, column {column}): {expected} expected, {found} found")]
    Shape {
        /// Where it is in the file: `steps[3].peer`.
        path: String,
        /// Its line.
        line: usize,
        /// Its column.
        column: usize,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A number, a condition, a region or a peer cannot be read.
    #[error("{path} (line {line}, column {column}): {what}, at the ^ in `{before}^{after}`")]
    Formula {
        /// Where it is in the file.
        path: String,
        /// Its line.
        line: usize,
        /// Its column.
        column: usize,
        /// What is wrong with it, and what mends it.
        what: String,
        /// The text before the place where it cannot be read; at most 40 characters.
        before: String,
        /// The text from there on; at most 40 characters.
        after: String,
    },
    /// A name that is not declared.
    #[error("{path} (line {line}, column {column}): there is no {kind} `{name}`: {declared}")]
    Name {
        /// Where it is in the file.
        path: String,
        /// Its line.
        line: usize,
        /// Its column.
        column: usize,
        /// What it should be: a stream, a buffer.
        kind: &'static str,
        /// The name.
        name: String,
        /// Which there are.
        declared: String,
    },
    /// It was read, and is not well formed.
    #[error("this was read, and is no plan:\n{}", .0.to_string().trim_end())]
    NotAPlan(Rejected),
}

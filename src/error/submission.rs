//! Failures of requests to an `Ordered` communicator.

use std::fmt;

use super::Site;

/// A request that an [`Ordered`](crate::Ordered) communicator cannot take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadSubmission {
    /// The communicator's name.
    pub name: &'static str,
    /// The request's key.
    pub key: String,
    /// What is wrong with it.
    pub why: SubmissionFault,
    /// Where it was submitted.
    pub site: Site,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubmissionFault {
    /// This rank has submitted its key, and has not issued that request.
    Twice {
        /// Where.
        first: Site,
    },
    /// It is submitted inside another request, which ends first.
    Inside,
}

impl fmt::Display for BadSubmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, key, why, site } = self;
        write!(f, "submit: the request `{key}` to {name} (at {}) ", site)?;
        match why {
            SubmissionFault::Twice { first } => write!(
                f,
                "has the key of one that this rank has not issued yet (submitted at {}): give requests that are in flight together keys of their own",
                first
            )?,
            SubmissionFault::Inside => f.write_str(
                "is made inside another one, which would wait for itself: make the call with the communicator that the closure is given",
            )?,
        }
        f.write_str("; nothing was sent")
    }
}

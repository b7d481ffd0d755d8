//! Failures of requests to an `Ordered` communicator.

use thiserror::Error;

use super::Site;

/// A request that an [`Ordered`](crate::Ordered) communicator refuses.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("submit: the request `{key}` to {name} (at {site}) {why}; nothing was sent")]
pub struct BadSubmission {
    /// The communicator's name.
    pub name: &'static str,
    /// The request's key.
    pub key: String,
    /// Why it is refused.
    pub why: SubmissionFault,
    /// Where it was submitted.
    pub site: Site,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmissionFault {
    /// This rank has submitted its key already, and has not issued that request.
    #[error(
        "has the key of one that this rank has not issued yet (submitted at {first}): give requests that are in flight together keys of their own"
    )]
    Twice {
        /// Where that was.
        first: Site,
    },
    /// It is submitted inside another request, which would have to end first.
    #[error(
        "is made inside another one, which would wait for itself: make the call with the communicator that the closure is given"
    )]
    Inside,
    /// It is the next call of numbered work, and its thread is in none.
    #[error(
        "has no number, as this thread is in no numbered work of this communicator: make the call within `ordered.numbered(key, || ..)`, or give it a key"
    )]
    Unnumbered,
}

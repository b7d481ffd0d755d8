//! Failures of requests to an `Ordered` communicator.

use thiserror::Error;

use super::Site;

/// A request that an [`Ordered`](crate::Ordered) communicator refuses.
///
/// ```
/// # use typed_nccl::{Error, Host, Ordered, Seat, error::SubmissionFault};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let ordered = Ordered::new(comm)?;
/// ordered.submit("outer", |comm| {
///     let refused = ordered.submit("inner", |_| Ok(()));
///     let Err(Error::BadSubmission(bad)) = refused else { panic!("it would wait for itself") };
///     assert!(bad.key == "inner" && bad.why == SubmissionFault::Inside);
///     comm.barrier() // as calls are made in a request
/// })?;
/// # ordered.finish()?;
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// See the example of [`BadSubmission`].
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

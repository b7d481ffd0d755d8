//! Fatal errors, which poison their communicator.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::report::Ranks;
use super::{Error, Site};
use crate::Rank;

/// Ranks were lost.
///
/// ```
/// use typed_nccl::{Error, Host, spmd};
///
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init()?;
///     comm.barrier()?;
///     if comm.rank() == 1 {
///         return Ok(()); // without `finish`: lost to the other rank
///     }
///     let Err(Error::PeerFailed(failed)) = comm.barrier() else { panic!("rank 1 left") };
///     assert!(failed.lost.len() == 1 && failed.lost[0] == 1);
///     comm.recover()?;
///     assert_eq!(comm.size(), 1);
///     comm.finish()
/// })
/// .expect("rank 0 continues");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{during} on {name} cannot complete: {} left: {why}", Ranks(.lost))]
pub struct PeerFailed {
    /// The communicator's name.
    pub name: &'static str,
    /// The lost ranks.
    pub lost: Vec<Rank>,
    /// The reason: `its thread panicked`. If several ranks left for different reasons, each one's,
    /// earliest first.
    pub why: String,
    /// What cannot complete: a call that the lost ranks did not complete, with its line and, for
    /// collectives and transfers, its number; `the next operation` if this rank made no such call.
    pub during: String,
}

/// How many ranks' reasons are included.
const REASONS: usize = 4;

/// Ranks that left, and why. Whoever decides that an operation lacks them makes its error of this:
/// [`PeerFailed`] is made nowhere else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Departed {
    ranks: Vec<Rank>,
    why: String,
}

impl Departed {
    /// The first one first, each for its reason.
    pub(crate) fn each(left: &[(Rank, &str)]) -> Self {
        let ranks = left.iter().map(|(rank, _)| *rank).collect();
        let why = match left {
            [(_, why), rest @ ..] if rest.iter().all(|(_, other)| other == why) => {
                (*why).to_owned()
            }
            several => {
                let each = several.iter().take(REASONS);
                let each: Vec<_> = each.map(|(rank, why)| format!("rank {rank}: {why}")).collect();
                each.join("; ")
            }
        };
        Self::all(ranks, why)
    }

    /// All of them for one reason.
    pub(crate) fn all(mut ranks: Vec<Rank>, why: String) -> Self {
        ranks.sort_unstable();
        Self { ranks, why }
    }

    /// `during` cannot complete on the communicator of this name.
    pub(crate) fn error(self, name: &'static str, during: String) -> Error {
        let Self { ranks: lost, why } = self;
        PeerFailed { name, lost, why, during }.into()
    }
}

/// A deadline passed.
///
/// ```
/// use std::sync::Barrier;
/// use std::time::Duration;
/// use typed_nccl::error::Deadline;
/// use typed_nccl::{Error, Host, spmd};
///
/// let seen = Barrier::new(2);
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init()?;
///     if comm.rank() == 0 {
///         let waited = comm.within(Duration::from_millis(20)).barrier();
///         let Err(Error::Timeout(timeout)) = waited else { panic!("{waited:?}") };
///         assert!(matches!(timeout.deadline, Deadline::Within(_)));
///         assert!(timeout.report.contains("rank 1 is missing"));
///     }
///     seen.wait(); // rank 1 has been busy with something else until here
///     comm.abort();
///     Ok(())
/// })
/// .expect("no rank hangs");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Timeout {
    /// The operation that waited: `to_vec`, `barrier`.
    pub operation: &'static str,
    /// The call site.
    pub site: Site,
    /// The time waited.
    pub waited: Duration,
    /// Whose deadline it was.
    pub deadline: Deadline,
    /// Which ranks arrived, which are missing, and the latest calls of the missing ones, as far as
    /// known.
    pub report: String,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, site, waited, deadline, report } = self;
        write!(f, "timeout: {operation} (at {site}) waited {waited:?}, {deadline}")?;
        if report.is_empty() { Ok(()) } else { write!(f, "; {report}") }
    }
}

/// Whose deadline passed.
///
/// See the example of [`Timeout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Deadline {
    /// The communicator's: [`CommConfig::deadline`](crate::CommConfig::deadline).
    Configured,
    /// One set by [`within`](crate::Communicator::within), at this place.
    Within(Site),
    /// One passed to the call.
    Call,
    /// The default, for work that belongs to no communicator.
    Default,
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("the communicator's deadline"),
            Self::Within(site) => write!(f, "the deadline of `within` (at {site})"),
            Self::Call => f.write_str("the deadline that it was given"),
            Self::Default => f.write_str("the deadline of work of no communicator"),
        }
    }
}

/// The communicator was revoked, so that it can continue without some of its ranks.
///
/// ```
/// use typed_nccl::{Error, Host, spmd};
///
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init()?;
///     comm.barrier()?;
///     if comm.rank() == 0 {
///         return comm.shrink(&[1])?.finish(); // continue without rank 1
///     }
///     let Err(Error::Revocation(revoked)) = comm.barrier() else { panic!("rank 0 left it out") };
///     assert!(revoked.by == 0);
///     let Err(Error::Excluded(excluded)) = comm.recover() else { panic!("it cannot continue") };
///     assert!(excluded.rank == 1);
///     comm.abort();
///     Ok(())
/// })
/// .expect("rank 0 continues");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{name} was revoked by rank {by}: {why}; `comm.recover()` goes on with the surviving ranks"
)]
pub struct Revocation {
    /// The communicator's name.
    pub name: &'static str,
    /// The rank that revoked it.
    pub by: Rank,
    /// The given reason, and where.
    pub why: String,
}

/// The other ranks continue without this one.
///
/// See the example of [`Revocation`].
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Excluded {
    /// The communicator's name.
    pub name: &'static str,
    /// This rank.
    pub rank: Rank,
    /// The reason.
    pub why: String,
    /// Where this rank tried to continue with them; `None` if it has not.
    pub site: Option<Site>,
}

impl fmt::Display for Excluded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, rank, why, site } = self;
        write!(f, "the other ranks of {name} go on without this one, rank {rank}")?;
        if let Some(site) = site {
            write!(f, " (at {site})")?;
        }
        write!(f, ": {why}; end it with `abort()`")
    }
}

/// An abort was requested.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let handle = comm.abort_handle(); // for another thread
/// assert!(handle.abort("the user pressed Ctrl-C"));
/// let Err(Error::Abort(abort)) = comm.barrier() else { panic!("it was aborted") };
/// assert_eq!(abort.why, "the user pressed Ctrl-C");
/// # comm.abort();
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Abort {
    /// The given reason.
    pub why: String,
    /// The rank on whose communicator it was requested.
    pub by: Rank,
    /// Where it was requested.
    pub at: Site,
}

impl fmt::Display for Abort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, by, at } = self;
        match at.is_known() {
            true => write!(f, "aborted by rank {by} (at {at}): {why}"),
            false => write!(f, "aborted by rank {by}: {why}"),
        }
    }
}

/// The communicator could not be created.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// let Err(Error::InitFailed(failed)) = Seat::local(5000).remove(0).init(Host::local()?) else {
///     panic!("a process has 4096 ranks at most");
/// };
/// assert_eq!((failed.size, failed.ranks.len()), (5000, 0));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct InitFailed {
    /// The intended number of ranks.
    pub size: usize,
    /// The ranks at fault; empty if the reason concerns all of them.
    pub ranks: Vec<Rank>,
    /// The reason.
    pub why: String,
}

impl fmt::Display for InitFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, ranks, why } = self;
        match ranks.as_slice() {
            [] => write!(f, "init of {size} ranks: {why}"),
            ranks => write!(f, "init of {size} ranks: {} {why}", Ranks(ranks)),
        }
    }
}

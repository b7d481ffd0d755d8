//! Fatal errors, which poison their communicator.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::report::Ranks;
use super::{Error, Site};
use crate::Rank;

/// Ranks were lost.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{during} on {name} cannot complete: {} left: {why}", Ranks(.lost))]
pub struct PeerFailed {
    /// The communicator's name.
    pub name: &'static str,
    /// The lost ranks.
    pub lost: Vec<Rank>,
    /// The reason: `its thread panicked`. For several ranks, each one's reason, earliest first.
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
            [(_, why)] => (*why).to_owned(),
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
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{name} was revoked by rank {by}: {why}; `comm.recover()` goes on with those who live")]
pub struct Revocation {
    /// The communicator's name.
    pub name: &'static str,
    /// The rank that revoked it.
    pub by: Rank,
    /// The given reason, and where.
    pub why: String,
}

/// The other ranks continue without this one.
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

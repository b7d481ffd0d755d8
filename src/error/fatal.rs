//! Fatal errors: they poison their communicator.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use super::Site;
use super::report::Ranks;
use crate::Rank;

/// Ranks are gone.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{during} on {name} cannot complete: {} left: {why}", Ranks(.lost))]
pub struct PeerFailed {
    /// The communicator's name.
    pub name: &'static str,
    /// The ranks that are gone.
    pub lost: Vec<Rank>,
    /// What is known of it: `its thread panicked`. Of several, what each said, the first one first.
    pub why: String,
    /// What cannot complete: a call that lacks the lost ranks' part, with its line and, of collectives
    /// and transfers, its number; `the next operation` where this rank made none.
    pub during: String,
}

/// How many ranks say why they left.
const REASONS: usize = 4;

impl PeerFailed {
    /// These ranks left, the first one first, each for its reason.
    pub(crate) fn new(name: &'static str, left: &[(Rank, &str)], during: String) -> Self {
        let mut lost: Vec<_> = left.iter().map(|(rank, _)| *rank).collect();
        lost.sort_unstable();
        let why = match left {
            [(_, why)] => (*why).to_owned(),
            several => {
                let each = several.iter().take(REASONS);
                let each: Vec<_> = each.map(|(rank, why)| format!("rank {rank}: {why}")).collect();
                each.join("; ")
            }
        };
        Self { name, lost, why, during }
    }
}

/// A deadline passed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Timeout {
    /// What waited: `to_vec`, `barrier`.
    pub operation: &'static str,
    /// Where.
    pub site: Site,
    /// How long.
    pub waited: Duration,
    /// Whose deadline it was.
    pub deadline: Deadline,
    /// Who arrived, who is missing, and what the missing ones last did, as far as it is known.
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
    /// That of [`within`](crate::Communicator::within), which was called here.
    Within(Site),
    /// The call's, which it was given.
    Call,
    /// That of waits for work of no communicator.
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

/// The communicator was revoked: somebody wants to go on without some of its ranks.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{name} was revoked by rank {by}: {why}; `comm.recover()` goes on with those who live")]
pub struct Revocation {
    /// The communicator's name.
    pub name: &'static str,
    /// The rank that revoked it.
    pub by: Rank,
    /// The reason given, and where.
    pub why: String,
}

/// The others go on without this rank.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Excluded {
    /// The communicator's name.
    pub name: &'static str,
    /// This rank.
    pub rank: Rank,
    /// Why.
    pub why: String,
    /// Where this rank came to go on with them; none if it has not.
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

/// Somebody asked for an abort.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct Abort {
    /// The reason given.
    pub why: String,
    /// The rank whose communicator it was.
    pub by: Rank,
    /// Where the request was made.
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

/// The communicator could not be made.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct InitFailed {
    /// How many ranks it was to have.
    pub size: usize,
    /// The ranks that the reason names; none if it is all of them.
    pub ranks: Vec<Rank>,
    /// Why.
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

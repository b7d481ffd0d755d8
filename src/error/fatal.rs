//! Fatal errors: they poison their communicator.

use std::fmt;
use std::time::Duration;

use super::At;
use super::report::Ranks;
use crate::Rank;

/// Ranks are gone.
#[derive(Clone, Debug)]
pub struct PeerFailed {
    /// The communicator's name.
    pub name: &'static str,
    /// The ranks that are gone.
    pub lost: Vec<Rank>,
    /// What is known of it: `its thread panicked`. Of several, what the first one said.
    pub why: String,
    /// What this rank was waiting for.
    pub during: String,
}

impl PeerFailed {
    /// These ranks left, the first of them for this reason.
    pub(crate) fn new(
        name: &'static str,
        lost: impl IntoIterator<Item = Rank>,
        (first, why): (Rank, &str),
        during: String,
    ) -> Self {
        let mut lost: Vec<_> = lost.into_iter().collect();
        lost.sort_unstable();
        let why = match lost.len() {
            0 | 1 => why.to_owned(),
            _ => format!("rank {first} was the first: {why}"),
        };
        Self { name, lost, why, during }
    }
}

impl fmt::Display for PeerFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, lost, why, during } = self;
        write!(f, "{during} on {name} cannot complete: {} left: {why}", Ranks(lost))
    }
}

/// A deadline passed.
#[derive(Clone, Debug)]
pub struct Timeout {
    /// What waited: `to_vec`, `barrier`.
    pub operation: &'static str,
    /// Where.
    pub site: &'static std::panic::Location<'static>,
    /// How long.
    pub waited: Duration,
    /// Who arrived, who is missing, and what the missing ones last did, as far as it is known.
    pub report: String,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, site, waited, report } = self;
        write!(f, "timeout: {operation} (at {}) waited {waited:?}", At(site))?;
        if report.is_empty() { Ok(()) } else { write!(f, "; {report}") }
    }
}

/// Somebody asked for an abort.
#[derive(Clone, Debug)]
pub struct Aborted {
    /// The reason given.
    pub why: String,
    /// The rank whose communicator it was.
    pub by: Rank,
    /// Where the request was made.
    pub at: &'static std::panic::Location<'static>,
}

impl fmt::Display for Aborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "aborted by rank {} (at {}): {}", self.by, At(self.at), self.why)
    }
}

/// The communicator could not be made.
#[derive(Clone, Debug)]
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

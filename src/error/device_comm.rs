//! Failures of device communicators.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::report::ByRanks;

/// A resource that a device communicator was not created with.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct NotRequired {
    /// What was requested: `LSA barrier 3`.
    pub what: String,
    /// How many of its kind exist.
    pub has: u32,
    /// The requirement that would provide it.
    pub mend: String,
    /// Where it was requested.
    pub site: Site,
}

impl fmt::Display for NotRequired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, has, mend, site } = self;
        write!(f, "the device communicator was not made with {what} (at {site}): it has ")?;
        match has {
            0 => f.write_str("none"),
            has => has.fmt(f),
        }?;
        write!(f, "; require it when it is made: `{mend}`")
    }
}

/// The ranks created or closed different device communicators, or not all of them did.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct DevCommsDiffer {
    /// The communicator's name.
    pub name: &'static str,
    /// Whether they were closing them.
    pub closing: bool,
    /// What each rank requested or closed.
    pub parts: Vec<String>,
    /// Where this rank did.
    pub site: Site,
}

impl fmt::Display for DevCommsDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, closing, parts, site } = self;
        let (what, help) = match closing {
            true => (
                "close different device communicators",
                "close the same on all ranks in the same order; none was closed",
            ),
            false => (
                "ask for different device communicators",
                "ask for the same on all ranks in the same order; none was made",
            ),
        };
        write!(f, "the ranks of {name} {what} (at {site}):{}; {help}", ByRanks(parts))
    }
}

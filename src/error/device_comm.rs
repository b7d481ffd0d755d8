//! Failures of device communicators.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::report::ByRanks;

/// Something of a device communicator that it was not made with.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct NotRequired {
    /// What was asked for: `LSA barrier 3`.
    pub what: String,
    /// How many of its kind there are.
    pub has: u32,
    /// What makes a device communicator with it.
    pub mend: String,
    /// Where it was asked for.
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

/// The ranks made or closed device communicators that differ, or did not do it together.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct DevCommsDiffer {
    /// The communicator's name.
    pub name: &'static str,
    /// Whether they closed them.
    pub closing: bool,
    /// What each rank asked for or closed.
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

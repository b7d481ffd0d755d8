//! Failures of device communicators.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::report::ByRanks;

/// A resource that a device communicator was not created with.
///
/// ```
/// # use typed_nccl::{Error, Host, Requirements, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let api = comm.device_api()?;
/// let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(4))?;
/// assert!(matches!(dev.lsa_barrier(4), Err(Error::NotRequired(it)) if it.has == 4));
/// # comm.close_dev_comm(dev)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
///
/// ```
/// # use typed_nccl::{Error, Host, Requirements, spmd};
/// # spmd::<Host>(2, |place| {
/// # let mut comm = place.init()?;
/// let api = comm.device_api()?;
/// let need = Requirements::new().lsa_barriers(1 + comm.rank().index() as u32);
/// let Err(Error::DevCommsDiffer(it)) = comm.dev_comm(&api, &need) else { panic!("1 is not 2") };
/// assert!(it.parts.len() == 2 && !it.closing);
/// # comm.finish() }).expect("every rank ends well");
/// ```
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

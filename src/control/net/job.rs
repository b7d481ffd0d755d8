//! A launcher's job, when the ranks have nothing but its name in common.

use super::SECRET;
use super::proof::JobName;

#[derive(Clone)]
pub(super) struct Job {
    pub(super) name: JobName,
    /// No other job has this name. A name derived from `MASTER_PORT` alone is not unique.
    pub(super) is_unique: bool,
}

impl Job {
    pub(super) fn new(name: &str, is_unique: bool) -> Self {
        Self { name: JobName::new(name), is_unique }
    }

    /// An error text for processes that claim one job but do not belong together.
    pub(super) fn mixed(&self, why: &str) -> String {
        let remedy = "; two jobs on one host need a MASTER_PORT each";
        format!("{why}{}", if self.is_unique { "" } else { remedy })
    }

    /// The error for every rank when `rank` and the rendezvous have different secrets.
    pub(super) fn other_secret(&self, rank: u32) -> (Vec<u32>, String) {
        let same = format!("{SECRET} must be the same on all ranks");
        match rank {
            0 => (vec![0], self.mixed(&format!("was taken twice, with two secrets: {same}"))),
            _ => (vec![0, rank], self.mixed(&format!("have different secrets: {same}"))),
        }
    }
}

//! The job that a launcher started, where its name is all that its ranks have in common.

use super::SECRET;
use super::proof::JobName;

#[derive(Clone)]
pub(super) struct Job {
    pub(super) name: JobName,
    /// No other job has the name. One that follows from `MASTER_PORT` alone can be another's too.
    pub(super) is_unique: bool,
}

impl Job {
    pub(super) fn new(name: &str, is_unique: bool) -> Self {
        Self { name: JobName::new(name), is_unique }
    }

    /// Why two processes of the job cannot belong together, and what mends it.
    pub(super) fn mixed(&self, why: &str) -> String {
        let remedy = "; two jobs on one host need a MASTER_PORT each";
        format!("{why}{}", if self.is_unique { "" } else { remedy })
    }

    /// What every rank is told when `rank` has another secret than the process where the ranks
    /// meet.
    pub(super) fn other_secret(&self, rank: u32) -> (Vec<u32>, String) {
        let same = format!("{SECRET} must be the same on all ranks");
        match rank {
            0 => (vec![0], self.mixed(&format!("was taken twice, with two secrets: {same}"))),
            _ => (vec![0, rank], self.mixed(&format!("have different secrets: {same}"))),
        }
    }
}

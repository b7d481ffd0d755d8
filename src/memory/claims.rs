//! Tracks which elements of other libraries are in use.
//!
//! A program can have any number of handles to one tensor, invisible to Rust. So every loan and
//! every buffer of a tensor claims its elements, process-wide. Uses by the other library are its
//! program's responsibility.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::{AdoptFault, Site};
use crate::lock::Mutex;

/// Elements in use, until it is dropped.
pub(crate) struct Claim {
    id: u64,
}

struct Claimed {
    id: u64,
    bytes: Range<usize>,
    write: bool,
    by: By,
}

/// The holder of a claim.
pub(crate) struct By {
    pub(crate) library: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) site: Site,
}

static CLAIMED: Mutex<Vec<Claimed>> = Mutex::new(Vec::new());

impl Claim {
    /// Claims these bytes, either for reading, which can be shared, or for writing, which is
    /// exclusive.
    pub(crate) fn new(bytes: Range<usize>, write: bool, by: By) -> Result<Self, AdoptFault> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let overlaps = |other: &&Claimed| {
            other.bytes.start < bytes.end && bytes.start < other.bytes.end && (write || other.write)
        };
        let mut claimed = CLAIMED.lock();
        if let Some(other) = claimed.iter().find(overlaps) {
            return Err(AdoptFault::InUse { by: other.by.to_string() });
        }
        let id = NEXT.fetch_add(1, Relaxed);
        claimed.push(Claimed { id, bytes, write, by });
        Ok(Self { id })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock();
        if let Some(at) = claimed.iter().position(|claimed| claimed.id == self.id) {
            claimed.swap_remove(at);
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, operation, site } = self;
        write!(f, "`{operation}` of {library} at {site}")
    }
}

//! The user of memory that peers put into.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::Rank;
use crate::communicator::Health;
use crate::error::{Call, Site};

/// The reader or writer.
#[derive(Clone, Debug)]
pub(in crate::host) enum By {
    /// The memory's owner, at a place in the program.
    Owner(Site),
    /// A put of another rank, or of the owner to itself.
    Put(Put),
    /// A read of another rank, by local work of a plan.
    Get(Put),
}

impl By {
    /// The put or the read of another rank.
    pub(super) fn peer(&self) -> Option<&Put> {
        match self {
            Self::Owner(_) => None,
            Self::Put(put) | Self::Get(put) => Some(put),
        }
    }
}

/// A put, with its sender and the memory's owner; or a read, with the reader.
#[derive(Clone, Debug)]
pub(in crate::host) struct Put {
    pub(in crate::host) call: Call,
    pub(in crate::host) from: Rank,
    pub(in crate::host) to: Rank,
    pub(in crate::host) name: &'static str,
    pub(in crate::host) health: Weak<Health>,
    pub(in crate::host) owner: Weak<Health>,
    /// Whether its communicator ended before its work did.
    pub(in crate::host) broken: Arc<AtomicBool>,
}

impl Put {
    /// Whether a wait could order the put. What a communicator left unfinished is unspecified, and
    /// no wait could change that any more. A rank that dropped its communicator is not informed of
    /// the end, so its own health does not show it.
    pub(super) fn can_be_awaited(&self) -> bool {
        let owner = self.owner.upgrade();
        !self.broken.load(Ordering::Acquire)
            && owner.is_some_and(|owner| owner.is_well() && !owner.is_over())
    }
}

//! What a rank on the network knows of its own meeting, beside the exchanges.

use std::collections::BTreeSet;

use crate::error::Error;

/// The state of a replica.
#[derive(Default)]
pub(super) struct Replica {
    /// Why the ranks cannot form a communicator.
    pub(super) broken: Option<Error>,
    /// Why the ranks have not met yet, as far as it is known.
    pub(super) trouble: String,
    /// Why this process accepts no connections.
    pub(super) accept_trouble: String,
    /// Exchanges that this rank is done with: all below the number, and those in the set.
    past: (u64, BTreeSet<u64>),
}

impl Replica {
    /// This rank is done with an exchange.
    pub(super) fn forget(&mut self, seq: u64) {
        self.past.1.insert(seq);
        while self.past.1.remove(&self.past.0) {
            self.past.0 += 1;
        }
    }

    /// Why the ranks cannot form a communicator, or exclude this one; worded for the communicator
    /// `name`.
    pub(super) fn broken(&self, name: &'static str) -> Option<Error> {
        let mut error = self.broken.clone()?;
        if let Error::Excluded(excluded) = &mut error {
            excluded.name = name;
        }
        Some(error)
    }

    /// Whether this rank is done with an exchange.
    pub(super) fn is_past(&self, seq: u64) -> bool {
        seq < self.past.0 || self.past.1.contains(&seq)
    }
}

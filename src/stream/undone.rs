//! Work that a stream left undone because its communicator ended.
//!
//! On a device whose points are reached when a communicator ends ([`Streams::ENDS_REACH_POINTS`]),
//! a reached point does not show that its operations have happened. So the stream records, just
//! before the end, which were not over, and every thread that wants their results gets the error. A
//! wait for data reports it each time, until the memory is written again.
//!
//! [`Streams::ENDS_REACH_POINTS`]: crate::backend::Streams::ENDS_REACH_POINTS

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::error::Error;
use crate::lock::Mutex;

/// How many ended communicators a stream remembers.
const KEPT: usize = 16;

/// The work that ended communicators left undone, as ranges of operation numbers.
#[derive(Default)]
pub(super) struct Undone(Mutex<VecDeque<Left>>);

/// The work that one communicator left undone.
struct Left {
    /// The id of its health.
    by: u64,
    why: Error,
    operations: RangeInclusive<u64>,
}

impl Undone {
    /// Notes that these operations may not happen. A second note by the same communicator only
    /// moves the range's end.
    pub(super) fn add(&self, by: u64, why: &Error, operations: RangeInclusive<u64>) {
        if operations.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        if let Some(known) = all.iter_mut().find(|known| known.by == by) {
            known.operations = *known.operations.start()..=*operations.end();
            return;
        }
        if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(Left { by, why: why.clone(), operations });
    }

    /// Why this operation may not have happened.
    pub(super) fn of(&self, operation: u64) -> Option<Error> {
        let all = self.0.lock();
        let left = all.iter().find(|left| left.operations.contains(&operation));
        left.map(|left| left.why.clone())
    }
}

//! What a stream's work left undone because its communicator ended.
//!
//! A device whose points are reached when a communicator ends ([`Streams::ENDS_REACH_POINTS`]) does not
//! say which operations have happened. So a stream notes, just before, which of them were not over: each
//! thread that wants what they write is told. A wait for data tells that however often it is called, until
//! something else has written the memory.
//!
//! [`Streams::ENDS_REACH_POINTS`]: crate::backend::Streams::ENDS_REACH_POINTS

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;

/// Of how many communicators that ended a stream remembers what they left.
const KEPT: usize = 16;

/// By operations' numbers.
#[derive(Default)]
pub(super) struct Undone(Mutex<VecDeque<Left>>);

/// What one communicator left.
struct Left {
    /// Its health's id.
    by: u64,
    why: Error,
    operations: RangeInclusive<u64>,
}

impl Undone {
    fn all(&self) -> MutexGuard<'_, VecDeque<Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These operations may not happen. Where some of them are known, it is up to the last one.
    pub(super) fn add(&self, by: u64, why: &Error, operations: RangeInclusive<u64>) {
        if operations.is_empty() {
            return;
        }
        let mut all = self.all();
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
        let all = self.all();
        let left = all.iter().find(|left| left.operations.contains(&operation));
        left.map(|left| left.why.clone())
    }
}

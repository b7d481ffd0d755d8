//! The last calls other than collectives, and their position among the collectives.

use std::array;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use serde::{Deserialize, Serialize};
use typed_nccl_match::Log;

use super::ring::{CallReport, Packed, Ring};
use crate::error::{Call, Called};

/// Reports show half of them; the rest is slack for a slow reader.
const KEPT: usize = 2 * Called::LAST;

/// Sends, receives, puts, signals and waits of a rank.
///
/// Each stores how many collectives preceded it, from which a reader derives the order of all
/// calls. So the most frequent calls, collectives, are recorded once.
pub(super) struct Others {
    calls: Ring<KEPT>,
    /// By call, how many collectives preceded it.
    after: [AtomicU64; KEPT],
}

impl Others {
    pub(super) fn new() -> Self {
        Self { calls: Ring::new(), after: array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Records a call after this many collectives.
    pub(super) fn put(&self, packed: &Packed, collectives: u64) {
        self.come(self.issued(), collectives);
        self.calls.put(packed);
    }

    /// Stores what the next call comes after.
    fn come(&self, number: u64, collectives: u64) {
        // As in a ring: a reader of the new contents also sees the preceding number.
        fence(Release);
        self.after[number as usize % KEPT].store(collectives, Relaxed);
    }

    pub(super) fn issued(&self) -> u64 {
        self.calls.issued()
    }

    /// How many collectives preceded a call, and the call, if it is still kept and was not refused.
    pub(super) fn get(&self, number: u64) -> (u64, Option<Call>) {
        let after = self.after[number as usize % KEPT].load(Relaxed);
        (after, self.calls.call(number).map(|(call, _)| call))
    }

    pub(super) fn tell(&self) -> OtherCallsReport {
        let calls = self.calls.tell(Called::LAST);
        let after = calls.numbers().map(|number| self.get(number).0).collect();
        OtherCallsReport { calls, after }
    }

    /// Takes over another process's calls. Only one thread does so at a time.
    pub(super) fn hear(&self, told: &OtherCallsReport) {
        if !told.calls.is_possible() {
            return;
        }
        let known = self.issued();
        let last = told.calls.numbers().zip(&told.after).take(Called::LAST);
        for (number, after) in last.filter(|(number, _)| *number >= known) {
            self.come(number, *after);
        }
        self.calls.hear(&told.calls);
    }
}

/// These calls as sent to another process.
#[derive(Serialize, Deserialize)]
pub(super) struct OtherCallsReport {
    calls: CallReport,
    after: Vec<u64>,
}

impl OtherCallsReport {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }
}

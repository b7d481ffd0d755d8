//! The last calls that are no collectives, and where they stand among those.

use std::array;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use serde::{Deserialize, Serialize};
use typed_nccl_match::Log;

use super::ring::{Packed, Ring, Told};
use crate::error::{Call, Called};

/// Reports tell half of them: the others give who reads some time.
const KEPT: usize = 2 * Called::LAST;

/// Sends, receives, puts, signals and waits of a rank.
///
/// The order of all calls is found when somebody asks: each of these says how many collectives there were
/// when it was called. So a collective, which is called most, is noted once.
pub(super) struct Others {
    calls: Ring<KEPT>,
    /// By call, how many collectives came before it.
    after: [AtomicU64; KEPT],
}

impl Others {
    pub(super) fn new() -> Self {
        Self { calls: Ring::new(), after: array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Notes a call after so many collectives.
    pub(super) fn put(&self, packed: &Packed, collectives: u64) {
        self.come(self.issued(), collectives);
        self.calls.put(packed);
    }

    /// Says what a call that is put next comes after.
    fn come(&self, number: u64, collectives: u64) {
        // As in a ring: who sees it sees that the number before is out.
        fence(Release);
        self.after[number as usize % KEPT].store(collectives, Relaxed);
    }

    pub(super) fn issued(&self) -> u64 {
        self.calls.issued()
    }

    /// How many collectives came before a call, and the call, if it is remembered and was not refused.
    pub(super) fn get(&self, number: u64) -> (u64, Option<Call>) {
        let after = self.after[number as usize % KEPT].load(Relaxed);
        (after, self.calls.call(number).map(|(call, _)| call))
    }

    pub(super) fn tell(&self) -> ToldOthers {
        let calls = self.calls.tell(Called::LAST);
        let after = calls.numbers().map(|number| self.get(number).0).collect();
        ToldOthers { calls, after }
    }

    /// Takes over what another process told. One thread does so at a time.
    pub(super) fn hear(&self, told: &ToldOthers) {
        let known = self.issued();
        let last = told.calls.numbers().zip(&told.after).take(Called::LAST);
        for (number, after) in last.filter(|(number, _)| *number >= known) {
            self.come(number, *after);
        }
        self.calls.hear(&told.calls);
    }
}

/// The same, as another process is told of it.
#[derive(Serialize, Deserialize)]
pub(super) struct ToldOthers {
    calls: Told,
    after: Vec<u64>,
}

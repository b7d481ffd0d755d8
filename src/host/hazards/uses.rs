//! The last uses of a block that peers put into, and which of them a next one has no order with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::clock::Clock;
use crate::Rank;
use crate::communicator::Health;
use crate::error::{Call, Site};

/// How many uses of a block are remembered. Beyond, those are forgotten first that the host knows to be
/// over, then the oldest: their mistakes are not told any more.
const MOST: usize = 512;

/// Where in the program's order something happens.
pub(super) struct When {
    pub(super) line: usize,
    pub(super) event: u64,
    /// What is surely over by then.
    pub(super) after: Clock,
}

/// Who reads or writes.
#[derive(Clone)]
pub(super) enum By {
    /// The memory's owner, at a place in the program.
    Owner(Site),
    /// A put of another rank (or of the owner, to itself).
    Put(Put),
}

/// A put: who makes it, and whose memory it is.
#[derive(Clone)]
pub(super) struct Put {
    pub(super) call: Call,
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) name: &'static str,
    pub(super) health: Weak<Health>,
    pub(super) owner: Weak<Health>,
    /// Whether its communicator was over before its work was.
    pub(super) broken: Arc<AtomicBool>,
}

impl Put {
    /// Whether what has no order with it lacks a wait. What a communicator left unfinished is
    /// unspecified, and no wait could mend it any more. A rank that dropped its communicator is not
    /// told of the end, so its own health does not say so.
    pub(super) fn can_be_awaited(&self) -> bool {
        let owner = self.owner.upgrade();
        !self.broken.load(Ordering::Acquire)
            && owner.is_some_and(|owner| owner.is_well() && !owner.is_over())
    }
}

/// A use of some of the bytes.
#[derive(Clone)]
pub(super) struct Use {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) write: bool,
    pub(super) by: By,
    line: usize,
    event: u64,
}

/// The uses of a block that may still matter.
#[derive(Default)]
pub(in crate::host) struct Uses(Vec<Use>);

impl Use {
    pub(super) fn new(bytes: (usize, usize), write: bool, by: By, when: &When) -> Self {
        let ((start, end), (line, event)) = (bytes, (when.line, when.event));
        Self { start, end, write, by, line, event }
    }

    fn is_put(&self) -> bool {
        matches!(self.by, By::Put(_))
    }

    fn is_before(&self, next: &Self, after: &Clock) -> bool {
        // Puts of one line follow each other.
        after.knows(self.line, self.event) || (self.is_put() && self.line == next.line)
    }

    /// Whether the two may not be without an order. The owner's own uses always have one: memory itself
    /// puts them in stream order.
    fn conflicts(&self, next: &Self) -> bool {
        (self.is_put() || next.is_put())
            && (self.write || next.write)
            && self.start < next.end
            && next.start < self.end
    }
}

impl Uses {
    /// Adds a use; hands back the earlier ones that nothing orders with it.
    pub(super) fn add(&mut self, next: Use, after: &Clock) -> Vec<Use> {
        if next.start >= next.end {
            return Vec::new();
        }
        let mut bad = Vec::new();
        self.0.retain(|earlier| {
            let is_before = earlier.is_before(&next, after);
            let clash = !is_before && earlier.conflicts(&next);
            if clash {
                bad.push(earlier.clone());
            }
            // Who is ordered with the next one is ordered with what it stands for, too.
            let within = next.start <= earlier.start && earlier.end <= next.end;
            let stands_for = is_before && (next.write || !earlier.write);
            !(within && (clash || stands_for))
        });
        if self.0.len() >= MOST {
            let known = super::known::now();
            self.0.retain(|earlier| !known.knows(earlier.line, earlier.event));
            let surplus = (self.0.len() + 1).saturating_sub(MOST);
            self.0.drain(..surplus);
        }
        self.0.push(next);
        bad
    }
}

impl std::fmt::Debug for Uses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} uses", self.0.len())
    }
}

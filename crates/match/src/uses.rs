//! The last uses of memory that peers put into, and which of them a next one has no order with.

use std::ops::Deref;

use super::Clock;

/// How many uses of a block are remembered. Beyond, those are forgotten first that are known to be
/// over, then the oldest: their mistakes are not told any more.
const MOST: usize = 512;

/// Where in the program's order something happens.
#[derive(Clone, Debug)]
pub struct When {
    /// Its line.
    pub line: usize,
    /// Its number on the line.
    pub event: u64,
    /// What is surely over by then.
    pub after: Clock,
}

/// A use of some of the bytes, `by` whom.
#[derive(Clone, Debug)]
pub struct Use<B> {
    /// The first byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
    /// Whether it changes them.
    pub write: bool,
    /// Whether it is a peer's put.
    pub is_put: bool,
    /// What the caller attaches.
    pub by: B,
    line: usize,
    event: u64,
    /// Whether an order was lost before it.
    lost: bool,
}

impl<B> Use<B> {
    /// A use of these bytes.
    pub fn new(bytes: (usize, usize), write: bool, is_put: bool, by: B, when: &When) -> Self {
        let ((start, end), (line, event)) = (bytes, (when.line, when.event));
        let lost = when.after.has_lost_order();
        Self { start, end, write, is_put, by, line, event, lost }
    }

    fn is_before(&self, next: &Self, after: &Clock) -> bool {
        // Puts of one line follow each other.
        after.knows(self.line, self.event) || (self.is_put && self.line == next.line)
    }

    /// Whether the two may not be without an order. The owner's own uses always have one: memory
    /// itself puts them in stream order.
    fn conflicts(&self, next: &Self) -> bool {
        !(self.lost || next.lost)
            && (self.is_put || next.is_put)
            && (self.write || next.write)
            && self.start < next.end
            && next.start < self.end
    }
}

/// The uses of a block that may still matter.
#[derive(Debug)]
pub struct Uses<B>(Vec<Use<B>>);

impl<B: Clone> Uses<B> {
    /// Adds a use; hands back the earlier ones that nothing orders with it. `known` says what is
    /// over for all, when there are too many to be remembered.
    pub fn add<K: Deref<Target = Clock>>(
        &mut self,
        next: Use<B>,
        after: &Clock,
        known: impl FnOnce() -> K,
    ) -> Vec<Use<B>> {
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
            let known = known();
            self.0.retain(|earlier| !known.knows(earlier.line, earlier.event));
            let surplus = (self.0.len() + 1).saturating_sub(MOST);
            self.0.drain(..surplus);
        }
        self.0.push(next);
        bad
    }
}

impl<B> Default for Uses<B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

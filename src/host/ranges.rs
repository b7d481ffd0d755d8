//! Range locks: who touches which bytes of a window's memory right now.
//!
//! Memory in a window is touched by its owner in stream order and by peers' puts whenever they come.
//! A program in which the two meet is wrong (nothing says which comes first), but it must not be
//! undefined: every move takes its range, shared to read and exclusive to write. A conflict is such
//! a program caught in the act, and is reported to the owner.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use super::block::Block;
use crate::communicator::Health;
use crate::error::{Error, Hazard};

/// The locks of one block.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Set when the block is first registered, before any peer can know it.
    shared: AtomicBool,
    owner: Mutex<Weak<Health>>,
    held: Mutex<Vec<Held>>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    start: usize,
    end: usize,
    write: bool,
}

impl Held {
    fn conflicts(&self, other: &Self) -> bool {
        (self.write || other.write) && self.start < other.end && other.start < self.end
    }
}

/// Bytes of a block that are about to be read or written.
#[derive(Clone, Copy)]
pub(super) struct Touch<'b> {
    pub(super) block: &'b Block,
    pub(super) start: usize,
    pub(super) bytes: usize,
    pub(super) write: bool,
}

/// A taken range; lets go when dropped.
pub struct Guard<'b> {
    ranges: &'b Ranges,
    held: Held,
}

impl Ranges {
    pub(super) fn share(&self, owner: &Arc<Health>) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(owner);
        self.shared.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    fn take(&self, held: Held) -> Guard<'_> {
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut met = None;
        while let Some(other) = all.iter().find(|other| other.conflicts(&held)) {
            met.get_or_insert(*other);
            all = self.freed.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        all.push(held);
        drop(all);
        if let Some(other) = met {
            self.report(held, other);
        }
        Guard { ranges: self, held }
    }

    #[cold]
    fn report(&self, held: Held, other: Held) {
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let Some(owner) = owner else { return };
        let (start, end) = (held.start.max(other.start), held.end.min(other.end));
        owner.pend(Error::Hazard(Box::new(Hazard { rank: owner.rank(), start, end })));
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut all = self.ranges.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |held: &Held| {
            (held.start, held.end, held.write) == (self.held.start, self.held.end, self.held.write)
        };
        if let Some(index) = all.iter().position(own) {
            all.swap_remove(index);
        }
        drop(all);
        self.ranges.freed.notify_all();
    }
}

impl<'b> Touch<'b> {
    fn held(&self) -> Held {
        Held { start: self.start, end: self.start + self.bytes, write: self.write }
    }

    pub(super) fn take(self) -> Option<Guard<'b>> {
        self.block.ranges().filter(|_| self.bytes > 0).map(|ranges| ranges.take(self.held()))
    }

    /// The order in which ranges are taken, so that two threads never wait for each other.
    fn key(&self) -> (usize, usize) {
        (std::ptr::from_ref(self.block).addr(), self.start)
    }

    /// One range for two of the same block that meet.
    fn merge(&self, next: &Self) -> Option<Self> {
        let same = std::ptr::eq(self.block, next.block);
        let end = self.start + self.bytes;
        if !same || next.start >= end {
            return None;
        }
        let end = end.max(next.start + next.bytes);
        Some(Self { bytes: end - self.start, write: self.write || next.write, ..*self })
    }
}

/// Takes two ranges; allocates nothing.
pub(super) fn guard_two(touches: [Touch<'_>; 2]) -> [Option<Guard<'_>>; 2] {
    let [mut a, mut b] = touches;
    if b.key() < a.key() {
        std::mem::swap(&mut a, &mut b);
    }
    match a.merge(&b) {
        Some(both) => [both.take(), None],
        None => [a.take(), b.take()],
    }
}

/// Takes any number of ranges.
pub(super) fn guard_all(mut touches: Vec<Touch<'_>>) -> Vec<Guard<'_>> {
    touches.sort_by_key(Touch::key);
    let mut guards = Vec::new();
    let mut touches = touches.into_iter();
    let Some(mut current) = touches.next() else { return guards };
    for next in touches {
        match current.merge(&next) {
            Some(both) => current = both,
            None => {
                guards.extend(current.take());
                current = next;
            }
        }
    }
    guards.extend(current.take());
    guards
}

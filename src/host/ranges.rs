//! Range locks: which bytes of a window's memory are being accessed.
//!
//! The owner accesses window memory in stream order, and peers' puts access it at any time. A
//! program in which the two overlap is wrong, as nothing orders them, but it must not be undefined
//! behaviour. So every move locks its range: shared to read, exclusive to write. A conflict exposes
//! such a program and is reported to the owner.
//!
//! A move holds its range only for a copy, so a conflicting thread waits for it. A closure may hold
//! its range forever, so a move that conflicts with one is parked, and no thread waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Weak};

use super::block::Block;
use super::engine::{ENGINE, Parked};
use super::hazards::{self, Uses};
use crate::communicator::Health;
use crate::error::{Error, Hazard, Site};
use crate::lock::{self, Mutex, MutexGuard};

/// The locks of one block.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Set when the block is first registered, before any peer can access it.
    shared: AtomicBool,
    owner: Mutex<Weak<Health>>,
    taken: Mutex<Taken>,
    freed: Condvar,
    /// The last uses of the memory, if the order of uses is checked.
    uses: Mutex<Uses>,
}

#[derive(Debug, Default)]
struct Taken {
    held: Vec<Held>,
    /// Moves that closures block.
    parked: Vec<Parked>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    start: usize,
    end: usize,
    write: bool,
    /// The launch site of the closure that holds it; `None` for a copy, which is short.
    closure: Option<Site>,
}

impl Held {
    fn conflicts(&self, other: &Self) -> bool {
        (self.write || other.write) && self.start < other.end && other.start < self.end
    }
}

impl Taken {
    fn in_the_way(&self, of: &Held) -> Option<Held> {
        self.held.iter().find(|other| other.conflicts(of)).copied()
    }

    fn closure_in_the_way(&self, of: &Held) -> Option<Held> {
        self.held.iter().find(|other| other.closure.is_some() && other.conflicts(of)).copied()
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

/// A locked range, released when dropped.
pub struct Guard<'b> {
    ranges: &'b Ranges,
    held: Held,
}

impl Ranges {
    pub(super) fn share(&self, owner: Option<&Arc<Health>>) {
        *self.owner.lock() = owner.map_or_else(Weak::new, Arc::downgrade);
        self.shared.store(true, Ordering::Release);
    }

    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// Locks a range after waiting for conflicting holders, and returns the first of them. Fails if
    /// a closure conflicts, unless closures are waited for.
    fn take(
        &self,
        held: Held,
        waits_for_closures: bool,
    ) -> Result<(Guard<'_>, Option<Held>), InUse> {
        let mut taken = self.taken.lock();
        let mut met = None;
        while let Some(other) = taken.in_the_way(&held) {
            if !waits_for_closures && taken.closure_in_the_way(&held).is_some() {
                return Err(InUse);
            }
            met.get_or_insert(other);
            taken = lock::wait(&self.freed, taken);
        }
        taken.held.push(held);
        Ok((Guard { ranges: self, held }, met))
    }

    /// Whether its owner is in this process, and so all uses of it are known here.
    pub(super) fn has_owner(&self) -> bool {
        self.owner.lock().strong_count() > 0
    }

    pub(super) fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock()
    }

    /// The launch site of a closure that holds some of the range.
    pub(super) fn closure_at(&self, start: usize, bytes: usize) -> Option<Site> {
        let held = Held { start, end: start + bytes, write: true, closure: None };
        self.taken.lock().closure_in_the_way(&held)?.closure
    }

    /// Reports a conflict to the memory's owner.
    fn report(&self, held: Held, other: Option<Held>) {
        let Some(other) = other else { return };
        if hazards::is_on() {
            // The order check has already reported the conflict, with both lines.
            return;
        }
        let owner = self.owner.lock().upgrade();
        let Some(owner) = owner else { return };
        let (start, end) = (held.start.max(other.start), held.end.min(other.end));
        owner.pend(Error::from(Hazard { rank: owner.rank(), start, end, no_order: None }));
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut taken = self.ranges.taken.lock();
        let own = |held: &Held| {
            (held.start, held.end, held.write, held.closure)
                == (self.held.start, self.held.end, self.held.write, self.held.closure)
        };
        if let Some(index) = taken.held.iter().position(own) {
            taken.held.swap_remove(index);
        }
        let parked = match self.held.closure {
            Some(_) => std::mem::take(&mut taken.parked),
            None => Vec::new(),
        };
        drop(taken);
        self.ranges.freed.notify_all();
        if !parked.is_empty() {
            ENGINE.unpark(parked);
        }
    }
}

impl<'b> Touch<'b> {
    fn held(&self, closure: Option<Site>) -> Held {
        Held { start: self.start, end: self.start + self.bytes, write: self.write, closure }
    }

    fn ranges(&self) -> Option<&'b Ranges> {
        self.block.ranges().filter(|_| self.bytes > 0)
    }

    /// Locks the range for the host's own copy, or for the closure launched at `site`.
    pub(super) fn take(self, site: Option<Site>) -> Option<Guard<'b>> {
        let ranges = self.ranges()?;
        let held = self.held(site);
        // It waits for closures too, so it does not fail.
        let (guard, met) = ranges.take(held, true).ok()?;
        ranges.report(held, met);
        Some(guard)
    }

    /// Locks the range for a closure that accesses its peers' memory and may legitimately overlap
    /// with them, so that nothing is reported. Fails if a closure conflicts, as it may hold the
    /// range forever.
    pub(super) fn take_beside(self) -> Result<Option<Guard<'b>>, InUse> {
        let Some(ranges) = self.ranges() else { return Ok(None) };
        let (guard, _) = ranges.take(self.held(None), false)?;
        Ok(Some(guard))
    }

    /// Locks the range for a move; fails if a closure conflicts.
    pub(super) fn try_take(self) -> Result<Option<Guard<'b>>, InUse> {
        let Some(ranges) = self.ranges() else { return Ok(None) };
        let held = self.held(None);
        let (guard, met) = ranges.take(held, false)?;
        ranges.report(held, met);
        Ok(Some(guard))
    }

    /// Parks a move until the closure that blocks it is over; returns it if none does.
    pub(super) fn park(&self, parked: Parked) -> Option<Parked> {
        let Some(ranges) = self.ranges() else { return Some(parked) };
        let held = self.held(None);
        let mut taken = ranges.taken.lock();
        let other = taken.closure_in_the_way(&held);
        if other.is_none() {
            return Some(parked);
        }
        let first = parked.is_first();
        taken.parked.push(parked);
        drop(taken);
        if first {
            ranges.report(held, other);
        }
        None
    }

    /// The order in which ranges are locked, so that two threads cannot deadlock.
    fn key(&self) -> (usize, usize) {
        (std::ptr::from_ref(self.block).addr(), self.start)
    }

    /// The union of two overlapping ranges of the same block.
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

/// A closure holds the range.
#[derive(Debug)]
pub(super) struct InUse;

/// Locks two ranges for a move, or none. Does not allocate.
pub(super) fn guard_two<'b>(touches: [Touch<'b>; 2]) -> Result<[Option<Guard<'b>>; 2], InUse> {
    let [mut a, mut b] = touches;
    if b.key() < a.key() {
        std::mem::swap(&mut a, &mut b);
    }
    match a.merge(&b) {
        Some(both) => Ok([both.try_take()?, None]),
        None => Ok([a.try_take()?, b.try_take()?]),
    }
}

/// Locks any number of ranges for a move, or none.
pub(super) fn guard_all(touches: Vec<Touch<'_>>) -> Result<Vec<Guard<'_>>, InUse> {
    let guards = merged(touches).map(Touch::try_take);
    guards.filter_map(Result::transpose).collect()
}

/// Locks any number of ranges for a closure that is about to use them.
pub(super) fn guard_closure<'b>(
    touches: impl Iterator<Item = Touch<'b>>,
    site: Site,
) -> Vec<Guard<'b>> {
    let touches: Vec<_> = touches.filter(|touch| touch.block.is_shared()).collect();
    touches.iter().for_each(|touch| hazards::closure(touch, site));
    merged(touches).filter_map(|touch| touch.take(Some(site))).collect()
}

/// Locks what a task of a rank is about to use: of this rank, and what it reads of peers.
pub(super) fn guard_reader<'b>(
    touches: impl Iterator<Item = (Touch<'b>, Option<&'b hazards::Put>)>,
    site: Site,
) -> Vec<Guard<'b>> {
    let touches: Vec<_> = touches.filter(|(touch, _)| touch.block.is_shared()).collect();
    for (touch, reader) in &touches {
        match reader {
            Some(reader) => hazards::got(touch, reader),
            None => hazards::closure(touch, site),
        }
    }
    let touches = touches.into_iter().map(|(touch, _)| touch).collect();
    merged(touches).filter_map(|touch| touch.take(Some(site))).collect()
}

/// In locking order, with overlapping ranges merged.
fn merged<'b>(mut touches: Vec<Touch<'b>>) -> impl Iterator<Item = Touch<'b>> {
    touches.sort_by_key(Touch::key);
    touches.dedup_by(|next, current| match current.merge(next) {
        Some(both) => {
            *current = both;
            true
        }
        None => false,
    });
    touches.into_iter()
}

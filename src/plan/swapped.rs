//! Memory of two copies that swap with every run.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Two of one kind, buffers or windows, of which one is current: a plan reads the current one while its
/// neighbours already fill the next. They change places when a run has been issued, on every rank at the
/// same run.
pub struct Swapped<M> {
    pair: [M; 2],
    /// Whether the second one is current.
    second: AtomicBool,
}

impl<M> Swapped<M> {
    /// A pair; the first one is current.
    pub fn new(current: M, next: M) -> Self {
        Self { pair: [current, next], second: AtomicBool::new(false) }
    }

    /// The one that the next run reads, and that the last run filled.
    pub fn current(&self) -> &M {
        &self.pair[usize::from(self.second.load(Relaxed))]
    }

    /// The one that the next run reads.
    pub fn current_mut(&mut self) -> &mut M {
        &mut self.pair[usize::from(self.second.load(Relaxed))]
    }

    /// The other one, which the next run fills.
    pub fn next(&self) -> &M {
        &self.pair[usize::from(!self.second.load(Relaxed))]
    }

    /// The other one, which the next run fills.
    pub fn next_mut(&mut self) -> &mut M {
        &mut self.pair[usize::from(!self.second.load(Relaxed))]
    }

    /// Both, the current one first.
    pub fn into_parts(self) -> (M, M) {
        let is_second = self.second.load(Relaxed);
        let [first, second] = self.pair;
        if is_second { (second, first) } else { (first, second) }
    }

    /// What a run flips when it has been issued.
    pub(super) fn parity(&self) -> &AtomicBool {
        &self.second
    }
}

impl<M: fmt::Debug> fmt::Debug for Swapped<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Swapped, current {:?}, next {:?}", self.current(), self.next())
    }
}

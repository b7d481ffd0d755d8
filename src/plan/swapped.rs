//! Memory with two copies that swap after every run.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::derived::debug;

/// Two buffers or windows of one kind, one of which is current: a plan reads the current one while
/// its neighbours already fill the next. They swap once a run has been issued, on every rank in the
/// same run.
///
/// ```
/// # use typed_nccl::{Host, Seat, plan::Swapped};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (now, next) = (comm.window::<f32>(4)?, comm.window::<f32>(4)?);
/// let mut u = Swapped::new(now, next);
/// u.current_mut().copy_from(&[1.0; 4])?;
/// // Each run of a plan that declares `swapped` swaps them.
/// assert_eq!((u.current().to_vec()?, u.next().to_vec()?), (vec![1.0; 4], vec![0.0; 4]));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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

    /// The one that the next run reads and the last run filled.
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

    /// The flag that a run flips once it has been issued.
    pub(super) fn parity(&self) -> &AtomicBool {
        &self.second
    }
}

debug!(
    [M: fmt::Debug] Swapped<M>,
    self => "Swapped, current {:?}, next {:?}", self.current(), self.next()
);

//! Signals left over by refused waits.
//!
//! A refusal counts as its rank's turn, so the signals that a refused wait would have consumed must
//! not satisfy later waits, which would complete too early. The next wait in the slot consumes them
//! in addition to its own.

use std::cell::RefCell;

use crate::Rank;
use crate::backend::{Backend, Op, Refusal, Slot};
use crate::error::Surplus;

/// By sender and slot.
#[derive(Default)]
pub(super) struct Unconsumed(RefCell<Vec<(Rank, Slot, u32)>>);

impl Unconsumed {
    /// Records the waits among refused operations.
    pub(super) fn add(&self, refusals: &[Refusal]) {
        let mut left = self.0.borrow_mut();
        for refusal in refusals {
            let &Refusal::Wait(peer, slot, count) = refusal else { continue };
            match left.iter_mut().find(|known| (known.0, known.1) == (peer, slot)) {
                Some(known) => known.2 = known.2.saturating_add(count),
                None => left.push((peer, slot, count)),
            }
        }
    }

    /// Subtracts leftovers of refused waits from unawaited signals.
    pub(super) fn deduct(&self, signals: &mut Vec<Surplus>) {
        for &(from, slot, count) in &*self.0.borrow() {
            let of = |signal: &&mut Surplus| {
                (signal.from, signal.context, signal.index) == (from, slot.context, slot.index)
            };
            if let Some(signal) = signals.iter_mut().find(of) {
                signal.count = signal.count.saturating_sub(u64::from(count));
            }
        }
        signals.retain(|signal| signal.count > 0);
    }

    /// Makes each wait also consume what is left in its slot.
    pub(super) fn catch_up<B: Backend>(&self, ops: &mut [Op<'_, B>]) {
        let mut left = self.0.borrow_mut();
        if left.is_empty() {
            return;
        }
        for op in ops {
            let Op::Wait(wait) = op else { continue };
            if let Some(at) = left.iter().position(|of| (of.0, of.1) == (wait.peer, wait.slot)) {
                wait.count = wait.count.saturating_add(left.swap_remove(at).2);
            }
        }
    }
}

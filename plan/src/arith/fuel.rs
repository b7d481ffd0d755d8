//! How much proving there may be.

use std::cell::Cell;
use std::rc::Rc;

/// Steps that proofs may still take, shared by all that prove for one check. Without any left nothing more is
/// proved, and nothing more is assumed.
#[derive(Clone, Debug)]
pub(crate) struct Fuel {
    left: Rc<Cell<u64>>,
    whole: u64,
}

impl Fuel {
    pub(crate) fn new(steps: u64) -> Self {
        Self { left: Rc::new(Cell::new(steps)), whole: steps }
    }

    /// Takes so many steps; `false` where they are not there.
    pub(crate) fn take(&self, steps: u64) -> bool {
        let left = self.left.get().checked_sub(steps);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// How much was taken.
    pub(crate) fn spent(&self) -> u64 {
        self.whole - self.left.get()
    }
}

//! Signals to wait for.

use crate::AsRank;
use crate::Rank;
use crate::backend::Slot;

/// One of the signals that a communicator was configured with; the first one unless said otherwise.
/// Made by [`Communicator::signal_in`](crate::Communicator::signal_in).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SignalSlot(Slot);

impl SignalSlot {
    pub(super) fn new(slot: Slot) -> Self {
        Self(slot)
    }

    pub(crate) fn slot(self) -> Slot {
        self.0
    }
}

/// Signals to wait for together. Several from one peer in one slot are one entry with a count.
///
/// ```
/// # use typed_nccl::{Communicator, Result, Signals, World};
/// # fn f<W: World>(comm: &Communicator<W>) -> Result<()> {
/// let mut arrivals = Signals::new();
/// arrivals.expect(comm.ring(-1)).expect(comm.ring(1));
/// comm.wait_signals(&arrivals)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Signals {
    all: Vec<(Rank, Slot, u32)>,
}

impl Signals {
    /// None yet. Waiting for none returns at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more from `peer`.
    pub fn expect(&mut self, peer: impl AsRank) -> &mut Self {
        self.expect_in(peer, SignalSlot::default(), 1)
    }

    /// `count` more from `peer` in `slot`.
    pub fn expect_in(&mut self, peer: impl AsRank, slot: SignalSlot, count: u32) -> &mut Self {
        let (peer, slot) = (Rank::at(peer.index()), slot.slot());
        match self.all.iter_mut().find(|(p, s, _)| (*p, *s) == (peer, slot)) {
            Some((_, _, have)) => *have = have.saturating_add(count),
            None if count > 0 => self.all.push((peer, slot, count)),
            None => {}
        }
        self
    }

    /// Forgets all of them; keeps their memory.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    pub(super) fn all(&self) -> &[(Rank, Slot, u32)] {
        &self.all
    }
}

//! Signals to wait for.

use crate::backend::Slot;
use crate::communicator::Maker;
use crate::{AsRank, Rank};

/// One of the signals that a communicator was configured with; the first by default. Made by
/// [`Communicator::signal_in`](crate::Communicator::signal_in) for that communicator; the default
/// one is the first signal of whichever communicator it is used with.
///
/// ```
/// use typed_nccl::{CommConfig, Host, Signals, spmd};
///
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init_with(CommConfig::builder().signals(2).build())?;
///     let (source, target) = (comm.window::<f32>(4)?, comm.window::<f32>(4)?);
///     let (second, peer) = (comm.signal_in(0, 1)?, comm.ring(1));
///     assert_eq!((second.context(), second.index()), (0, 1));
///     comm.put_signal(&source, peer, target.at(0).raising(second))?;
///     comm.wait_signals(Signals::new().expect_in(peer, second, 1))?;
///     comm.finish()
/// })
/// .expect("both ranks end well");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SignalSlot {
    pub(super) slot: Slot,
    /// `None`: valid in every communicator.
    pub(super) maker: Option<Maker>,
}

impl SignalSlot {
    pub(super) fn new(slot: Slot, maker: Maker) -> Self {
        Self { slot, maker: Some(maker) }
    }

    /// The number of its context.
    pub fn context(self) -> u32 {
        self.slot.context
    }

    /// Its number in the context.
    pub fn index(self) -> u32 {
        self.slot.index
    }

    fn is_same(self, other: Self) -> bool {
        let makers = [self.maker, other.maker];
        self.slot == other.slot && (makers.contains(&None) || makers[0] == makers[1])
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
/// comm.wait_signals(&(1..comm.size()).collect())?; // one of each of these ranks
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Signals {
    all: Vec<(Rank, SignalSlot, u32)>,
}

impl Signals {
    /// No signals. Waiting for none returns at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more from `peer`.
    pub fn expect(&mut self, peer: impl AsRank) -> &mut Self {
        self.expect_in(peer, SignalSlot::default(), 1)
    }

    /// `count` more from `peer` in `slot`.
    pub fn expect_in(&mut self, peer: impl AsRank, slot: SignalSlot, count: u32) -> &mut Self {
        let peer = Rank::kept(peer);
        match self.all.iter_mut().find(|(p, s, _)| p.may_be(peer) && s.is_same(slot)) {
            Some((rank, known, have)) => {
                *rank = if rank.is_plain() { peer } else { *rank };
                known.maker = known.maker.or(slot.maker);
                *have = have.saturating_add(count);
            }
            None if count > 0 => self.all.push((peer, slot, count)),
            None => {}
        }
        self
    }

    /// The entries: a peer, a slot, and the number of signals from that peer in that slot.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Rank, SignalSlot, u32)> + '_ {
        self.all.iter().copied()
    }

    /// Removes all of them, keeping the allocation.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    pub(super) fn all(&self) -> &[(Rank, SignalSlot, u32)] {
        &self.all
    }
}

/// One more of each rank's: a rank that is named twice is to signal twice.
impl<R: AsRank> Extend<R> for Signals {
    fn extend<I: IntoIterator<Item = R>>(&mut self, peers: I) {
        for peer in peers {
            self.expect(peer);
        }
    }
}

/// One of each rank's: a rank that is named twice is to signal twice. The wait checks the ranks.
impl<R: AsRank> FromIterator<R> for Signals {
    fn from_iter<I: IntoIterator<Item = R>>(peers: I) -> Self {
        let mut all = Self::new();
        all.extend(peers);
        all
    }
}

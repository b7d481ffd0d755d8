//! One-sided operations: put with a signal, signal, wait.
//!
//! A put writes a peer's window without the peer's participation, then raises a signal there; the
//! peer waits for the signal on its own stream. An awaited signal guarantees that the data of its
//! put, and of all earlier puts of that rank in that context, has arrived. It says nothing about
//! other ranks or contexts, and nothing tells the sender that the data was read: that takes a
//! signal in return.

mod signals;

pub use signals::{SignalSlot, Signals};

use crate::backend::{Backend, Op, Put, Refusal, Signal, Slot, Target, Wait};
use crate::collectives::Draft;
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{Error, NoSuchSignal, NoWindow, Operation, OutsideWindow, Site, TooManySignals};
use crate::group::Group;
use crate::window::{PutSource, WindowPlace};
use crate::{AsRank, Communicator, DType, Element, Rank, Result, RmaTarget, World};

/// The most signals of one slot that a wait takes: NCCL counts in a C `int`.
const MOST: u32 = i32::MAX.unsigned_abs();

type Back<W> = <<W as World>::Device as crate::Device>::Backend;

impl<'c, W: World> On<'c, W> {
    fn draft_put<'a, T: Element, P: PutSource<'a, W, Elem = T>, K: RmaTarget>(
        &self,
        source: P,
        peer: impl AsRank,
        target: &WindowPlace<'_, T, W, K>,
        site: Site,
    ) -> Result<Op<'a, Back<W>>> {
        let draft = Draft::new(self.core, T::DTYPE, site);
        let source = source.source();
        self.core.resources.window(source.key)?;
        let window = self.core.resources.window(target.key())?;
        let span = draft.view(source.slice.into_span())?;
        let peer = draft.rank(Operation::PutSignal, peer)?;
        let (start, len) = (target.offset, target.len_of(peer.index()));
        let end = start.checked_add(span.len()).filter(|&end| end <= len);
        if end.is_none() {
            let end = start.saturating_add(span.len());
            let dtype = T::DTYPE;
            return Err(Error::from(OutsideWindow { start, end, peer, len, dtype, site }));
        }
        let slot = self.slot(target.slot, site)?;
        let mut call = draft.call(Operation::PutSignal, span.len());
        call.peer = Some(peer);
        let to = Target { window: window.id, offset: start * size_of::<T>() };
        Ok(Op::Put(Put { call, peer, span, to, slot }))
    }

    fn draft_signal(
        &self,
        peer: impl AsRank,
        slot: SignalSlot,
        site: Site,
    ) -> Result<Op<'static, Back<W>>> {
        let draft = Draft::new(self.core, DType::U8, site);
        self.has_signals(Operation::Signal, site)?;
        let peer = draft.rank(Operation::Signal, peer)?;
        let slot = self.slot(slot, site)?;
        let mut call = draft.call(Operation::Signal, 0);
        call.peer = Some(peer);
        Ok(Op::Signal(Signal { call, peer, slot }))
    }

    fn draft_wait(
        &self,
        peer: impl AsRank,
        slot: SignalSlot,
        count: u32,
        site: Site,
    ) -> Result<Op<'static, Back<W>>> {
        let draft = Draft::new(self.core, DType::U8, site);
        self.has_signals(Operation::WaitSignal, site)?;
        let peer = draft.rank(Operation::WaitSignal, peer)?;
        let slot = self.slot(slot, site)?;
        if count > MOST {
            let (most, operation) = (MOST, Operation::WaitSignal.name());
            return Err(TooManySignals { operation, peer, count, most, site }.into());
        }
        let mut call = draft.call(Operation::WaitSignal, count as usize);
        call.peer = Some(peer);
        Ok(Op::Wait(Wait { call, peer, slot, count }))
    }

    /// NCCL sets signals up with the first symmetric window, and has none before.
    fn has_signals(&self, operation: Operation, site: Site) -> Result<()> {
        if self.core.has_signals {
            return Ok(());
        }
        let operation = operation.name();
        Err(NoWindow { operation, site }.into())
    }

    fn slot(&self, slot: SignalSlot, site: Site) -> Result<Slot> {
        if let Some(maker) = slot.maker {
            self.core.resources.made(maker, "signal")?;
        }
        let Slot { context, index, .. } = slot.slot;
        let Slot { context: contexts, index: signals, .. } = self.core.slots;
        if self.has(slot) {
            return Ok(slot.slot);
        }
        Err(NoSuchSignal { context, index, contexts, signals, site }.into())
    }

    fn has(&self, slot: SignalSlot) -> bool {
        let Slot { context, index, .. } = slot.slot;
        context < self.core.slots.context && index < self.core.slots.index
    }

    /// The refusal that the peer is told of if a put or signal fails; `None` without such a rank,
    /// or without such a signal for which it could wait.
    fn refused(&self, peer: impl AsRank, slot: SignalSlot) -> Option<Refusal> {
        let peer = self.core.number(peer).filter(|_| self.has(slot))?;
        Some(Refusal::Signal(Rank::at(peer), slot.slot))
    }

    fn run_one_sided(&self, refusal: Option<Refusal>, op: Result<Op<'_, Back<W>>>) -> Result<()> {
        match op {
            Ok(mut op) => self.issue(std::slice::from_mut(&mut op), refusal.as_slice()),
            Err(error) => Err(self.core.refuse(refusal.as_slice(), error)),
        }
    }
}

/// The turn of a wait that is refused along with others. A wait with bad arguments of its own would
/// have consumed nothing.
fn turn_of<B: Backend>(op: &Result<Op<'_, B>>) -> Option<Refusal> {
    match op {
        Ok(op @ Op::Wait(_)) => Some(op.refusal()),
        _ => None,
    }
}

impl<'c, W: World> On<'c, W> {
    /// See [`Communicator::put_signal`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn put_signal<'a, T: Element, P: PutSource<'a, W, Elem = T>, K: RmaTarget>(
        &self,
        source: P,
        peer: impl AsRank,
        target: WindowPlace<'_, T, W, K>,
    ) -> Result<()> {
        let op = self.draft_put(source, peer, &target, Site::caller());
        self.run_one_sided(self.refused(peer, target.slot), op)
    }

    /// See [`Communicator::signal`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn signal(&self, peer: impl AsRank) -> Result<()> {
        self.signal_slot(peer, SignalSlot::default())
    }

    /// See [`Communicator::signal_slot`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn signal_slot(&self, peer: impl AsRank, slot: SignalSlot) -> Result<()> {
        let op = self.draft_signal(peer, slot, Site::caller());
        self.run_one_sided(self.refused(peer, slot), op)
    }

    /// See [`Communicator::wait_signal`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn wait_signal(&self, peer: impl AsRank) -> Result<()> {
        let op = self.draft_wait(peer, SignalSlot::default(), 1, Site::caller());
        self.run_one_sided(turn_of(&op), op)
    }

    /// See [`Communicator::wait_signals`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn wait_signals(&self, signals: &Signals) -> Result<()> {
        let site = Site::caller();
        let mut lists = self.core.lists();
        let mut refused = None;
        for &(peer, slot, count) in signals.all() {
            let op = self.draft_wait(peer, slot, count, site);
            lists.refusals.extend(turn_of(&op));
            match op {
                Ok(op) => lists.ops.push(op),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let outcome = match refused {
            Some(error) => Err(self.core.refuse(&lists.refusals, error)),
            None if lists.ops.is_empty() => Ok(()),
            None => self.issue(&mut lists.ops, &lists.refusals),
        };
        self.core.keep_lists(lists);
        outcome
    }
}

impl<'e, W: World> Group<'e, W> {
    /// Records a [`put_signal`](Communicator::put_signal).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn put_signal<T: Element, P: PutSource<'e, W, Elem = T>, K: RmaTarget>(
        &mut self,
        source: P,
        peer: impl AsRank,
        target: WindowPlace<'_, T, W, K>,
    ) -> Result<()> {
        let op = self.on.draft_put(source, peer, &target, Site::caller());
        self.record(self.on.refused(peer, target.slot), op)
    }

    /// Records a [`signal`](Communicator::signal).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn signal(&mut self, peer: impl AsRank) -> Result<()> {
        self.signal_slot(peer, SignalSlot::default())
    }

    /// Records a [`signal_slot`](Communicator::signal_slot).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn signal_slot(&mut self, peer: impl AsRank, slot: SignalSlot) -> Result<()> {
        let op = self.on.draft_signal(peer, slot, Site::caller());
        self.record(self.on.refused(peer, slot), op)
    }

    /// Records a [`wait_signal`](Communicator::wait_signal); see
    /// [`wait_signals`](Self::wait_signals).
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn wait_signal(&mut self, peer: impl AsRank) -> Result<()> {
        let op = self.on.draft_wait(peer, SignalSlot::default(), 1, Site::caller());
        self.record(turn_of(&op), op)
    }

    /// Records a [`wait_signals`](Communicator::wait_signals). One-sided operations run in the
    /// order in which the group records them, before everything else in it: a wait must not depend
    /// on a transfer or collective of its own group.
    ///
    /// # Errors
    /// None here: the group validates when it is complete.
    #[track_caller]
    pub fn wait_signals(&mut self, signals: &Signals) -> Result<()> {
        let site = Site::caller();
        for &(peer, slot, count) in signals.all() {
            let op = self.on.draft_wait(peer, slot, count, site);
            self.record(turn_of(&op), op)?;
        }
        Ok(())
    }
}

/// # One-sided
///
/// Puts into the windows of peers, and signals that say that they have arrived.
impl<W: World, S: State> Communicator<W, S> {
    /// Copies `source` to `target` in `peer`'s window, then raises a signal there. One-sided: the
    /// peer only waits for the signal. The host does not wait; the source may be overwritten in
    /// stream order. NCCL: `ncclPutSignal`, 2.29.
    ///
    /// `source` is a slice of one of this communicator's symmetric windows, or a whole one;
    /// `target` is a place in *this rank's own* handle of a symmetric window: `ghost.at(offset)`,
    /// in elements.
    ///
    /// Order it with the peer's uses of the target by signals. On the host, an unordered put of
    /// another process may change the slice of a closure that is running, which no `&[T]` allows.
    ///
    /// # Errors
    /// Refusals: [`Error::OutsideWindow`] on either side, a window or signal of another
    /// communicator, a rank out of range; a poisoned communicator.
    #[track_caller]
    pub fn put_signal<'a, T: Element, P: PutSource<'a, W, Elem = T>, K: RmaTarget>(
        &self,
        source: P,
        peer: impl AsRank,
        target: WindowPlace<'_, T, W, K>,
    ) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().put_signal(source, peer, target)
    }

    /// Raises a signal at `peer`, after all earlier puts to it. The host does not wait. Signals are
    /// set up with the communicator's first symmetric window, or when it is made
    /// ([`early_signals`](crate::CommConfig::early_signals)). NCCL: `ncclSignal`, 2.29.
    ///
    /// # Errors
    /// Refusals: [`Error::NoWindow`]: there was no symmetric window yet, nor
    /// [`early_signals`](crate::CommConfig::early_signals); a rank out of range; a poisoned
    /// communicator.
    #[track_caller]
    pub fn signal(&self, peer: impl AsRank) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().signal(peer)
    }

    /// [`signal`](Self::signal) in a slot of your choice.
    ///
    /// # Errors
    /// As there; a slot of another communicator.
    #[track_caller]
    pub fn signal_slot(&self, peer: impl AsRank, slot: SignalSlot) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().signal_slot(peer, slot)
    }

    /// Makes the stream wait for one signal from `peer`, and consumes it. The data of its put is
    /// visible to everything enqueued later; the wait counts as a use of every window of this
    /// communicator. The host does not wait. NCCL: `ncclWaitSignal`, 2.29.
    ///
    /// # Errors
    /// Refusals: [`Error::NoWindow`]: there was no symmetric window yet, nor
    /// [`early_signals`](crate::CommConfig::early_signals); a rank out of range; a poisoned
    /// communicator.
    #[track_caller]
    pub fn wait_signal(&self, peer: impl AsRank) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().wait_signal(peer)
    }

    /// Makes the stream wait for several signals, from several peers, and consumes them.
    ///
    /// # Errors
    /// As [`wait_signal`](Self::wait_signal); a slot of another communicator;
    /// [`Error::TooManySignals`]: 2^31 or more from one rank in one slot.
    #[track_caller]
    pub fn wait_signals(&self, signals: &Signals) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.here().wait_signals(signals)
    }

    /// Signal `index` of context `context`, checked once. Their numbers are configured:
    /// `CommConfig::builder().contexts(2).signals(4)`.
    ///
    /// # Errors
    /// [`Error::NoSuchSignal`].
    #[track_caller]
    pub fn signal_in(&self, context: u32, index: u32) -> Result<SignalSlot>
    where
        S: CanEnqueue,
    {
        let here = self.here();
        let slot = SignalSlot::new(Slot::at(context, index), here.core.resources.maker());
        here.slot(slot, Site::caller())?;
        Ok(slot)
    }
}

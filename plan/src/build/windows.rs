//! One-sided operations: puts into windows, signals, waits.

use super::arena::Stamp;
use super::memory::WindowPart;
use super::number::Number;
use super::on::On;
use super::peer::Peer;
use super::{Open, PlanBuilder, id};
use crate::element::SameElement;
use crate::ir::{self, Named, SignalId, StepKind, Wait};

/// A signal of the plan: raised at a peer, awaited by it.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    of: Stamp,
    id: SignalId,
}

/// A signal to wait for: `hi.from(ring(1))`.
#[derive(Clone, Debug)]
#[must_use = "awaited by `wait`"]
pub struct Awaited {
    signal: Signal,
    peer: Peer,
    times: Number,
}

/// A put in the plan, to which a signal can be added.
#[derive(Debug)]
pub struct Put<'p> {
    plan: &'p mut PlanBuilder<Open>,
}

impl Signal {
    /// This signal, raised once by that peer.
    pub fn from(self, peer: Peer) -> Awaited {
        Awaited { signal: self, peer, times: 1.into() }
    }
}

impl Awaited {
    /// Raised this many times.
    pub fn times(self, times: impl Into<Number>) -> Self {
        Self { times: times.into(), ..self }
    }
}

impl PlanBuilder<Open> {
    /// Declares a signal.
    #[track_caller]
    pub fn signal(&mut self, name: &str) -> Signal {
        let at = self.here();
        self.plan.signals.push(Named { name: name.to_owned(), at });
        Signal { of: self.stamp(), id: SignalId(id(&self.plan.signals)) }
    }

    #[track_caller]
    fn signal_id(&mut self, signal: Signal) -> SignalId {
        self.belongs(signal.of);
        signal.id
    }
}

impl On<'_> {
    /// Writes into the peer's window: `to` is the region there, computed with this rank's r. In a
    /// swapped window, `next` is the same copy on both ranks.
    #[track_caller]
    pub fn put<A: WindowPart, B: WindowPart>(&mut self, from: A, peer: Peer, to: B) -> Put<'_>
    where
        B::Element: SameElement<A::Element>,
    {
        let (from, to) = (self.plan.region(from), self.plan.region(to));
        let (peer, among, place) = (self.plan.peer(peer), self.among, self.place.clone());
        self.plan.push(StepKind::Put(ir::Put { from, peer, to, signal: None, among, place }));
        Put { plan: self.plan }
    }

    /// Raises a signal at the peer, after all earlier puts of this rank there have arrived.
    #[track_caller]
    pub fn signal(&mut self, signal: Signal, peer: Peer) {
        let (signal, peer) = (self.plan.signal_id(signal), self.plan.peer(peer));
        let (among, place) = (self.among, self.place.clone());
        self.plan.push(StepKind::Signal(ir::Signal { signal, peer, among, place }));
    }

    /// Makes the stream wait until these signals were raised here:
    /// `wait([hi.from(ring(1)), lo.from(ring(-1))])`.
    #[track_caller]
    pub fn wait(&mut self, signals: impl IntoIterator<Item = Awaited>) {
        let mut awaited = Vec::new();
        for Awaited { signal, peer, times } in signals {
            let (signal, peer) = (self.plan.signal_id(signal), self.plan.peer(peer));
            awaited.push(ir::Awaited { signal, peer, times: self.plan.expr(times) });
        }
        let (among, place) = (self.among, self.place.clone());
        self.plan.push(StepKind::Wait(Wait { signals: awaited, among, place }));
    }
}

impl Put<'_> {
    /// Raises this signal at the peer once the data has arrived there.
    #[track_caller]
    pub fn signal(self, signal: Signal) {
        let signal = self.plan.signal_id(signal);
        // The put is the last statement: this has borrowed the builder since it was appended.
        if let Some(StepKind::Put(put)) = self.plan.last() {
            put.signal = Some(signal);
        }
    }
}

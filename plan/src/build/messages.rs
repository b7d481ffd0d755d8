//! Messages: whole ones, and their halves.

use super::memory::Part;
use super::on::On;
use super::peer::Peer;
use crate::element::SameElement;
use crate::ir::{Receive, Send, StepKind, Transfer};

impl On<'_> {
    /// A message of every rank r: it sends `from`, and the peer receives it in `to`, a region
    /// computed with the sender's r. Both halves are in one group, unless this is in a sequence.
    #[track_caller]
    pub fn transfer<A: Part, B: Part>(&mut self, from: A, peer: Peer, to: B)
    where
        B::Element: SameElement<A::Element>,
    {
        let (from, to) = (self.plan.region(from), self.plan.region(to));
        let (peer, among, place) = (self.plan.peer(peer), self.among, self.place.clone());
        self.plan.push(StepKind::Transfer(Transfer { from, peer, to, among, place }));
    }

    /// The sending half of a message; the peer needs a receiving half.
    #[track_caller]
    pub fn send(&mut self, from: impl Part, to: Peer) {
        let (from, peer) = (self.plan.region(from), self.plan.peer(to));
        let (among, place) = (self.among, self.place.clone());
        self.plan.push(StepKind::Send(Send { from, peer, among, place }));
    }

    /// The receiving half of a message.
    #[track_caller]
    pub fn receive(&mut self, to: impl Part, from: Peer) {
        let (to, peer) = (self.plan.region(to), self.plan.peer(from));
        let (among, place) = (self.among, self.place.clone());
        self.plan.push(StepKind::Receive(Receive { to, peer, among, place }));
    }
}

//! Leaving, and neighbours that leave in good order.

use std::time::{Duration, Instant};

use super::super::conns::Key;
use super::super::endpoint::{Net, Tombstone};
use super::super::ledger::children;
use super::super::message::{Leaves, Left, Message, cut};
use super::Node;
use crate::control::FINISH;

/// How long a node stays for its goodbye to be read. The rank above may have to be found first.
const LINGER: Duration = Duration::from_secs(1);

impl Node {
    pub(crate) fn leave(&mut self, net: &mut Net, why: &str, how: Leaves) {
        let rank = self.rank;
        let left = Left::of(rank, cut(why).to_owned(), how, self.split);
        self.standing.record(&left);
        for link in &mut self.links {
            link.flush(net);
            net.conns.send(link.key, &Message::Left(left.clone()));
        }
        // Ranks at the rendezvous must learn the cause before they learn that this rank leaves.
        if let Some(bootstrap) = self.bootstrap {
            for left in self.standing.left() {
                net.conns.send(bootstrap, &Message::Left(left.clone()));
            }
        }
    }

    /// A neighbour left in good order.
    pub(super) fn handle_bye(
        &mut self,
        net: &mut Net,
        (key, peer): (Key, u32),
        all_finished: bool,
    ) {
        net.conns.end(key);
        self.links.retain(|link| link.key != key);
        let was_up = self.up.take_if(|up| *up == key).is_some();
        if all_finished {
            self.is_heard = true;
            self.informed.extend(children(peer, self.size));
        }
        self.handle_goodbye(net, peer);
        if self.ledger.is_finished(FINISH) && self.closing.is_none() {
            return;
        }
        self.await_orphans(net);
        if was_up {
            self.attach(net);
        }
    }

    /// A rank has left in good order, which is news unless it or all ranks had finished.
    pub(super) fn handle_goodbye(&mut self, net: &mut Net, rank: u32) {
        let done = self.has_finished(rank) || self.ledger.is_finished(FINISH);
        if let Some(left) = self.standing.handle_goodbye(rank, done) {
            self.handle_departure(net, left, None);
        }
    }

    /// Whether a rank has contributed to its last exchange.
    pub(super) fn has_finished(&self, rank: u32) -> bool {
        self.ledger.last_of(rank).is_some_and(|last| last.topic == FINISH)
    }

    /// This rank is done with its communicator.
    ///
    /// A neighbour that leaves at the same time passes nothing on. So the node stays in the tree
    /// until one that stays has read its goodbye: until it [is over](Self::is_over).
    pub(crate) fn close(&mut self, net: &mut Net) {
        self.closing = Some(net.now() + LINGER);
        let all_finished = self.ledger.is_finished(FINISH);
        for link in &mut self.links {
            link.part(net, all_finished);
        }
        if let Some(bootstrap) = self.bootstrap.take() {
            net.conns.send(bootstrap, &Message::Bye { all_finished });
            net.conns.end(bootstrap);
        }
        if !self.is_over(net.now()) {
            self.await_orphans(net);
            if self.up.is_none() && self.dial.is_none() {
                self.attach(net);
            }
        }
    }

    /// Whether nobody needs this node any more.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        let Some(until) = self.closing else { return false };
        let others = || (0..self.size).filter(|rank| *rank != self.rank);
        self.is_heard && self.orphans().is_empty()
            || now >= until
            || self.table.is_none()
            || self.failed.is_some()
            || self.standing.excluded().is_some()
            || others().all(|rank| self.is_away(rank))
    }

    /// Ends its connections, after [`close`](Self::close).
    pub(crate) fn end(&mut self, net: &mut Net) {
        for link in self.links.drain(..) {
            net.conns.end_awaited(link.key);
        }
        self.release(net);
    }

    /// Cuts all connections, as if the process were killed.
    pub(crate) fn kill(&mut self, net: &mut Net) {
        for key in self.links.drain(..).map(|link| link.key).chain(self.bootstrap.take()) {
            net.conns.remove(key);
        }
        self.release(net);
    }

    /// Asks no other rank for anything any more.
    pub(super) fn stop_calling(&mut self, net: &mut Net) {
        if let Some(key) = self.dial.take().and_then(|dial| dial.key) {
            net.conns.remove(key);
        }
        for rank in self.probes.keys().copied().collect::<Vec<_>>() {
            self.cancel_probe(net, rank);
        }
    }

    fn release(&mut self, net: &mut Net) {
        self.stop_calling(net);
        if let Some(id) = self.id {
            net.local_nodes.remove(&(id, self.rank));
            let lost =
                self.standing.left().filter(|left| left.died).map(|left| left.rank).collect();
            net.ended.add((id, self.rank), Tombstone { secret: self.secret.clone(), lost });
        }
    }
}

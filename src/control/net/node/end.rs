//! Leaving, and neighbours that leave in good order.

use super::super::conns::Key;
use super::super::endpoint::{Net, Tombstone};
use super::super::message::{Leaves, Left, Message, cut};
use super::Node;
use crate::control::FINISH;

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
    pub(super) fn handle_bye(&mut self, net: &mut Net, key: Key, peer: u32) {
        net.conns.end(key);
        self.links.retain(|link| link.key != key);
        let was_up = self.up.take_if(|up| *up == key).is_some();
        let is_over = self.ledger.is_finished(FINISH);
        let has_finished = self.ledger.last_of(peer).is_some_and(|last| last.topic == FINISH);
        if let Some(left) = self.standing.handle_goodbye(peer, has_finished || is_over) {
            self.handle_departure(net, left, None);
        }
        if is_over {
            return;
        }
        self.await_orphans(net);
        if was_up {
            self.attach(net);
        }
    }

    /// This rank is done with its communicator.
    pub(crate) fn close(&mut self, net: &mut Net) {
        for link in &mut self.links {
            link.flush(net);
            net.conns.send(link.key, &Message::Bye);
            net.conns.end_awaited(link.key);
        }
        if let Some(bootstrap) = self.bootstrap.take() {
            net.conns.send(bootstrap, &Message::Bye);
            net.conns.end(bootstrap);
        }
        self.links.clear();
        self.release(net);
    }

    /// Cuts all connections, as if the process were killed.
    pub(crate) fn kill(&mut self, net: &mut Net) {
        for key in self.links.drain(..).map(|link| link.key).chain(self.bootstrap.take()) {
            net.conns.remove(key);
        }
        self.release(net);
    }

    fn release(&mut self, net: &mut Net) {
        if let Some(key) = self.dial.take().and_then(|dial| dial.key) {
            net.conns.remove(key);
        }
        for rank in self.probes.keys().copied().collect::<Vec<_>>() {
            self.cancel_probe(net, rank);
        }
        if let Some(id) = self.id {
            net.local_nodes.remove(&(id, self.rank));
            let lost =
                self.standing.left().filter(|left| left.died).map(|left| left.rank).collect();
            net.ended.add((id, self.rank), Tombstone { secret: self.secret.clone(), lost });
        }
    }
}

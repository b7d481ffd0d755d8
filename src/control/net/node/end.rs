//! A node that leaves, and neighbours that do so in good order.

use super::super::conns::Key;
use super::super::io::{Net, Over};
use super::super::message::{Leaves, Left, Message, cut};
use super::Node;
use crate::control::FINISH;

impl Node {
    /// This rank leaves.
    pub(crate) fn leave(&mut self, net: &mut Net, why: &str, how: Leaves) {
        let rank = self.rank;
        let left = Left::of(rank, cut(why).to_owned(), how, self.split);
        let merged = left.after(self.left.get(&rank));
        self.left.insert(rank, merged);
        for link in &mut self.links {
            link.flush(net);
            net.conns.send(link.key, &Message::Left(left.clone()));
        }
        if let Some(bootstrap) = self.bootstrap {
            net.conns.send(bootstrap, &Message::Left(left));
        }
    }

    /// A neighbour has ended, and has said all that it had to say.
    pub(super) fn bye(&mut self, net: &mut Net, key: Key, peer: u32) {
        net.conns.end(key);
        self.links.retain(|link| link.key != key);
        self.away.insert(peer);
        let was_up = self.up.take_if(|up| *up == key).is_some();
        let is_over = self.ledger.is_over(FINISH);
        let said = self.ledger.last_of(peer).is_some_and(|said| said.topic == FINISH);
        if !said && !is_over && !self.left.get(&peer).is_some_and(|left| left.gone) {
            let why = "its communicator has ended".to_owned();
            self.left(net, Left::ended(peer, why, u64::MAX), None);
        }
        if is_over {
            return;
        }
        self.expect(net);
        if was_up {
            self.climb(net);
        }
    }

    /// This rank is done with its communicator: it says so and goes.
    pub(crate) fn close(&mut self, net: &mut Net) {
        for link in &mut self.links {
            link.flush(net);
            net.conns.send(link.key, &Message::Bye);
            net.conns.end_well(link.key);
        }
        if let Some(bootstrap) = self.bootstrap.take() {
            net.conns.send(bootstrap, &Message::Bye);
            net.conns.end(bootstrap);
        }
        self.links.clear();
        self.forget(net);
    }

    /// Its connections are cut, as if its process were killed.
    pub(crate) fn kill(&mut self, net: &mut Net) {
        for key in self.links.drain(..).map(|link| link.key).chain(self.bootstrap.take()) {
            net.conns.remove(key);
        }
        self.forget(net);
    }

    fn forget(&mut self, net: &mut Net) {
        if let Some(key) = self.dial.take().and_then(|dial| dial.key) {
            net.conns.remove(key);
        }
        for rank in self.probes.keys().copied().collect::<Vec<_>>() {
            self.cancel_probe(net, rank);
        }
        if let Some(id) = self.id {
            net.homes.remove(&(id, self.rank));
            let lost = self.left.values().filter(|left| left.died).map(|left| left.rank).collect();
            net.ended.add((id, self.rank), Over { secret: self.secret.clone(), lost });
        }
    }
}

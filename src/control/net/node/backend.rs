//! Messages of backends: broadcast, or routed along the tree to one rank.

use std::borrow::Cow;
use std::sync::Weak;

use super::super::channels::{Call, Event};
use super::super::conns::Key;
use super::super::endpoint::{Deferred, Net};
use super::super::ledger::{children, parent};
use super::super::message::{Left, Message, Tell};
use super::Node;
use super::tree::EXPECTED;
use crate::backend::Listener;

impl Node {
    /// Adds a listener of this rank. It first gets the messages so far and the ranks that are gone.
    pub(crate) fn listen(&mut self, net: &mut Net, channel: u64, listener: &Weak<dyn Listener>) {
        let calls = self.channels.listen(channel, listener);
        let death = |left: &Left| Event::Died(left.clone());
        let left_out = self.standing.excluded().map(|why| Event::LeftOut(why.to_owned()));
        let events = self.departed_before(u64::MAX).map(death).chain(left_out);
        let news = events.chain([Event::CaughtUp]).map(|event| Call::new(listener, event));
        net.deferred.extend(calls.into_iter().chain(news).map(Deferred::Call));
    }

    /// Reports an event to every listener of this rank.
    pub(super) fn report(&self, net: &mut Net, event: &Event) {
        net.deferred.extend(self.channels.report(event).map(Deferred::Call));
    }

    /// Sends a message of this rank.
    pub(crate) fn tell(&mut self, net: &mut Net, to: Option<u32>, channel: u64, bytes: Vec<u8>) {
        let (from, number) = (self.rank, self.relay.next(self.rank, to));
        let tell = Tell { from, to, channel, number, bytes: Cow::Owned(bytes) };
        if to != Some(from) && self.relay.is_new(&tell) {
            self.pass_tell_on(net, &tell, None);
        }
    }

    /// Delivers a message, or passes it on; false if it is out of place.
    pub(super) fn handle_tell(&mut self, net: &mut Net, tell: &Tell<'_>, by: Key) -> bool {
        let Tell { from, to, channel, number, .. } = *tell;
        let is_mine = to.is_none_or(|to| to == self.rank);
        if from >= self.size || to.is_some_and(|to| to >= self.size) {
            return false;
        }
        if from == self.rank {
            // A new neighbour sends back what it had from others.
            return number < self.relay.next(from, to);
        }
        if !self.relay.is_new(tell) {
            return true;
        }
        if is_mine {
            match self.channels.handle_message(channel, from, &tell.bytes) {
                Ok(call) => net.deferred.extend(call.map(Deferred::Call)),
                Err(_) => {
                    let why = "sent more messages than are kept for a rank that is not there yet";
                    self.fail(net, vec![from], why.to_owned());
                }
            }
        }
        if to != Some(self.rank) {
            self.pass_tell_on(net, tell, Some(by));
        }
        true
    }

    fn pass_tell_on(&mut self, net: &mut Net, tell: &Tell<'_>, by: Option<Key>) {
        // Until a rank leaves, its number determines its position in the tree.
        let hop = tell.to.filter(|_| self.standing.is_whole()).and_then(|to| self.next_hop(to));
        let message = Message::Tell(tell.borrowed());
        for link in self.links.iter().filter(|link| Some(link.key) != by) {
            if hop.is_none_or(|hop| hop == link.key) {
                net.conns.send(link.key, &message);
            }
        }
        self.relay.keep(tell, net.now());
    }

    /// Forgets messages that every neighbour has had for as long as it takes to find a death and to
    /// mend the tree, twice.
    pub(crate) fn forget_old_messages(&mut self, net: &mut Net) {
        let (now, age) = (net.now(), net.conns.heartbeat * 8 + EXPECTED);
        if self.relay.has_older(age, now) && self.has_all_neighbours() {
            self.relay.drop_older(age, now);
        }
    }

    /// Whether all links of the tree that this rank should have are there.
    fn has_all_neighbours(&self) -> bool {
        let is_linked = |rank: u32| self.links.iter().any(|link| link.peer == rank);
        (self.up.is_some() || self.above().is_none())
            && children(self.rank, self.size).all(|rank| self.is_away(rank) || is_linked(rank))
            && self.orphans().is_empty()
    }

    fn next_hop(&self, to: u32) -> Option<Key> {
        let mut path = std::iter::successors(Some(to), |rank| parent(*rank));
        let below = path.find(|rank| parent(*rank) == Some(self.rank));
        match below {
            Some(child) => self.links.iter().find(|link| link.peer == child).map(|link| link.key),
            None => self.up,
        }
    }
}

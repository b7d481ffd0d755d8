//! Messages of backends: broadcast, or routed along the tree to one rank.

use std::sync::Weak;

use super::super::channels::{Call, Event};
use super::super::conns::Key;
use super::super::endpoint::{Deferred, Net};
use super::super::ledger::parent;
use super::super::message::{Left, Message};
use super::Node;
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

    /// Delivers a message of a backend, or forwards it.
    pub(crate) fn route_message(
        &mut self,
        net: &mut Net,
        from: u32,
        to: Option<u32>,
        channel: u64,
        bytes: &[u8],
        by: Option<Key>,
    ) {
        if from != self.rank && to.is_none_or(|to| to == self.rank) {
            match self.channels.handle_message(channel, from, bytes) {
                Ok(call) => net.deferred.extend(call.map(Deferred::Call)),
                Err(_) => {
                    let why = "sent more messages than are kept for a rank that is not there yet";
                    self.fail(net, vec![from], why.to_owned());
                }
            }
        }
        if to == Some(self.rank) {
            return;
        }
        let message = Message::Tell { from, to, channel, bytes };
        // Until a rank leaves, its number determines its position in the tree.
        let hop = to.filter(|_| self.standing.is_whole()).and_then(|to| self.next_hop(to));
        for link in self.links.iter().filter(|link| Some(link.key) != by) {
            if hop.is_none_or(|hop| hop == link.key) {
                net.conns.send(link.key, &message);
            }
        }
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

//! A node's neighbours: its parent, its children, and the orphans that should attach to it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::conns::Key;
use super::super::endpoint::{Net, Timer};
use super::super::ledger::{children, parent};
use super::super::message::{Left, Message};
use super::super::topics;
use super::probe::PAUSES;
use super::standing::Sign;
use super::{Link, Node};
use crate::control::FINISH;

/// How long an orphan has to attach, in addition to one heartbeat in which it learns that it is
/// one.
pub(super) const EXPECTED: Duration = Duration::from_secs(3);

impl Node {
    /// Connects to a new parent.
    pub(super) fn attach(&mut self, net: &mut Net) {
        self.up = None;
        if let Some(dial) = self.dial.take()
            && let Some(key) = dial.key
        {
            net.conns.remove(key);
        }
        if self.standing.excluded().is_some() {
            return;
        }
        if let Some(above) = self.above() {
            self.dial(net, Some(above));
        } else {
            // This is the root.
            self.handle_attached(net);
        }
    }

    pub(super) fn above(&self) -> Option<u32> {
        self.above_of(self.rank)
    }

    /// The rank that another attaches to, as far as this one knows.
    fn above_of(&self, rank: u32) -> Option<u32> {
        let is_here = |rank: &u32| !self.is_away(*rank);
        let mut above = std::iter::successors(parent(rank), |rank| parent(*rank));
        above.find(is_here).or_else(|| (0..rank).find(is_here))
    }

    /// A connection to a neighbour is established.
    pub(crate) fn handle_linked(&mut self, net: &mut Net, key: Key, peer: u32, lacks_table: bool) {
        // A rank connects again only after losing the old connection.
        if let Some(old) = self.links.iter().position(|link| link.peer == peer) {
            net.conns.remove(self.links.swap_remove(old).key);
        }
        self.cancel_probe(net, peer);
        if let Some(table) = self.table.as_ref().filter(|_| lacks_table) {
            net.conns.send(key, &Message::Table(&table.bytes));
        }
        if let Some(failure) = &self.failed {
            net.conns.send(key, &Message::Fail(failure.clone()));
        }
        if let Some(why) = self.standing.excluded() {
            net.conns.send(key, &Message::Left(Left::dead(self.rank, why.to_owned())));
        }
        let is_up = self.up == Some(key);
        if is_up {
            // Shows the parent that this rank knows of the link.
            net.conns.send(key, &Message::Beat);
        }
        let pending = self.ledger.runs().collect();
        let mut link = Link { key, peer, pending, is_sure: is_up, has_parted: false };
        // What a rank said before it contributed to an exchange comes first.
        for tell in self.relay.kept() {
            net.conns.send(key, &Message::Tell(tell.borrowed()));
        }
        link.flush(net);
        for left in self.standing.left() {
            net.conns.send(key, &Message::Left(left.clone()));
        }
        if self.closing.is_some() {
            link.part(net, self.ledger.is_finished(FINISH));
        }
        self.links.push(link);
        if is_up {
            self.handle_attached(net);
        }
    }

    /// Sends to all neighbours but the one that a message came from.
    pub(super) fn pass_on(&self, net: &mut Net, message: &Message<'_>, from: Option<Key>) {
        for link in self.links.iter().filter(|link| Some(link.key) != from) {
            net.conns.send(link.key, message);
        }
    }

    /// Handles a message of a neighbour; false if it is out of place.
    pub(crate) fn handle_message(
        &mut self,
        net: &mut Net,
        key: Key,
        peer: u32,
        message: Message<'_>,
    ) -> bool {
        if let Some(link) = self.links.iter_mut().find(|link| link.key == key) {
            link.is_sure = true;
        }
        match message {
            Message::Parts { seq, topic, site, parts } => {
                let topic = topics::known(topic);
                return self.handle_parts(net, key, seq, (topic, site), parts);
            }
            Message::Left(left) => return self.handle_departure(net, left, Some(key)),
            Message::Tell(tell) => return self.handle_tell(net, &tell, key),
            Message::Table(bytes) => return self.handle_table(net, bytes, Some(key)),
            Message::Fail(failure) => self.handle_failure(net, failure, Some(key)),
            Message::Missing { count, ranks } => self.handle_missing(net, count, ranks, Some(key)),
            Message::Beat => {}
            Message::Bye { all_finished } => self.handle_bye(net, (key, peer), all_finished),
            Message::Hello(_) | Message::Welcome { .. } | Message::Later(_) | Message::Linked => {
                return false;
            }
        }
        true
    }

    /// A rank is gone, so its children may attach to this one.
    pub(super) fn await_orphans(&self, net: &mut Net) {
        let now = net.now();
        net.timers.set(now + PAUSES.0, Timer::Probe(self.key));
        // No sooner than its silence would count.
        let heartbeat = net.conns.heartbeat;
        net.timers.set(now + (heartbeat + EXPECTED).max(heartbeat * 3), Timer::Expect(self.key));
    }

    /// Takes for dead the orphans that did not attach in time: no other rank would notice.
    pub(crate) fn judge_orphans(&mut self, net: &mut Net) {
        for rank in self.orphans() {
            let has_arrived = self.table.is_some() || self.ledger.last_of(rank).is_some();
            let why = "it has not come back after the rank above it had left";
            self.judge(net, rank, &Sign::Missing { has_arrived }, why);
        }
        let silent: Vec<u32> = self.standing.silent().collect();
        for rank in silent {
            self.handle_goodbye(net, rank);
        }
    }

    /// The ranks that should attach to this one because their parent is gone, and have not.
    pub(super) fn orphans(&self) -> BTreeSet<u32> {
        let needs_none = self.ledger.is_finished(FINISH) && self.closing.is_none();
        if needs_none || self.standing.excluded().is_some() {
            return BTreeSet::new();
        }
        let away = self.standing.away().chain([self.rank]);
        let orphans = away.flat_map(|rank| children(rank, self.size));
        let is_linked = |rank: u32| self.links.iter().any(|link| link.peer == rank);
        let is_missed = |rank: &u32| {
            *rank != self.rank
                && !self.is_away(*rank)
                && !self.informed.contains(rank)
                && !is_linked(*rank)
                && self.above_of(*rank) == Some(self.rank)
        };
        orphans.filter(is_missed).collect()
    }
}

//! Ranks that are gone: how a node finds out, and whom it tells.

use std::time::Instant;

use super::super::conns::Key;
use super::super::io::{After, Net};
use super::super::message::{Left, Message, cut};
use super::{Link, Lost, Node};
use crate::Rank;
use crate::error::{Error, PeerFailed};

impl Node {
    /// A neighbour's connection is gone without a word.
    pub(crate) fn closed(&mut self, net: &mut Net, key: Key, reason: &str) {
        if self.visit == Some(key) {
            self.visit = None;
            if self.up.is_none() && self.failed.is_none() {
                self.id = None;
                let since = Instant::now();
                self.lost.get_or_insert_with(|| Lost { since, reason: reason.to_owned() });
                if !self.gives_place_up(net) {
                    self.dial(net, None);
                }
            }
            return;
        }
        let Some(at) = self.links.iter().position(|link| link.key == key) else { return };
        let Link { peer, is_sure, .. } = self.links.swap_remove(at);
        let was_up = self.up == Some(key);
        // One that has not heard of its place may have given this connection up, and come again.
        if is_sure {
            self.death(net, peer, reason);
        } else {
            self.expect(net);
        }
        if was_up {
            self.climb(net);
        }
    }

    /// A rank is dead, as this one found out.
    pub(super) fn death(&mut self, net: &mut Net, rank: u32, reason: &str) {
        let place = self.member_of(rank).map_or_else(String::new, |member| format!(" ({member})"));
        let last = match self.ledger.last_of(rank) {
            Some(said) => format!("; its last host-side call was {} at {}", said.topic, said.site),
            None => String::new(),
        };
        let why = format!("its process is gone{place}: {reason}{last}");
        self.left(net, Left::dead(rank, why), None);
    }

    /// The process of a rank is dead, as this one learned from another communicator.
    pub(crate) fn died_elsewhere(&mut self, net: &mut Net, process: u64, why: &str) {
        let Some(table) = self.table.clone().filter(|_| self.member.process != process) else {
            return;
        };
        for (rank, member) in table.members.iter().enumerate() {
            let rank = Rank::at(rank).0;
            if member.process == process && rank != self.rank && !self.is_away(rank) {
                self.left(net, Left::dead(rank, why.to_owned()), None);
            }
        }
    }

    /// A rank has left; false if there is no such rank.
    pub(crate) fn left(&mut self, net: &mut Net, mut left: Left, from: Option<Key>) -> bool {
        if left.rank >= self.size {
            return false;
        }
        left.why.truncate(cut(&left.why).len());
        let known = self.left.get(&left.rank);
        if !left.adds_to(known) {
            return true;
        }
        let merged = left.after(known);
        self.left.insert(left.rank, merged);
        if left.rank == self.rank {
            self.taken_for_dead();
        } else if let Some(meeting) = self.meeting() {
            meeting.hear_left(&left);
        }
        // What it said goes before the news that it left.
        for link in self.links.iter_mut().filter(|link| Some(link.key) != from) {
            link.flush(net);
            net.conns.send(link.key, &Message::Left(left.clone()));
        }
        if left.gone {
            self.is_gone(net, &left);
        } else if left.stopped {
            net.after.extend(self.channels.stopped(left.rank, &left.why).map(After::Call));
            net.after.push_back(After::LeftParent { node: self.key, left });
        }
        true
    }

    fn is_gone(&mut self, net: &mut Net, left: &Left) {
        net.after.extend(self.channels.died(left.rank, &left.why).map(After::Call));
        self.expect(net);
        if left.died {
            if let Some(at) = self.links.iter().position(|link| link.peer == left.rank) {
                let key = self.links.swap_remove(at).key;
                net.conns.end(key);
                if self.up == Some(key) {
                    self.climb(net);
                }
            }
            if let Some(process) = self.member_of(left.rank).map(|member| member.process) {
                net.after.push_back(After::Died { process, why: left.why.clone() });
            }
        }
        net.after.push_back(After::LeftParent { node: self.key, left: left.clone() });
        if self.dial.as_ref().is_some_and(|dial| dial.to == Some(left.rank)) {
            self.climb(net);
        }
    }

    pub(super) fn taken_for_dead(&self) {
        let why = "the others lost the connection to this rank, and took its process for dead";
        let failed = PeerFailed::new(
            "this communicator",
            &[(Rank(self.rank), why)],
            "a host-side call".to_owned(),
        );
        if let Some(meeting) = self.meeting() {
            meeting.break_with(Error::PeerFailed(Box::new(failed)));
        }
    }
}

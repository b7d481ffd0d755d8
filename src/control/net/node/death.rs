//! Ranks that are gone: how a node finds out, and whom it tells.

use std::time::{Duration, Instant};

use super::super::conns::Key;
use super::super::io::{After, Net, TICK, Timer};
use super::super::message::{Left, Message, cut};
use super::{Link, Lost, Node};
use crate::Rank;

/// How long it may take to find out how the others are, beside six heartbeats.
const DOUBT: Duration = Duration::from_secs(6);

impl Node {
    /// A neighbour's connection is gone without a word.
    pub(crate) fn closed(&mut self, net: &mut Net, key: Key, reason: &str) {
        if self.bootstrap == Some(key) {
            self.bootstrap = None;
            if self.up.is_none() && self.failed.is_none() && self.left_out.is_none() {
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
        if self.left_out.is_some() {
            return;
        }
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

    /// A neighbour has said nothing for too long: this rank takes it for dead. It is told so, on the
    /// connection that it may read once more: it may only have been stopped.
    pub(crate) fn fell_silent(&mut self, net: &mut Net, key: Key, reason: &str) {
        let of = |link: &&Link| link.key == key && link.is_sure;
        if let Some(peer) = self.links.iter().find(of).map(|link| link.peer) {
            self.death(net, peer, reason);
        }
        // Nobody had to be told, or it has left before.
        if self.links.iter().any(|link| link.key == key) {
            net.conns.remove(key);
            self.closed(net, key, reason);
        }
    }

    /// This process was stopped for longer than the others wait.
    pub(crate) fn goes_on(&mut self) {
        self.went_on = Some(Instant::now());
    }

    /// Whether the others may have gone on without this rank, and not have had the means to say so: nobody
    /// had a connection to it that lived.
    fn may_be_left_out(&self, net: &Net) -> bool {
        let doubt = net.conns.beat * 6 + DOUBT;
        self.went_on.is_some_and(|since| since.elapsed() < doubt) && self.left_out.is_none()
    }

    /// All has been read that came while this process was stopped.
    pub(crate) fn believes(&mut self, net: &mut Net) {
        for left in std::mem::take(&mut self.unbelieved) {
            self.left(net, left, None);
        }
    }

    /// This rank takes itself for one that was left out, and says so to whoever hears it.
    fn gives_itself_up(&mut self, net: &mut Net, found: &str) {
        let why =
            format!("its process was stopped for more than three heartbeats, and then {found}");
        self.left(net, Left::dead(self.rank, why), None);
    }

    /// A rank is dead, as this one found out.
    pub(super) fn death(&mut self, net: &mut Net, rank: u32, reason: &str) {
        if self.may_be_left_out(net) {
            return self.gives_itself_up(net, &format!("rank {rank} was gone: {reason}"));
        }
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
        if self.left_out.is_some() || !left.adds_to(known) {
            return true;
        }
        if left.rank == self.rank {
            // Those who do not know yet: all are to take the same one for dead.
            for link in self.links.iter().filter(|link| Some(link.key) != from) {
                net.conns.send(link.key, &Message::Left(left.clone()));
            }
            self.taken_for_dead(net, &left.why);
            return true;
        }
        if left.died && from.is_some() && self.may_be_left_out(net) {
            if self.links.iter().any(|link| Some(link.key) == from && link.peer == left.rank) {
                let found =
                    format!("rank {} said that the others had gone on without it", left.rank);
                self.gives_itself_up(net, &found);
                return true;
            }
            // That this one was taken for dead too may come next.
            self.unbelieved.push(left);
            net.timers.set(Instant::now() + TICK, Timer::Believe(self.key));
            return true;
        }
        let merged = left.after(known);
        self.left.insert(left.rank, merged);
        if let Some(meeting) = self.meeting() {
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

    /// The others took this rank for dead, and live: it goes on with nobody, and says nothing of them.
    pub(super) fn taken_for_dead(&mut self, net: &mut Net, why: &str) {
        if self.left_out.is_some() {
            return;
        }
        let why = format!("they took its process for dead: {why}");
        if let Some(key) = self.dial.take().and_then(|dial| dial.key) {
            net.conns.remove(key);
        }
        for rank in self.probes.keys().copied().collect::<Vec<_>>() {
            self.cancel_probe(net, rank);
        }
        if let Some(meeting) = self.meeting() {
            meeting.leave_out(self.rank, &why);
        }
        net.after.extend(self.channels.left_out(&why).map(After::Call));
        self.left_out = Some(why);
    }
}

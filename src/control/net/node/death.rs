//! Departures and deaths: how a node learns of them, and whom it informs.

use std::time::{Duration, Instant};

use super::super::channels::Event;
use super::super::conns::Key;
use super::super::endpoint::{Deferred, Net, TICK, Timer};
use super::super::message::{Left, Message};
use super::standing::{News, Sign, Verdict};
use super::{Link, Lost, Node};
use crate::Rank;
use crate::error::last_call;

impl Node {
    /// A connection ended without a goodbye.
    pub(crate) fn handle_closed(&mut self, net: &mut Net, key: Key, reason: &str) {
        if self.bootstrap == Some(key) {
            self.bootstrap = None;
            if self.up.is_none() && self.failed.is_none() && self.standing.excluded().is_none() {
                if let Some(id) = self.id.take() {
                    net.local_nodes.remove(&(id, self.rank));
                }
                let since = net.now();
                self.lost.get_or_insert_with(|| Lost { since, reason: reason.to_owned() });
                if !self.gives_up_rendezvous(net) {
                    self.dial(net, None);
                }
            }
            return;
        }
        let Some(at) = self.links.iter().position(|link| link.key == key) else { return };
        let Link { peer, is_sure, has_parted, .. } = self.links.swap_remove(at);
        if has_parted {
            // It has read the goodbye, and everything before it.
            self.is_heard = true;
            self.informed.insert(peer);
            return;
        }
        self.judge(net, peer, &Sign::Lost { is_sure }, reason);
        if self.up == Some(key) {
            self.attach(net);
        }
    }

    /// A neighbour was silent for too long, so this rank takes it for dead. The neighbour may only
    /// have been stopped: report the verdict to it, on the connection that it reads when it
    /// resumes.
    pub(crate) fn handle_silence(&mut self, net: &mut Net, key: Key, reason: &str) {
        let of = |link: &&Link| link.key == key && link.is_sure;
        if let Some(peer) = self.links.iter().find(of).map(|link| link.peer) {
            self.judge(net, peer, &Sign::Lost { is_sure: true }, reason);
        }
        // Without a new verdict, the link is still there.
        if self.links.iter().any(|link| link.key == key) {
            net.conns.remove(key);
            self.handle_closed(net, key, reason);
        }
    }

    /// This process was stopped for longer than its peers wait.
    pub(crate) fn handle_resumed(&mut self, heartbeat: Duration, now: Instant) {
        self.standing.handle_resumed(heartbeat, now);
    }

    /// Everything that arrived during the stop has been read.
    pub(crate) fn confirm_deaths(&mut self, net: &mut Net) {
        for left in self.standing.take_held() {
            self.handle_departure(net, left, None);
        }
    }

    /// Acts on an observation; whether waiting for that rank is over.
    pub(super) fn judge(&mut self, net: &mut Net, rank: u32, sign: &Sign, reason: &str) -> bool {
        match self.standing.judge(rank, sign, reason, net.now()) {
            Verdict::Open => return false,
            Verdict::Awaited => {
                self.await_orphans(net);
                return false;
            }
            Verdict::Excluded(why) => self.announce_exclusion(net, &why, None),
            // It has ended in good order, and said goodbye to others.
            Verdict::Dead if self.has_finished(rank) && !matches!(sign, Sign::Lost { .. }) => {
                self.handle_goodbye(net, rank);
                self.await_orphans(net);
            }
            // It may have, too.
            Verdict::Dead if self.closing.is_some() => {
                self.standing.record(&Left::dead(rank, reason.to_owned()));
                self.links.retain(|link| link.peer != rank);
            }
            Verdict::Dead => {
                let why = self.why_dead(rank, reason);
                self.handle_departure(net, Left::dead(rank, why), None);
            }
        }
        true
    }

    fn why_dead(&self, rank: u32, reason: &str) -> String {
        let place = self.member_of(rank).map_or_else(String::new, |member| format!(" ({member})"));
        let why = format!("its process is gone{place}: {reason}");
        match self.ledger.last_of(rank) {
            Some(last) => last_call::with_host_side(&why, last.topic, last.site),
            None => why,
        }
    }

    /// Another communicator found that a process is dead.
    pub(crate) fn handle_process_death(&mut self, net: &mut Net, process: u64, why: &str) {
        let Some(table) = self.table.clone().filter(|_| self.member.process != process) else {
            return;
        };
        for (rank, member) in table.members.iter().enumerate() {
            let rank = Rank::at(rank).0;
            if member.process == process && rank != self.rank && !self.is_away(rank) {
                self.handle_departure(net, Left::dead(rank, why.to_owned()), None);
            }
        }
    }

    /// A rank has left; false if there is no such rank.
    pub(crate) fn handle_departure(
        &mut self,
        net: &mut Net,
        left: Left,
        from: Option<Key>,
    ) -> bool {
        if left.rank >= self.size {
            return false;
        }
        let peer = |key| self.links.iter().find(|link| link.key == key).map(|link| link.peer);
        // At the rendezvous, rank 0 speaks for all ranks.
        let by = from.map(|key| peer(key).unwrap_or(0));
        match self.standing.handle_report(left, by, net.now()) {
            News::Known => {}
            News::New(left) => self.apply_departure(net, &left, from),
            News::Excluded(why) => self.announce_exclusion(net, &why, from),
            News::Held => net.timers.set(net.now() + TICK, Timer::Confirm(self.key)),
        }
        true
    }

    /// Applies news of a departure and forwards it.
    fn apply_departure(&mut self, net: &mut Net, left: &Left, from: Option<Key>) {
        if let Some(meeting) = self.meeting() {
            meeting.record_departure(left);
        }
        // Contributions must precede the news that their rank left.
        for link in self.links.iter_mut().filter(|link| Some(link.key) != from) {
            link.flush(net);
            net.conns.send(link.key, &Message::Left(left.clone()));
        }
        if left.gone {
            self.handle_gone(net, left);
        } else if left.stopped {
            self.report(net, &Event::Stopped(left.rank, left.why.clone()));
            net.deferred.push_back(Deferred::Departed { node: self.key, left: left.clone() });
        }
    }

    /// The others took this rank for dead. Announce it to all neighbours, so that every rank agrees
    /// on which one is lost.
    fn announce_exclusion(&mut self, net: &mut Net, why: &str, from: Option<Key>) {
        let left = Left::dead(self.rank, why.to_owned());
        self.pass_on(net, &Message::Left(left), from);
        self.exclude(net, why);
    }

    fn handle_gone(&mut self, net: &mut Net, left: &Left) {
        self.report(net, &Event::Died(left.clone()));
        self.await_orphans(net);
        if left.died {
            if let Some(at) = self.links.iter().position(|link| link.peer == left.rank) {
                let key = self.links.swap_remove(at).key;
                net.conns.end(key);
                if self.up == Some(key) {
                    self.attach(net);
                }
            }
            if let Some(process) = self.member_of(left.rank).map(|member| member.process) {
                net.deferred.push_back(Deferred::ProcessDied { process, why: left.why.clone() });
            }
        }
        net.deferred.push_back(Deferred::Departed { node: self.key, left: left.clone() });
        if self.dial.as_ref().is_some_and(|dial| dial.to == Some(left.rank)) {
            self.attach(net);
        }
    }

    /// The others took this rank for dead, and continue without it. Its own observations of them no
    /// longer count.
    pub(super) fn exclude(&mut self, net: &mut Net, why: &str) {
        let Some(why) = self.standing.exclude(why).map(str::to_owned) else { return };
        self.stop_calling(net);
        if let Some(meeting) = self.meeting() {
            meeting.exclude(self.rank, &why);
        }
        self.report(net, &Event::LeftOut(why));
    }
}

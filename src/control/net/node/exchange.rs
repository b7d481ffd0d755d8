//! Contributions to exchanges: each travels to all neighbours, in as few frames as possible.

use std::sync::Arc;
use std::time::Duration;

use super::super::conns::Key;
use super::super::endpoint::{Net, Timer};
use super::super::ledger::{Contribution, Run, merge};
use super::super::message::{Contributions, Message};
use super::Node;
use crate::control::Topic;
use crate::error::Site;

/// How long contributions to an incomplete exchange wait for others on their way up. The wait
/// doubles each time, so that a late rank costs its peers only a few messages.
const HOLD: Duration = Duration::from_millis(2);
const LONGEST_HOLD: Duration = Duration::from_millis(16);

/// The wait on the way down, where incomplete exchanges only tell who is late. Without it, every
/// rank would hear of every other one separately.
const HOLD_DOWN: Duration = Duration::from_millis(32);

/// The most bytes of contributions in a frame, unless one contribution is longer.
const FRAME: usize = 1 << 20;

pub(super) struct Link {
    pub(super) key: Key,
    pub(super) peer: u32,
    /// Contributions to be sent to the neighbour.
    pub(super) pending: Vec<Run>,
    /// The neighbour has sent something, so it knows of the connection.
    pub(super) is_sure: bool,
    /// This rank has said goodbye on it.
    pub(super) has_parted: bool,
}

/// The timer for contributions to an incomplete exchange.
pub(super) struct Hold {
    is_set: bool,
    next: Duration,
    /// Time since contributions were last sent down.
    down: Duration,
}

impl Default for Hold {
    fn default() -> Self {
        Self { is_set: false, next: HOLD, down: Duration::ZERO }
    }
}

impl Node {
    pub(super) fn handle_parts(
        &mut self,
        net: &mut Net,
        key: Key,
        seq: u64,
        (topic, site): (Topic, Site),
        parts: Vec<Contributions<'_>>,
    ) -> bool {
        let mut news = Vec::new();
        for Contributions { first, last, bytes } in parts {
            let contribution = Arc::new(Contribution { topic, site, bytes: bytes.into() });
            match self.ledger.add(&Run { seq, first, last, contribution }) {
                Ok(new) => news.extend(new),
                Err(_) => return false,
            }
        }
        if let Some(meeting) = self.meeting() {
            meeting.insert_runs(seq, &news);
        }
        self.forward(net, news, Some(key));
        true
    }

    /// Adds this rank's contribution to an exchange.
    pub(crate) fn post(&mut self, net: &mut Net, seq: u64, contribution: Arc<Contribution>) {
        let (first, last) = (self.rank, self.rank);
        match self.ledger.add(&Run { seq, first, last, contribution }) {
            Ok(new) => self.forward(net, new, None),
            Err(_) => log::error!("rank {} is too far ahead of the others", self.rank),
        }
    }

    fn forward(&mut self, net: &mut Net, new: Vec<Run>, from: Option<Key>) {
        let Some(seq) = new.first().map(|run| run.seq) else { return };
        for link in self.links.iter_mut().filter(|link| Some(link.key) != from) {
            link.pending.extend(new.iter().cloned());
        }
        // Ranks that disagree are told at once.
        let all = self.ledger.is_complete(seq) || self.ledger.differs(seq);
        if all || self.ledger.is_complete_below(seq) {
            let is_due = |link: &&mut Link| all || Some(link.key) == self.up;
            self.links.iter_mut().filter(is_due).for_each(|link| link.flush(net));
        }
        if all {
            self.hold = Hold { is_set: self.hold.is_set, ..Hold::default() };
        }
        self.schedule_flush(net);
    }

    fn schedule_flush(&mut self, net: &mut Net) {
        let is_pending = self.links.iter().any(|link| !link.pending.is_empty());
        if is_pending && !std::mem::replace(&mut self.hold.is_set, true) {
            net.timers.set(net.now() + self.hold.next, Timer::Flush(self.key));
        }
    }

    /// The timer has expired: sends the contributions that waited.
    pub(crate) fn flush(&mut self, net: &mut Net) {
        let down = self.hold.down + self.hold.next;
        let all = down >= HOLD_DOWN;
        let is_due = |link: &&mut Link| all || Some(link.key) == self.up;
        self.links.iter_mut().filter(is_due).for_each(|link| link.flush(net));
        let next = (self.hold.next * 2).min(LONGEST_HOLD);
        let down = if all { Duration::ZERO } else { down };
        self.hold = Hold { is_set: false, next, down };
        self.schedule_flush(net);
    }
}

impl Link {
    /// Says goodbye, after everything else.
    pub(super) fn part(&mut self, net: &mut Net, all_finished: bool) {
        self.flush(net);
        net.conns.send(self.key, &Message::Bye { all_finished });
        self.has_parted = true;
    }

    pub(super) fn flush(&mut self, net: &mut Net) {
        merge(&mut self.pending);
        let is_one = |a: &Run, b: &Run| {
            (a.seq, a.contribution.topic, a.contribution.site)
                == (b.seq, b.contribution.topic, b.contribution.site)
        };
        for runs in self.pending.chunk_by(is_one) {
            let Some(Run { seq, contribution, .. }) = runs.first() else { continue };
            let Contribution { topic, site, .. } = **contribution;
            let mut rest = runs;
            while !rest.is_empty() {
                let mut length = 0;
                let fits = |run: &&Run| {
                    length += run.contribution.bytes.len();
                    length <= FRAME
                };
                let count = rest.iter().take_while(fits).count().max(1);
                let (now, later) = rest.split_at(count);
                let part = |run| {
                    let Run { first, last, contribution, .. }: &Run = run;
                    Contributions { first: *first, last: *last, bytes: &contribution.bytes }
                };
                let parts = now.iter().map(part).collect();
                net.conns.send(self.key, &Message::Parts { seq: *seq, topic, site, parts });
                rest = later;
            }
        }
        self.pending.clear();
    }
}

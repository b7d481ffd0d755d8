//! Parts of exchanges: what is new goes on to the neighbours, as few frames as may be.

use std::sync::Arc;
use std::time::Duration;

use super::super::conns::Key;
use super::super::endpoint::{Net, Timer};
use super::super::ledger::{Contribution, Run, merge};
use super::super::message::{Contributions, Message};
use super::Node;
use crate::control::Topic;
use crate::error::Site;

/// How long parts of an incomplete exchange wait for more of them on their way up: each time twice
/// as long as before, so a rank that is late costs the others a few messages, however long it
/// takes.
const HOLD: Duration = Duration::from_millis(2);
const LONGEST_HOLD: Duration = Duration::from_millis(16);

/// How long they wait on their way down, where they say only who is late: if they went at once,
/// each rank would hear of every other one by itself.
const HOLD_DOWN: Duration = Duration::from_millis(32);

/// How much goes into one frame of parts, unless one part is longer.
const FRAME: usize = 1 << 20;

/// A neighbour in the tree.
pub(super) struct Link {
    pub(super) key: Key,
    pub(super) peer: u32,
    /// What it is still to be told.
    pub(super) pending: Vec<Run>,
    /// The other side knows that it stands.
    pub(super) is_sure: bool,
}

/// When parts of an incomplete exchange are passed on.
pub(super) struct Hold {
    is_set: bool,
    next: Duration,
    /// For how long nothing has gone down.
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

    /// This rank's part of an exchange.
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
        // Ranks that do not agree are told at once.
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

    /// What waited for more has waited long enough.
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

//! The control plane: small host-side messages between the ranks of one communicator.
//!
//! It carries what NCCL cannot: who is missing, why a rank left, host values. It outlives
//! bootstrap. Exchanges are counted, so ranks that make different host-side calls get an error.
//! Ranks of one process meet in memory, others over the network; rank 0 is not special.

mod agenda;
mod bounded;
mod gathering;
mod invitation;
mod left;
mod meeting;
mod net;
mod replica;
mod runs;
mod survivors;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub(crate) use crate::rate_limited::RateLimited;
pub(crate) use agenda::{Agenda, Request, Submission};
pub(crate) use bounded::{MOST_PARTS, is_bounded};
pub use invitation::Invitation;
use invitation::Invited;
pub(crate) use invitation::bad as bad_invitation;
pub(crate) use left::Leaves;
pub(crate) use meeting::Exchange;
pub(crate) use meeting::Meeting;
use net::MOST_BYTES;
pub use net::UniqueId;
#[cfg(any(test, feature = "models"))]
pub use net::{Lived, Simulated, Thrown, nodes, simulate, throw};
pub(crate) use net::{file, host, job, process, tcp, with_id};
pub(crate) use survivors::Decision;

use crate::backend::{Watcher, Wire};
use crate::error::{Error, Excluded, Ranks, Site, Timeout, reported};
use crate::health::{self, Health, Limit};
use crate::rank::Generation;
use crate::wait::Noted;
use crate::{Rank, Result, trace};

use left::Left;
use survivors::Arrival;

/// One rank's end of the control plane.
pub(crate) struct Control {
    meeting: Arc<Meeting>,
    rank: u32,
    seq: Cell<u64>,
    /// The number of exchanges of the predecessors, over which numbering continues.
    base: u64,
    /// The invitations that the ranks agreed on.
    invited: RefCell<Vec<Invited>>,
    /// How often this rank has gathered with these members.
    gathered: RefCell<BTreeMap<Vec<u32>, u64>>,
    generation: Generation,
}

/// The number of exchanges that each rank has contributed to; callable from any thread.
pub(crate) struct Posted {
    meeting: Weak<Meeting>,
    rank: u32,
}

impl health::Posted for Posted {
    fn own(&self) -> u64 {
        self.of(Rank(self.rank))
    }

    fn of(&self, rank: Rank) -> u64 {
        self.meeting.upgrade().map_or(0, |meeting| meeting.posted(rank.0))
    }
}

/// An exchange that this rank has contributed to.
#[derive(Clone, Copy)]
pub(crate) struct Ticket(pub(in crate::control) u64);

/// A rank's access to a meeting, with the generation of its communicator.
pub(crate) struct Attendee {
    pub(crate) meeting: Arc<Meeting>,
    pub(crate) rank: usize,
    pub(crate) generation: Generation,
}

/// The purpose of an exchange, which all ranks must agree on.
pub(crate) type Topic = &'static str;

/// The topic of a communicator's last exchange.
pub(crate) const FINISH: Topic = "finish";

/// The exchange number under which survivors agree and meet; real exchanges do not reach it.
const SURVIVORS: u64 = u64::MAX - 1;

/// Why a rank that was stopped excludes itself if it finds no other survivor: the others may have
/// agreed without it, and continuing alone would split the communicator.
const STOPPED: &str = "its process was stopped for more than three heartbeats, and no other rank came to agree on the survivors since";

/// The pause between two checks while waiting for survivors.
const REST: Duration = Duration::from_millis(5);

/// How long after its deadline a wait looks once more.
const READS: Duration = Duration::from_millis(20);

/// How long to wait, and what else ends the wait.
pub(crate) struct Patience<'a> {
    pub(crate) health: &'a Health,
    /// A communicator whose fault also ends the wait.
    pub(crate) parent: Option<&'a Health>,
    pub(crate) limit: Limit,
    pub(crate) operation: Topic,
    pub(crate) site: Site,
    /// Fail once a rank has left, even if it had contributed.
    pub(crate) needs_all: bool,
    /// Called once if the wait is a long one.
    pub(crate) watch: &'a dyn Fn(&Exchange) -> Option<Watcher>,
}

impl<'a> Patience<'a> {
    /// A wait that goes on if ranks leave that have contributed, and that nothing watches.
    pub(crate) fn new(health: &'a Health, limit: Limit, operation: Topic, site: Site) -> Self {
        let (parent, needs_all) = (None, false);
        Self { health, parent, limit, operation, site, needs_all, watch: &|_| None }
    }

    /// Fails if one of the communicators has.
    fn check(&self) -> Result<()> {
        self.health.check()?;
        self.parent.map_or(Ok(()), Health::check)
    }

    /// The error for a wait that has reached the limit.
    pub(crate) fn timeout(&self, waited: Duration, report: String) -> Error {
        let (operation, site, deadline) = (self.operation, self.site, self.limit.of);
        Timeout { operation, site, waited, deadline, report }.into()
    }
}

impl Control {
    pub(crate) fn new(meeting: Arc<Meeting>, rank: u32) -> Self {
        let generation = Generation::default();
        let (invited, gathered) = Default::default();
        Self { meeting, rank, seq: Cell::new(0), base: 0, generation, invited, gathered }
    }

    /// The generation of this communicator's ranks: the same on all of them, since they came here
    /// by the same steps.
    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn numbered(self, generation: Generation) -> Self {
        let mut numbered = self;
        numbered.generation = generation;
        numbered
    }

    /// The exchange's number: the same on all ranks, and unique over a chain of successors.
    pub(crate) fn number(&self, ticket: Ticket) -> u64 {
        self.base + ticket.0
    }

    /// Continues the numbering of a predecessor that had this many exchanges.
    pub(crate) fn go_on_from(&mut self, exchanges: u64) {
        self.base = exchanges;
    }

    /// Contributes to the next exchange, without waiting.
    pub(crate) fn post(&self, topic: Topic, site: Site, bytes: Vec<u8>) -> Ticket {
        let seq = self.seq.replace(self.seq.get() + 1);
        self.meeting.post(self.rank, seq, topic, site, bytes);
        Ticket(seq)
    }

    /// All contributions, if the exchange is complete.
    pub(crate) fn try_collect(&self, ticket: Ticket, health: &Health) -> Result<Option<Parts>> {
        self.meeting.try_collect(self.rank, ticket.0, health.name())
    }

    /// All contributions, if the exchange is complete; fails when `waited` reaches the limit.
    pub(crate) fn poll(
        &self,
        ticket: Ticket,
        waited: Duration,
        patience: &Patience<'_>,
    ) -> Result<Option<Parts>> {
        let Patience { health, operation, needs_all, .. } = *patience;
        // A complete exchange succeeds, whatever has happened since.
        match self.try_collect(ticket, health) {
            Ok(Some(parts)) => return Ok(Some(parts)),
            Err(error) if !error.is_peer_failure() => return Err(error),
            // Prefer the first cause: ranks that left because of it are not lost.
            unfinished => {
                if let Err(cause) = patience.check() {
                    // A rank may complete the exchange and leave at once.
                    let parts = self.try_collect(ticket, health).ok().flatten();
                    if parts.is_some() || !health.is_complete(self.number(ticket)) {
                        return parts.ok_or(cause).map(Some);
                    }
                }
                unfinished.map_err(reported)?;
            }
        }
        if needs_all {
            self.all_here(health, operation)?;
        }
        if waited < patience.limit.time {
            return Ok(None);
        }
        if self.is_remote() {
            // What came while this process was stopped is about to be read.
            std::thread::sleep(READS);
            if let Ok(Some(parts)) = self.try_collect(ticket, health) {
                return Ok(Some(parts));
            }
        }
        Err(reported(self.meeting.timeout(ticket.0, waited, patience)))
    }

    /// Waits for all contributions.
    pub(crate) fn collect(&self, ticket: Ticket, patience: &Patience<'_>) -> Result<Parts> {
        let _span = trace::wait(Some(patience.health), patience.operation, patience.site);
        let started = Instant::now();
        let mut noted = Noted::default();
        loop {
            let waited = started.elapsed();
            if let Some(parts) = self.poll(ticket, waited, patience)? {
                return Ok(parts);
            }
            let left = patience.limit.time.saturating_sub(waited);
            self.meeting.wait(self.rank, ticket.0, waited, left);
            patience.health.watch_who_is_late();
            noted.rest(|| (patience.watch)(&self.meeting.exchange(self.rank, ticket.0)));
        }
    }

    /// Access to the child of `members`, which gave one colour in exchange `ticket`, as its `rank`.
    pub(crate) fn child(
        &self,
        ticket: Ticket,
        color: u32,
        rank: usize,
        members: &[u32],
    ) -> Attendee {
        let meeting = self.meeting.child(ticket.0, color, rank, members);
        Attendee { meeting, rank, generation: self.generation }
    }

    /// Access to the meeting of `members`, for which each of them asks equally often, and no other
    /// rank. Over a network it waits until all members have asked, since a rank that a connection
    /// does not reach counts as dead; in memory the meeting itself waits.
    pub(crate) fn gather(&self, members: &[u32], patience: &Patience<'_>) -> Result<Attendee> {
        let mut gathered = self.gathered.borrow_mut();
        let count = gathered.entry(members.to_vec()).or_default();
        let (seq, color) = gathering::key(members, *count);
        *count += 1;
        drop(gathered);
        if let Some(uplink) = self.meeting.uplink() {
            gathering::wait(&uplink.line(seq), self.rank, members, patience)?;
        }
        let rank = members.binary_search(&self.rank).unwrap_or_default();
        let meeting = self.meeting.child(seq, color, rank, members);
        Ok(Attendee { meeting, rank, generation: self.generation })
    }

    /// State that the participants of exchange `ticket` share from then on, or a value that they
    /// all derive from its contributions. Each rank asks once. In shared memory one rank makes it
    /// for all; over a network each makes its own, with a wire to the others.
    pub(crate) fn shared<T: Any + Send + Sync>(
        &self,
        ticket: Ticket,
        make: impl Fn(Option<Arc<dyn Wire>>) -> T,
    ) -> Arc<T> {
        match self.meeting.uplink() {
            Some(uplink) => Arc::new(make(Some(uplink.line(ticket.0)))),
            None => self.meeting.shared(ticket.0, || make(None)),
        }
    }

    /// Takes this rank's turn in the next exchange with a mismatching topic, so that the other
    /// ranks get an error.
    pub(crate) fn refuse(&self, what: Topic, site: Site) {
        let seq = self.seq.replace(self.seq.get() + 1);
        self.meeting.post(self.rank, seq, what, site, Vec::new());
        self.meeting.give_up(self.rank, seq);
    }

    /// Fails if a rank has left, even if it had contributed.
    pub(crate) fn all_here(&self, health: &Health, during: Topic) -> Result<()> {
        self.meeting.none_left(self.rank, (health.name(), during), Left::is_out)
    }

    /// Fails if a rank has died, or may have left before it was ready.
    pub(crate) fn all_connect(&self, health: &Health, during: Topic) -> Result<()> {
        self.meeting.none_left(self.rank, (health.name(), during), Left::keeps_from_ready)
    }

    /// The error for ranks that dropped their communicators, after the last exchange.
    pub(crate) fn dropped(&self, health: &Health, during: Topic) -> Option<Error> {
        self.meeting.dropped(health.name(), during)
    }

    pub(crate) fn posted(&self) -> Posted {
        Posted { meeting: Arc::downgrade(&self.meeting), rank: self.rank }
    }

    /// Tells the others that this rank is gone.
    pub(crate) fn depart(&self, why: &str) {
        self.meeting.leave(self.rank, why, Leaves::Gone);
    }

    /// Tells the others that this rank leaves, and how; callable from any thread.
    pub(crate) fn leaver(&self, how: Leaves) -> impl Fn(&str) + Send + Sync + 'static {
        let (meeting, rank) = (self.meeting.clone(), self.rank);
        move |why| meeting.leave(rank, why, how)
    }

    /// Agrees with the other survivors on who continues. Waits until all living ranks have arrived
    /// or the limit has passed. `without` are ranks to leave out, which learn `why`. `divides`: the
    /// communicator is healthy and its backend can divide it.
    pub(crate) fn survive(
        &self,
        without: &[u32],
        why: &str,
        divides: bool,
        patience: &Patience<'_>,
    ) -> Result<Decision> {
        let Patience { health, limit: Limit { time: limit, .. }, operation, site, .. } = *patience;
        let _span = trace::wait(Some(health), operation, site);
        let survivors = self.meeting.survivors(self.rank);
        if !survivors.catches_up(limit, || health.wants_an_end())? {
            let report =
                "this process has not read yet what the other ranks have sent; call it again";
            return Err(patience.timeout(limit, report.into()));
        }
        let next = self.base + self.seq.get();
        let context = format!(" in `{operation}` (at {site}){why}");
        let arrival = Arrival { next, without: without.to_vec(), divides, context };
        survivors.arrive(self.rank, arrival);
        let (started, mut last_sent) = (Instant::now(), Instant::now());
        let (mut is_late, mut gave_up) = (false, false);
        loop {
            // An excluded rank has no one to agree with, whatever it observes.
            if let Some(mut error) = self.meeting.broken(health.name()) {
                if let Error::Excluded(excluded) = &mut error {
                    excluded.site = Some(site);
                }
                return Err(error);
            }
            match survivors.outcome(self.rank) {
                Some(Ok(decision)) => return Ok(decision),
                Some(Err(why)) => {
                    let (name, rank, site) = (health.name(), Rank(self.rank), Some(site));
                    return Err(Error::Excluded(Box::new(Excluded { name, rank, why, site })));
                }
                None => {}
            }
            health.wants_an_end()?;
            let waited = started.elapsed();
            // What came while this process was stopped is about to be read.
            if waited >= limit && !std::mem::replace(&mut is_late, true) {
                survivors.wait(READS);
                continue;
            }
            if waited >= limit && !std::mem::replace(&mut gave_up, true) {
                if survivors.is_alone(self.rank) && self.was_stopped_within(limit * 3) {
                    self.meeting.exclude(self.rank, STOPPED);
                    continue;
                }
                survivors.give_up(&format!("it did not come to `{operation}` within {limit:?}"));
            } else if waited >= limit.saturating_mul(2) {
                let missing: Vec<_> = survivors.missing().into_iter().map(Rank).collect();
                let report =
                    format!("the survivors do not agree; {} did not come", Ranks(&missing));
                return Err(reported(patience.timeout(waited, report)));
            }
            if last_sent.elapsed() >= survivors.repeat_interval() {
                last_sent = Instant::now();
                survivors.repeat();
            }
            survivors.wait(REST);
        }
    }

    /// Whether this process resumed recently after a stop of more than three heartbeats.
    fn was_stopped_within(&self, recently: Duration) -> bool {
        let resumed_at = self.meeting.uplink().and_then(net::Uplink::resumed_at);
        resumed_at.is_some_and(|at| at.elapsed() < recently)
    }

    /// Access to the survivors' communicator.
    pub(crate) fn successor(&self, decision: &Decision) -> Attendee {
        let rank = decision.members.binary_search(&self.rank).unwrap_or_default();
        let meeting = self.meeting.child(SURVIVORS, 0, rank, &decision.members);
        Attendee { meeting, rank, generation: self.generation.next() }
    }

    pub(crate) fn size(&self) -> usize {
        self.meeting.size() as usize
    }

    /// Whether the ranks meet over the network.
    pub(crate) fn is_remote(&self) -> bool {
        self.meeting.uplink().is_some()
    }

    /// The longest contribution to an exchange.
    pub(crate) fn most_bytes(&self) -> usize {
        if self.is_remote() { MOST_BYTES } else { usize::MAX }
    }

    /// The wire for the backend's messages; `None` if all ranks share memory.
    pub(crate) fn wire(&self) -> Option<Arc<dyn Wire>> {
        self.meeting.uplink().map(|uplink| uplink.wire())
    }

    /// Unique to this communicator, and the same on all its ranks.
    pub(crate) fn id(&self) -> u64 {
        self.meeting.id()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.meeting.end(self.rank);
    }
}

/// Logs that a rank sent what none sends.
fn warn_of_malformed(from: Rank, about: &str) {
    static MALFORMED: RateLimited = RateLimited::new();
    MALFORMED.warn(format_args!("rank {from} sent a malformed message about {about}"));
}

/// All contributions to an exchange, by rank.
pub(crate) type Parts = Arc<[Arc<[u8]>]>;

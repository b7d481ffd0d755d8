//! The rendezvous: ranks report their location, and learn their ancestors in the tree once those
//! have arrived. When all have arrived, rank 0 gets the member table.
//!
//! A rank disconnects once it is attached to the tree, so few connections are open at a time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::address;
use super::conns::{Conns, Key};
use super::hub::NodeKey;
use super::ident::CommId;
use super::job::Job;
use super::ledger::{children, parent};
use super::message::{
    Failure, Hello, Left, MOST_ADDRESSES, MOST_RANKS, MOST_TEXT, Member, Message, Table,
};
use super::proof::{Proof, Secret};

/// The most ranks that wait on an open connection; the others come again.
const MOST_WAITING: usize = 8192;

/// When they come again, in milliseconds.
const LATER: u32 = 100;

/// The most missing ranks that are named.
const MISSING: usize = 16;

/// How long a failed rendezvous tells latecomers.
const LINGER: Duration = Duration::from_secs(5);

/// How long one that no rank of this process owns does: of a [`UniqueId`](super::unique::UniqueId).
const UNOWNED: Duration = Duration::from_secs(60);

/// How long a complete rendezvous watches for surplus ranks, if two jobs may have one name.
const HELD: Duration = Duration::from_secs(2);

pub(super) struct Rendezvous {
    pub(super) id: CommId,
    pub(super) secret: Secret,
    /// Rank 0's node, which this ends with; `None` for a rendezvous that ends by itself.
    pub(super) owner: Option<NodeKey>,
    /// The launcher's job, if it named one.
    pub(super) launched: Option<Job>,
    /// The communicator that is formed here.
    comm: CommId,
    /// The communicator's size, and the rank that reported it first.
    size: Option<(u32, u32)>,
    job: String,
    arrived: BTreeMap<u32, Arrived>,
    /// The open connections.
    guests: BTreeMap<Key, u32>,
    left: Vec<Left>,
    /// Departures that this process's nodes have not learned yet.
    unreported: Vec<Left>,
    failed: Option<Failure>,
    failed_at: Option<Instant>,
    /// The owner or the process has ended.
    is_ended: bool,
    linked: u32,
    /// When every rank was attached.
    completed_at: Option<Instant>,
    /// The last reported number of missing ranks.
    reported_missing: Option<usize>,
}

struct Arrived {
    seat: u64,
    member: Member,
    conn: Option<Key>,
    is_welcome: bool,
    is_linked: bool,
}

impl Rendezvous {
    pub(super) fn new(
        id: CommId,
        comm: CommId,
        secret: Secret,
        (owner, launched): (Option<NodeKey>, Option<Job>),
    ) -> Self {
        Self {
            id,
            secret,
            owner,
            launched,
            comm,
            size: None,
            job: String::new(),
            arrived: BTreeMap::new(),
            guests: BTreeMap::new(),
            left: Vec::new(),
            unreported: Vec::new(),
            failed: None,
            failed_at: None,
            is_ended: false,
            linked: 0,
            completed_at: None,
            reported_missing: None,
        }
    }

    /// Whether it can be removed: every rank is attached, or has had time to learn of the failure.
    pub(super) fn is_finished(&self, now: Instant) -> bool {
        let is_past = |since: Option<Instant>, stays| since.is_some_and(|it| now - it >= stays);
        match self.failed {
            None if self.is_ended => true,
            None if self.may_be_mixed() => is_past(self.completed_at, HELD),
            None => self.completed_at.is_some(),
            Some(_) if self.is_ended => is_past(self.failed_at, LINGER),
            // Nothing else ends it.
            Some(_) => self.owner.is_none() && is_past(self.failed_at, UNOWNED),
        }
    }

    fn may_be_mixed(&self) -> bool {
        self.launched.as_ref().is_some_and(|job| !job.is_unique)
    }

    /// If ranks of two jobs met: rank 0's node, and the failure for its communicator.
    pub(super) fn mixed_failure(&self) -> Option<(NodeKey, Failure)> {
        self.completed_at.and(self.owner).zip(self.failed.clone())
    }

    /// The owner has ended. Without a failure, there is nothing to tell latecomers.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
    }

    /// Handles a rank's arrival; false if the message is malformed.
    pub(super) fn handle_hello(&mut self, conns: &mut Conns, key: Key, hello: Hello<'_>) -> bool {
        if !is_sane(&hello) || self.guests.contains_key(&key) {
            return false;
        }
        if let Some(refusal) = self.belongs_elsewhere(&hello) {
            conns.send(key, &Message::Fail(refusal));
            return true;
        }
        self.check_agreement(conns, &hello);
        let rank = hello.rank;
        if !self.seat(conns, key, hello) {
            conns.send(key, &Message::Later(LATER));
            return true;
        }
        if let Some(failure) = &mut self.failed {
            if failure.size == 0 {
                // It failed before any rank had reported a size.
                failure.size = self.size.map_or(0, |(size, _)| size);
            }
            conns.send(key, &Message::Fail(failure.clone()));
            return true;
        }
        for left in &self.left {
            conns.send(key, &Message::Left(left.clone()));
        }
        self.welcome(conns, rank);
        self.complete(conns);
        true
    }

    /// The refusal for a rank of another job, which does not fail this one.
    fn belongs_elsewhere(&self, hello: &Hello<'_>) -> Option<Failure> {
        let &Hello { rank, size, .. } = hello;
        if is_other_job(&self.job, &hello.job) {
            let why = format!(
                "came to the place of another job, {}: give each job an address of its own",
                self.job
            );
            return Some(Failure { size, ranks: vec![rank], why });
        }
        // The ranks of a complete communicator agreed on the size, so the newcomer is foreign.
        let (expected, by) = self.size.filter(|(expected, _)| *expected != size)?;
        self.completed_at?;
        let why = disagree(expected, size);
        Some(Failure { size: expected, ranks: vec![by, rank], why })
    }

    /// Compares what all ranks must have in common with the first rank's values.
    fn check_agreement(&mut self, conns: &mut Conns, hello: &Hello<'_>) {
        let Hello { rank, size, job, .. } = hello;
        if self.job.is_empty() {
            self.job = job.clone().into_owned();
        }
        let (expected, by) = *self.size.get_or_insert((*size, *rank));
        if expected != *size {
            self.fail(conns, vec![by, *rank], disagree(expected, *size));
        }
    }

    /// Records a rank. False if it comes for the next communicator at this address, because this
    /// rendezvous is complete.
    fn seat(&mut self, conns: &mut Conns, key: Key, hello: Hello<'_>) -> bool {
        let Hello { rank, seat, mut member, .. } = hello;
        let all_here = self.size.is_some_and(|(size, _)| self.arrived.len() == size as usize);
        match self.arrived.get_mut(&rank) {
            Some(arrived) if arrived.seat == seat => {
                if let Some(old) = arrived.conn.replace(key) {
                    self.guests.remove(&old);
                }
                self.guests.insert(key, rank);
            }
            Some(arrived) if all_here && arrived.member.process == member.process => return false,
            Some(arrived) => {
                let why = format!("was taken twice: by {} and by {member}", arrived.member);
                let why = match &self.launched {
                    Some(job) => job.mixed(&why),
                    None => why,
                };
                self.fail(conns, vec![rank], why);
            }
            None => {
                seen_from_here(conns, key, &mut member);
                let (conn, is_welcome, is_linked) = (Some(key), false, false);
                self.arrived.insert(rank, Arrived { seat, member, conn, is_welcome, is_linked });
                self.guests.insert(key, rank);
            }
        }
        true
    }

    /// Welcomes a rank whose ancestors have all arrived, and the descendants that waited for it.
    fn welcome(&mut self, conns: &mut Conns, rank: u32) {
        let mut next = vec![rank];
        while let Some(rank) = next.pop() {
            let above = std::iter::successors(parent(rank), |rank| parent(*rank));
            let ancestors: Option<Vec<Member>> =
                above.map(|rank| Some(self.arrived.get(&rank)?.member.clone())).collect();
            let Some(ancestors) = ancestors else {
                self.defer(conns, rank);
                continue;
            };
            let Some(arrived) = self.arrived.get_mut(&rank) else { continue };
            let is_first = !std::mem::replace(&mut arrived.is_welcome, true);
            match arrived.conn {
                Some(key) if !arrived.is_linked => {
                    conns.send(key, &Message::Welcome { id: self.comm, ancestors });
                }
                _ => {}
            }
            if is_first {
                let size = self.size.map_or(0, |(size, _)| size);
                next.extend(children(rank, size));
            }
        }
    }

    /// Has a rank come again if too many wait.
    fn defer(&mut self, conns: &mut Conns, rank: u32) {
        if self.guests.len() <= MOST_WAITING {
            return;
        }
        if let Some(arrived) = self.arrived.get_mut(&rank)
            && let Some(key) = arrived.conn.take()
        {
            self.guests.remove(&key);
            conns.send(key, &Message::Later(LATER));
        }
    }

    /// Sends rank 0 the table if every rank has arrived.
    fn complete(&mut self, conns: &mut Conns) {
        let Some((size, _)) = self.size else { return };
        let root = self.arrived.get(&0).filter(|root| !root.is_linked).and_then(|root| root.conn);
        if let Some(root) = root
            && self.arrived.len() == size as usize
        {
            let table =
                Table::new(self.arrived.values().map(|arrived| arrived.member.clone()).collect());
            conns.send(root, &Message::Table(&table.bytes));
        }
    }

    /// A rank is attached to the tree.
    pub(super) fn handle_linked(&mut self, conns: &mut Conns, key: Key) {
        if let Some((_, arrived)) = self.release(key)
            && !std::mem::replace(&mut arrived.is_linked, true)
        {
            self.linked += 1;
        }
        if self.size.is_some_and(|(size, _)| self.linked == size) {
            self.completed_at.get_or_insert(conns.now);
        }
        conns.end(key);
    }

    /// The connection of a rank ended before it was attached.
    pub(super) fn handle_closed(&mut self, conns: &mut Conns, key: Key, reason: &str) {
        let Some((rank, arrived)) = self.release(key) else { return };
        let why = format!("its process is gone ({}): {reason}", arrived.member);
        self.record_departure(conns, Left::dead(rank, why));
    }

    /// The communicator, and its departures since the last call.
    pub(super) fn take_departures(&mut self) -> (CommId, Vec<Left>) {
        (self.comm, std::mem::take(&mut self.unreported))
    }

    /// Why the ranks never met, if they cannot.
    pub(super) fn never_met(&self) -> Option<Failure> {
        self.failed.clone().filter(|_| self.completed_at.is_none())
    }

    /// A rank reports a departure: its own, or one that it knows of.
    pub(super) fn handle_departure(&mut self, conns: &mut Conns, key: Key, left: Left) {
        if self.guests.contains_key(&key) && self.size.is_some_and(|(size, _)| left.rank < size) {
            self.record_departure(conns, left);
        }
    }

    /// A rank left in good order.
    pub(super) fn handle_bye(&mut self, conns: &mut Conns, key: Key) {
        if let Some((rank, _)) = self.release(key) {
            let why = "it left before the ranks had met".to_owned();
            self.record_departure(conns, Left::ended(rank, why, 0));
        }
        conns.end(key);
    }

    /// Rank 0 ends. Ranks that are not attached yet learn the departures here, since they would
    /// otherwise take rank 0 for the first one lost.
    pub(super) fn record_departures<'l>(
        &mut self,
        conns: &mut Conns,
        lefts: impl Iterator<Item = &'l Left>,
    ) {
        lefts.for_each(|left| self.record_departure(conns, left.clone()));
    }

    fn record_departure(&mut self, conns: &mut Conns, left: Left) {
        let known = self.left.iter_mut().find(|known| known.rank == left.rank);
        if !left.adds_to(known.as_deref()) {
            return;
        }
        self.unreported.push(left.clone());
        match known {
            Some(known) => *known = left.after(Some(known)),
            None => self.left.push(left.clone()),
        }
        self.broadcast(conns, &Message::Left(left));
    }

    /// A peer failed the proof, but knows the name of the job that meets here. If its rank has
    /// arrived already, the peer is an impostor.
    pub(super) fn handle_refused(&mut self, conns: &mut Conns, rank: u32, proof: &Proof) {
        let is_rank = self.size.map_or((rank as usize) < MOST_RANKS, |(size, _)| rank < size);
        let is_missed = is_rank && !self.arrived.contains_key(&rank);
        if let Some(job) = self.launched.as_ref()
            && is_missed
            && job.name.is_in_claim(proof)
        {
            let (ranks, why) = job.other_secret(rank);
            self.fail(conns, ranks, why);
        }
    }

    /// The ranks cannot form a communicator.
    pub(super) fn fail(&mut self, conns: &mut Conns, mut ranks: Vec<u32>, why: String) {
        if self.failed.is_none() {
            ranks.sort_unstable();
            ranks.dedup();
            let size = self.size.map_or(0, |(size, _)| size);
            let failure = Failure { size, ranks, why };
            self.broadcast(conns, &Message::Fail(failure.clone()));
            (self.failed, self.failed_at) = (Some(failure), Some(conns.now));
        }
    }

    /// Reports the missing ranks whenever their number has changed.
    pub(super) fn tick(&mut self, conns: &mut Conns) {
        let Some((size, _)) = self.size else { return };
        let missing = (size as usize).saturating_sub(self.arrived.len());
        if missing > 0 && self.reported_missing != Some(missing) {
            self.reported_missing = Some(missing);
            let ranks = (0..size).filter(|rank| !self.arrived.contains_key(rank));
            let (count, ranks) =
                (u32::try_from(missing).unwrap_or(u32::MAX), ranks.take(MISSING).collect());
            self.broadcast(conns, &Message::Missing { count, ranks });
        }
    }

    /// Sends to all ranks that wait here; rank 0 forwards to those that are attached.
    fn broadcast(&self, conns: &mut Conns, message: &Message<'_>) {
        self.guests.keys().for_each(|key| conns.send(*key, message));
    }

    /// Forgets a connection; its rank.
    fn release(&mut self, key: Key) -> Option<(u32, &mut Arrived)> {
        let rank = self.guests.remove(&key)?;
        let arrived = self.arrived.get_mut(&rank)?;
        arrived.conn = None;
        Some((rank, arrived))
    }

    /// The open connections.
    pub(super) fn guests(&self) -> impl Iterator<Item = Key> {
        self.guests.keys().copied()
    }
}

fn is_sane(hello: &Hello<'_>) -> bool {
    let Hello { rank, size, job, member, .. } = hello;
    (1..=MOST_RANKS).contains(&(*size as usize))
        && rank < size
        && member.is_bounded()
        && job.len() <= MOST_TEXT
}

fn disagree(one: u32, other: u32) -> String {
    format!("disagree on the number of ranks: {one} and {other}")
}

/// Whether one launcher gave the ranks different jobs.
fn is_other_job(own: &str, other: &str) -> bool {
    match (own.split_once('='), other.split_once('=')) {
        (Some((own, id)), Some((other, other_id))) => own == other && id != other_id,
        _ => false,
    }
}

/// Moves the address that a rank connected from to the front: it is known to be reachable.
fn seen_from_here(conns: &mut Conns, key: Key, member: &mut Member) {
    let port = member.addresses.first().map(|address| address.port());
    let seen = conns.get(key).and_then(|conn| conn.peer());
    if let (Some(port), Some(mut seen)) = (port, seen)
        && !seen.ip().is_loopback()
        && member.addresses.iter().any(|known| address::plain(*known).ip() == seen.ip())
    {
        seen.set_port(port);
        member.addresses.retain(|known| address::plain(*known) != seen);
        member.addresses.insert(0, seen);
        member.addresses.truncate(MOST_ADDRESSES);
    }
}

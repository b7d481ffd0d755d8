//! Exchanges in memory.
//!
//! The ranks of one process share one meeting. A rank on the network has a replica: an [`Uplink`]
//! sends its contributions to the others and inserts theirs.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, OnceLock};
use std::time::Duration;

use super::left::{Leaves, Left, failure};
use super::net::{Contribution, Run, Uplink};
use super::replica::Replica;
use super::runs::Runs;
use super::survivors::Survivors;
use super::{Parts, Patience, SURVIVORS, Topic};
use crate::backend;
use crate::error::{Error, Excluded, Site, ValueMismatch};
use crate::lock::{Mutex, MutexGuard};
use crate::{Rank, Result};

/// The shortest and the longest pause between checks of health and deadline. In between, the pause
/// is a share of the time waited, which leaves the processors to ranks that work.
const REST: Duration = Duration::from_millis(5);
const LONGEST_REST: Duration = Duration::from_millis(50);
const SHARE: u32 = 8;

/// The pause per rank of the process, so that many waiting ranks together check at a bounded rate.
const EACH: Duration = Duration::from_micros(50);

/// The most missing ranks that a report names.
const NAMED: usize = 32;

/// The meeting of a communicator's ranks, within one process.
pub(crate) struct Meeting {
    /// 0 until the ranks have met.
    id: AtomicU64,
    size: u32,
    state: Mutex<State>,
    changed: Condvar,
    /// Replicates to other processes; `None` if all ranks are in this one.
    uplink: Option<Uplink>,
    /// Created when a rank first wants to continue without others.
    survivors: OnceLock<Arc<Survivors>>,
}

struct State {
    size: u32,
    rounds: HashMap<u64, Round>,
    /// Ranks that left, in the order in which that became known.
    left: Vec<Left>,
    /// Children by exchange and colour, until all their members have asked for them.
    children: HashMap<(u64, u32), Child>,
    /// Shared values by exchange, until all ranks have asked for them.
    shared: HashMap<u64, (Arc<dyn Any + Send + Sync>, u32)>,
    /// Each rank's last exchange, for reports.
    last: Runs<Last>,
    replica: Replica,
}

/// A rank's last exchange, and the number of exchanges it has contributed to.
type Last = (Topic, Site, u64);

impl std::fmt::Debug for Meeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Meeting of {}", self.size())
    }
}

/// One rank's wait in an exchange.
#[derive(Clone)]
pub(crate) struct Exchange {
    meeting: Arc<Meeting>,
    seq: u64,
    rank: u32,
}

/// An id that no other communicator of this process has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl backend::Exchange for Exchange {
    fn id(&self) -> u64 {
        self.meeting.id()
    }

    fn rank(&self) -> usize {
        self.rank as usize
    }

    fn key(&self) -> (usize, u64) {
        (Arc::as_ptr(&self.meeting).addr(), self.seq)
    }

    fn is_open(&self) -> bool {
        let state = self.meeting.state();
        let Some(round) = state.rounds.get(&self.seq) else { return false };
        let Some(own) = round.parts.get(self.rank) else { return false };
        let is_done = round.done.get(self.rank).is_some();
        !is_done && !round.differs && state.lost(self.seq, own.topic).is_empty()
    }

    fn is_local(&self) -> bool {
        self.meeting.uplink.is_none()
    }

    fn missing(&self) -> Vec<usize> {
        let state = self.meeting.state();
        let Some(round) = state.rounds.get(&self.seq) else { return Vec::new() };
        round.missing(self.meeting.size).map(|rank| rank as usize).collect()
    }

    fn kept(&self) -> Box<dyn backend::Exchange> {
        Box::new(self.clone())
    }
}

/// The meeting of a child.
struct Child {
    meeting: Arc<Meeting>,
    /// For each rank of the child, its rank in the parent until it has joined.
    missing: Vec<Option<u32>>,
    /// The child of the survivors.
    survives: bool,
}

impl Child {
    /// A rank that leaves the parent before joining is gone from the child too. A poisoned rank can
    /// still join the survivors.
    fn notify(&self, left: &Left) {
        if self.survives && !left.gone {
            return;
        }
        if let Some(rank) = self.missing.iter().position(|&missing| missing == Some(left.rank)) {
            self.meeting.leave(Rank::at(rank).0, &left.why, Leaves::Gone);
        }
    }
}

#[derive(Default)]
struct Round {
    parts: Runs<Arc<Contribution>>,
    /// The first contribution's topic.
    topic: Option<Topic>,
    /// Whether any contribution has another topic.
    differs: bool,
    /// All contributions, once a rank has asked for them.
    whole: Option<Parts>,
    /// Ranks that are done with the round.
    done: Runs<()>,
}

impl Round {
    fn insert(&mut self, first: u32, last: u32, contribution: Arc<Contribution>) {
        self.differs |= *self.topic.get_or_insert(contribution.topic) != contribution.topic;
        self.parts.put(first, last, contribution);
    }

    /// All contributions to a complete round.
    fn whole(&mut self) -> Parts {
        let each = |(first, last, part): (u32, u32, &Arc<Contribution>)| {
            std::iter::repeat_n(part.bytes.clone(), (last - first + 1) as usize)
        };
        self.whole.get_or_insert_with(|| self.parts.iter().flat_map(each).collect()).clone()
    }

    fn missing(&self, size: u32) -> impl Iterator<Item = u32> {
        self.parts.gaps(0, size - 1).into_iter().flat_map(|(first, last)| first..=last)
    }
}

impl State {
    /// The ranks that left without contributing to exchange `seq`, in order.
    fn lost(&self, seq: u64, topic: Topic) -> Vec<&Left> {
        let parts = self.rounds.get(&seq).map(|round| &round.parts);
        let part = |rank: u32| parts.and_then(|parts| parts.get(rank)).map(|part| &**part);
        let misses = |left: &&Left| left.misses(topic, part(left.rank));
        // A death explains every incomplete exchange: other ranks leave because of it.
        let is_whole = || parts.is_some_and(|parts| parts.known() == self.size);
        self.left.iter().filter(|left| misses(left) || left.died && !is_whole()).collect()
    }

    /// Marks a rank as done with a round, and removes the round when all are.
    fn done(&mut self, rank: u32, seq: u64) {
        let Some(round) = self.rounds.get_mut(&seq) else { return };
        if round.parts.get(rank).is_some() {
            round.done.put(rank, rank, ());
        }
        if round.done.known() == self.size {
            self.rounds.remove(&seq);
        }
    }

    /// Adds a contribution; whether that can end a wait, because the round is complete or topics
    /// differ.
    fn insert(&mut self, seq: u64, rank: u32, contribution: Arc<Contribution>) -> bool {
        self.last.put(rank, rank, (contribution.topic, contribution.site, seq + 1));
        let round = self.rounds.entry(seq).or_default();
        round.insert(rank, rank, contribution);
        round.differs || round.parts.known() == self.size
    }
}

impl Meeting {
    pub(crate) fn new(size: u32) -> Arc<Self> {
        Self::made(size, next_id(), None)
    }

    /// A replica for one rank, with its uplink. Its id is known when the ranks have met; a rank
    /// alone waits for nobody, and needs one at once.
    pub(super) fn replica(size: u32, uplink: Uplink) -> Arc<Self> {
        let id = if size == 1 { next_id() } else { 0 };
        Self::made(size, id, Some(uplink))
    }

    fn made(size: u32, id: u64, uplink: Option<Uplink>) -> Arc<Self> {
        let state = State {
            size,
            rounds: HashMap::new(),
            left: Vec::new(),
            children: HashMap::new(),
            shared: HashMap::new(),
            last: Runs::default(),
            replica: Replica::default(),
        };
        let (id, state) = (AtomicU64::new(id), Mutex::new(state));
        let survivors = OnceLock::new();
        Arc::new(Self { id, size, state, changed: Condvar::new(), uplink, survivors })
    }

    /// The survivors' agreement, from the perspective of rank `own`.
    pub(super) fn survivors(&self, own: u32) -> &Survivors {
        if let Some(survivors) = self.survivors.get() {
            return survivors;
        }
        let survivors = self.survivors.get_or_init(|| {
            let wire = self.uplink.as_ref().map(|uplink| uplink.line(SURVIVORS));
            Arc::new(Survivors::new(self.size, own, wire))
        });
        survivors.listen();
        // `record_departure` reports later departures.
        let state = self.state();
        let lost = state.left.iter().filter(|left| left.is_lost());
        let lost: Vec<_> = lost.map(|left| (left.rank, left.why.clone())).collect();
        drop(state);
        for (rank, why) in lost {
            survivors.died(rank, &why);
        }
        survivors
    }

    /// Why the ranks cannot form a communicator.
    pub(super) fn broken(&self, name: &'static str) -> Option<Error> {
        self.state().replica.broken(name)
    }

    /// The meeting of the `members` that gave `color` in exchange `seq`, for the one of them that
    /// is `rank` there. Each member asks once.
    pub(super) fn child(&self, seq: u64, color: u32, rank: usize, members: &[u32]) -> Arc<Self> {
        if let Some(uplink) = &self.uplink {
            return uplink.child(seq, color, rank, members);
        }
        let state = &mut *self.state();
        let child = state.children.entry((seq, color)).or_insert_with(|| Child {
            meeting: Self::new(u32::try_from(members.len()).unwrap_or(u32::MAX)),
            missing: members.iter().copied().map(Some).collect(),
            survives: seq == SURVIVORS,
        });
        child.missing[rank] = None;
        state.left.iter().for_each(|left| child.notify(left));
        let meeting = child.meeting.clone();
        if child.missing.iter().all(Option::is_none) {
            state.children.remove(&(seq, color));
        }
        meeting
    }

    /// Creates the meeting of these ranks and newcomers, as agreed in exchange `seq`, and calls
    /// `publish` with it. Its members ask for it as for a [`child`](Self::child).
    pub(super) fn invite<R>(&self, seq: u64, size: u32, publish: impl FnOnce(&Arc<Self>) -> R) {
        let state = &mut *self.state();
        state.children.entry((seq, 0)).or_insert_with(|| {
            let meeting = Self::new(size);
            publish(&meeting);
            Child { meeting, missing: (0..self.size).map(Some).collect(), survives: false }
        });
    }

    /// A value that all ranks of exchange `seq` share. Each rank asks once.
    pub(super) fn shared<T: Any + Send + Sync>(&self, seq: u64, make: impl Fn() -> T) -> Arc<T> {
        let mut state = self.state();
        let (shared, asked) = state.shared.entry(seq).or_insert_with(|| (Arc::new(make()), 0));
        *asked += 1;
        let (shared, all) = (shared.clone(), *asked == self.size);
        if all {
            state.shared.remove(&seq);
        }
        // One exchange has one purpose, so one type of shared value.
        shared.downcast().unwrap_or_else(|_| Arc::new(make()))
    }

    pub(super) fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    pub(super) fn uplink(&self) -> Option<&Uplink> {
        self.uplink.as_ref()
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn post(&self, rank: u32, seq: u64, topic: Topic, site: Site, bytes: Vec<u8>) {
        let contribution = Arc::new(Contribution { topic, site, bytes: bytes.into() });
        let wakes_waiters = self.state().insert(seq, rank, contribution.clone());
        if let Some(uplink) = &self.uplink {
            uplink.post(seq, contribution);
        }
        if wakes_waiters {
            self.changed.notify_all();
        }
    }

    pub(super) fn try_collect(
        &self,
        rank: u32,
        seq: u64,
        name: &'static str,
    ) -> Result<Option<Parts>> {
        let mut state = self.state();
        let Some(round) = state.rounds.get(&seq) else {
            return Ok(None);
        };
        let Some(own) = round.parts.get(rank) else {
            return Ok(None);
        };
        let topic = own.topic;
        let lost = state.lost(seq, topic);
        // Report a mismatch at once, without waiting for the other ranks. The last exchange of a
        // dropped communicator is not a call.
        let is_lost = |rank: &u32| lost.iter().any(|left| left.rank == *rank);
        let parts = round.differs.then(|| round.parts.iter());
        let other = parts.into_iter().flatten().find_map(|(first, last, part)| {
            let differs = part.topic != topic;
            let rank = differs.then(|| (first..=last).find(|rank| !is_lost(rank))).flatten()?;
            Some((rank, part.topic, part.site))
        });
        if let Some((r, found, site)) = other {
            self.done(&mut state, rank, seq);
            return Err(Error::ValueMismatch(Box::new(ValueMismatch {
                operation: topic,
                rank: Rank(r),
                found: format!("called {found} at {}", site),
            })));
        }
        if let Some(error) = failure(&lost, name, topic) {
            return Err(state.replica.broken(name).unwrap_or(error));
        }
        match state.rounds.get_mut(&seq).filter(|round| round.parts.known() == self.size) {
            None => state.replica.broken(name).map_or(Ok(None), Err),
            Some(round) => {
                let parts = round.whole();
                self.done(&mut state, rank, seq);
                Ok(Some(parts))
            }
        }
    }

    /// Marks a rank as done with a round.
    fn done(&self, state: &mut State, rank: u32, seq: u64) {
        if self.uplink.is_none() {
            return state.done(rank, seq);
        }
        // A replica serves one rank.
        state.rounds.remove(&seq);
        state.replica.forget(seq);
    }

    /// The number of exchanges that a rank has contributed to, as far as it is known.
    pub(super) fn posted(&self, rank: u32) -> u64 {
        self.state().last.get(rank).map_or(0, |(.., posted)| *posted)
    }

    pub(super) fn exchange(self: &Arc<Self>, rank: u32, seq: u64) -> Exchange {
        Exchange { meeting: self.clone(), seq, rank }
    }

    /// Marks a rank as done with a round that it does not collect.
    pub(super) fn give_up(&self, rank: u32, seq: u64) {
        self.done(&mut self.state(), rank, seq);
    }

    /// Fails if another rank that `counts` has left, even if it had contributed.
    pub(super) fn none_left(
        &self,
        rank: u32,
        (name, during): (&'static str, Topic),
        counts: fn(&Left) -> bool,
    ) -> Result<()> {
        let state = self.state();
        if let Some(error) = state.replica.broken(name) {
            return Err(error);
        }
        let others = state.left.iter().filter(|left| counts(left) && left.rank != rank);
        failure(&others.collect::<Vec<_>>(), name, during).map_or(Ok(()), Err)
    }

    /// The error for ranks that dropped their communicators, though they took part in the last
    /// exchange.
    pub(super) fn dropped(&self, name: &'static str, during: Topic) -> Option<Error> {
        let state = self.state();
        let dropped = state.left.iter().filter(|left| left.dropped);
        failure(&dropped.collect::<Vec<_>>(), name, during)
    }

    pub(super) fn wait(&self, rank: u32, seq: u64, waited: Duration, at_most: Duration) {
        let state = self.state();
        let round = state.rounds.get(&seq);
        let complete = round.is_some_and(|round| round.parts.known() == self.size);
        let own = round.and_then(|round| round.parts.get(rank));
        if complete || own.is_some_and(|own| !state.lost(seq, own.topic).is_empty()) {
            return;
        }
        let here = if self.uplink.is_none() { self.size } else { 1 };
        let pause = (waited / SHARE).clamp(REST, LONGEST_REST).max(EACH * here);
        // A spurious or early wake-up is fine: the caller checks again.
        let _ = self.changed.wait_timeout(state, at_most.min(pause));
    }

    /// A rank of this process has ended its communicator, and reported why if there is a reason.
    pub(super) fn end(&self, rank: u32) {
        match &self.uplink {
            Some(uplink) => uplink.close(),
            None => self.record_departure(&Left::ended(
                rank,
                "its communicator has ended".to_owned(),
                0,
            )),
        }
    }

    /// A rank of this process leaves.
    pub(super) fn leave(&self, rank: u32, why: &str, how: Leaves) {
        self.record_departure(&Left::of(rank, why.to_owned(), how, 0));
        if let Some(uplink) = &self.uplink {
            uplink.leave(why, how);
        }
    }

    /// A rank has left, in this process or another.
    pub(super) fn record_departure(&self, new: &Left) {
        let mut state = self.state();
        state.children.values().for_each(|child| child.notify(new));
        match state.left.iter_mut().find(|left| left.rank == new.rank) {
            Some(left) => *left = new.after(Some(left)),
            None => state.left.push(new.clone()),
        }
        drop(state);
        if let Some(survivors) = self.survivors.get().filter(|_| new.is_lost()) {
            survivors.died(new.rank, &new.why);
        }
        self.changed.notify_all();
    }

    /// The ranks have met.
    pub(super) fn set_id(&self, id: u64) {
        if self.size > 1 {
            self.id.store(id, Relaxed);
        }
        self.state().replica.trouble.clear();
        self.changed.notify_all();
    }

    /// Adds contributions of other processes to exchange `seq`. All are in range and new.
    pub(super) fn insert_runs(&self, seq: u64, runs: &[Run]) {
        let mut state = self.state();
        let mut wakes_waiters = false;
        if !state.replica.is_past(seq) {
            let round = state.rounds.entry(seq).or_default();
            for Run { first, last, contribution, .. } in runs {
                round.insert(*first, *last, contribution.clone());
            }
            wakes_waiters = round.differs || round.parts.known() == self.size;
            let last_of = |run: &Run| (run.contribution.topic, run.contribution.site, seq + 1);
            let follows = |a: &Run, b: &Run| a.last + 1 == b.first && last_of(a) == last_of(b);
            for runs in runs.chunk_by(follows) {
                if let (Some(one), Some(end)) = (runs.first(), runs.last()) {
                    state.last.put(one.first, end.last, last_of(one));
                }
            }
        }
        drop(state);
        // Do not wake waiters that nothing has changed for.
        if wakes_waiters {
            self.changed.notify_all();
        }
    }

    /// The ranks cannot form a communicator; the first reason stays.
    pub(super) fn fail(&self, error: Error) {
        self.state().replica.broken.get_or_insert(error);
        self.changed.notify_all();
    }

    /// The others took this rank for dead, which overrides any earlier failure.
    pub(super) fn exclude(&self, rank: u32, why: &str) {
        let (name, rank, why) = ("this communicator", Rank(rank), why.to_owned());
        let excluded = Excluded { name, rank, why, site: None };
        self.state().replica.broken = Some(Error::Excluded(Box::new(excluded)));
        self.changed.notify_all();
    }

    /// Sets why the ranks have not met yet.
    pub(super) fn set_trouble(&self, trouble: String) {
        self.state().replica.trouble = trouble;
    }

    /// Logs why the ranks have not met after this time, if it is known.
    pub(super) fn warn_of_trouble(&self, after: Duration) {
        let trouble = self.state().replica.trouble.clone();
        if !trouble.is_empty() {
            log::warn!("rank 0 is not found after {after:?}: {trouble}");
        }
    }

    /// Sets why this process accepts no connections; empty if it does.
    pub(super) fn set_accept_trouble(&self, why: String) {
        self.state().replica.accept_trouble = why;
    }

    pub(super) fn timeout(&self, seq: u64, waited: Duration, patience: &Patience<'_>) -> Error {
        let state = self.state();
        let round = state.rounds.get(&seq);
        let mut report = String::from("arrived:");
        for (first, last, _) in round.iter().flat_map(|round| round.parts.iter()) {
            (first..=last).for_each(|rank| report += &format!(" {rank}"));
        }
        let none = Round::default();
        let missing: Vec<u32> = round.unwrap_or(&none).missing(self.size).collect();
        for &rank in missing.iter().take(NAMED) {
            report += &match state.last.get(rank) {
                Some((topic, site, _)) => {
                    format!("; rank {rank} is missing, last seen in {topic} at {site}")
                }
                None => format!("; rank {rank} is missing and made no host-side call yet"),
            };
        }
        if missing.len() > NAMED {
            report += &format!("; {} more are missing", missing.len() - NAMED);
        }
        let Replica { trouble, accept_trouble, .. } = &state.replica;
        for known in [trouble, accept_trouble].into_iter().filter(|known| !known.is_empty()) {
            report = format!("{known}; {report}");
        }
        patience.timeout(waited, report)
    }
}

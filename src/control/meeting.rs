//! Where the ranks of one process meet: exchanges in memory.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{FINISH, Parts, Patience, Topic};
use crate::error::{Error, PeerFailed, Site, Timeout, ValueMismatch};
use crate::{Rank, Result};

/// How long a wait rests before it looks at health and deadline again.
const REST: Duration = Duration::from_millis(5);

/// The shared side of a control plane within one process.
pub(crate) struct Meeting {
    id: u64,
    size: u32,
    state: Mutex<State>,
    news: Condvar,
}

struct State {
    rounds: HashMap<u64, Round>,
    /// Who left, the first one first.
    left: Vec<Left>,
    /// Meetings of some of the ranks, until all of those have come: by exchange and colour.
    children: HashMap<(u64, u32), Child>,
    /// What all ranks have in common, until all of them have asked for it: by exchange.
    shared: HashMap<u64, (Arc<dyn Any + Send + Sync>, u32)>,
    /// Each rank's last exchange, for reports.
    last: Vec<Option<(Topic, Site)>>,
}

/// One rank's wait for the others in an exchange.
#[derive(Clone)]
pub struct Exchange {
    meeting: Arc<Meeting>,
    seq: u64,
    rank: u32,
}

impl Exchange {
    /// What the ranks share: the communicator's id.
    pub(crate) fn id(&self) -> u64 {
        self.meeting.id
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The ranks that have sent nothing; none if the wait is over, one way or another.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let state = self.meeting.state();
        let Some(round) = state.rounds.get(&self.seq) else { return Vec::new() };
        let Some(own) = &round.parts[self.rank()] else { return Vec::new() };
        let differs = round.parts.iter().flatten().any(|part| part.topic != own.topic);
        if own.done || differs || !state.lost(self.seq, own.topic).is_empty() {
            return Vec::new();
        }
        let missing = |rank: &usize| round.parts[*rank].is_none();
        (0..round.parts.len()).filter(missing).collect()
    }
}

/// A meeting of some of the ranks.
struct Child {
    meeting: Arc<Meeting>,
    /// Who did not come yet, by rank there.
    missing: Vec<Option<u32>>,
}

impl Child {
    /// A rank that left before it came does not come any more.
    fn tell(&self, left: &Left) {
        if let Some(rank) = self.missing.iter().position(|&missing| missing == Some(left.rank)) {
            self.meeting.depart(Rank::at(rank).0, &left.why);
        }
    }
}

struct Left {
    rank: u32,
    why: String,
    /// Its communicator was dropped: of its own accord it takes part in [`FINISH`] at most.
    dropped: bool,
    /// It takes part in nothing more.
    gone: bool,
}

impl Left {
    /// Whether an exchange of this topic waits for it in vain; `part` is its own part in it.
    fn misses(&self, topic: Topic, part: Option<&Contribution>) -> bool {
        match part {
            None => self.gone || topic != FINISH,
            Some(part) => self.dropped && part.topic == FINISH && topic != FINISH,
        }
    }
}

/// The error that these ranks, the first one first, are the cause of.
fn gone(left: &[&Left], name: &'static str, during: Topic) -> Option<Error> {
    let left: Vec<_> = left.iter().map(|left| (Rank(left.rank), &*left.why)).collect();
    let failed = PeerFailed::new(name, &left, during.to_owned());
    (!left.is_empty()).then(|| Error::PeerFailed(Box::new(failed)))
}

struct Round {
    parts: Vec<Option<Contribution>>,
}

struct Contribution {
    topic: Topic,
    site: Site,
    bytes: Arc<[u8]>,
    /// Its rank needs the round no more.
    done: bool,
}

impl State {
    /// The ranks that left without taking part in exchange `seq`, the first one first.
    fn lost(&self, seq: u64, topic: Topic) -> Vec<&Left> {
        let parts = self.rounds.get(&seq).map(|round| &round.parts);
        let part = |rank: u32| parts.and_then(|parts| parts[rank as usize].as_ref());
        self.left.iter().filter(|left| left.misses(topic, part(left.rank))).collect()
    }

    /// Marks a rank's part of a round, and forgets the round when every rank's is marked.
    fn done(&mut self, rank: u32, seq: u64) {
        let Some(round) = self.rounds.get_mut(&seq) else { return };
        if let Some(part) = &mut round.parts[rank as usize] {
            part.done = true;
        }
        if round.parts.iter().all(|part| part.as_ref().is_some_and(|part| part.done)) {
            self.rounds.remove(&seq);
        }
    }
}

impl Meeting {
    pub(crate) fn new(size: u32) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let n = size as usize;
        let state = State {
            rounds: HashMap::new(),
            left: Vec::new(),
            children: HashMap::new(),
            shared: HashMap::new(),
            last: vec![None; n],
        };
        Arc::new(Self {
            id: NEXT.fetch_add(1, Relaxed),
            size,
            state: Mutex::new(state),
            news: Condvar::new(),
        })
    }

    /// The meeting of the `members`, which gave `color` in exchange `seq`, for the one of them that is
    /// `rank` there; each of them asks once.
    pub(super) fn child(&self, seq: u64, color: u32, rank: usize, members: &[u32]) -> Arc<Self> {
        let state = &mut *self.state();
        let child = state.children.entry((seq, color)).or_insert_with(|| Child {
            meeting: Self::new(u32::try_from(members.len()).unwrap_or(u32::MAX)),
            missing: members.iter().copied().map(Some).collect(),
        });
        child.missing[rank] = None;
        state.left.iter().for_each(|left| child.tell(left));
        let meeting = child.meeting.clone();
        if child.missing.iter().all(Option::is_none) {
            state.children.remove(&(seq, color));
        }
        meeting
    }

    /// What all ranks have in common in exchange `seq`; each of them asks once.
    pub(super) fn shared<T: Any + Send + Sync>(&self, seq: u64, make: impl Fn() -> T) -> Arc<T> {
        let mut state = self.state();
        let (shared, asked) = state.shared.entry(seq).or_insert_with(|| (Arc::new(make()), 0));
        *asked += 1;
        let (shared, all) = (shared.clone(), *asked == self.size);
        if all {
            state.shared.remove(&seq);
        }
        // An exchange has one purpose, so what it shares has one type.
        shared.downcast().unwrap_or_else(|_| Arc::new(make()))
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn post(&self, rank: u32, seq: u64, topic: Topic, site: Site, bytes: Vec<u8>) {
        let mut state = self.state();
        let n = self.size as usize;
        let round = state
            .rounds
            .entry(seq)
            .or_insert_with(|| Round { parts: (0..n).map(|_| None).collect() });
        round.parts[rank as usize] =
            Some(Contribution { topic, site, bytes: bytes.into(), done: false });
        state.last[rank as usize] = Some((topic, site));
        drop(state);
        self.news.notify_all();
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
        let Some(own) = &round.parts[rank as usize] else {
            return Ok(None);
        };
        let topic = own.topic;
        let lost = state.lost(seq, topic);
        // Ranks that call something else are told at once; they need not all be there. The end of a
        // communicator that was dropped is no call.
        let other = round.parts.iter().enumerate().find_map(|(r, part)| {
            let part = part.as_ref().filter(|part| part.topic != topic)?;
            let is_lost = lost.iter().any(|left| left.rank as usize == r);
            (!is_lost).then_some((r, part.topic, part.site))
        });
        if let Some((r, found, site)) = other {
            state.done(rank, seq);
            return Err(Error::ValueMismatch(Box::new(ValueMismatch {
                operation: topic,
                rank: Rank::at(r),
                found: format!("called {found} at {}", site),
            })));
        }
        if let Some(error) = gone(&lost, name, topic) {
            return Err(error);
        }
        if round.parts.iter().any(Option::is_none) {
            return Ok(None);
        }
        let parts = round.parts.iter().flatten().map(|part| part.bytes.clone()).collect();
        state.done(rank, seq);
        Ok(Some(parts))
    }

    pub(super) fn exchange(self: &Arc<Self>, rank: u32, seq: u64) -> Exchange {
        Exchange { meeting: self.clone(), seq, rank }
    }

    /// A rank needs the round no more.
    pub(super) fn give_up(&self, rank: u32, seq: u64) {
        self.state().done(rank, seq);
    }

    /// Fails if a rank has left already, whatever it sent before.
    pub(super) fn all_here(&self, rank: u32, name: &'static str, during: Topic) -> Result<()> {
        let state = self.state();
        let others = state.left.iter().filter(|left| left.gone && left.rank != rank);
        gone(&others.collect::<Vec<_>>(), name, during).map_or(Ok(()), Err)
    }

    pub(super) fn rest(&self, rank: u32, seq: u64, at_most: Duration) {
        let state = self.state();
        let round = state.rounds.get(&seq);
        let complete = round.is_some_and(|round| round.parts.iter().all(Option::is_some));
        let own = round.and_then(|round| round.parts[rank as usize].as_ref());
        if complete || own.is_some_and(|own| !state.lost(seq, own.topic).is_empty()) {
            return;
        }
        // A spurious or early wake-up is fine: the caller looks again.
        let _ = self.news.wait_timeout(state, at_most.min(REST));
    }

    /// A rank takes part in nothing more.
    pub(super) fn depart(&self, rank: u32, why: &str) {
        self.leave(Left { rank, why: why.to_owned(), dropped: false, gone: true });
    }

    /// A rank takes part in nothing more but [`FINISH`].
    pub(super) fn drop_out(&self, rank: u32, why: &str) {
        self.leave(Left { rank, why: why.to_owned(), dropped: true, gone: false });
    }

    fn leave(&self, new: Left) {
        let mut state = self.state();
        state.children.values().for_each(|child| child.tell(&new));
        match state.left.iter_mut().find(|left| left.rank == new.rank) {
            // The first reason stays.
            Some(left) => {
                left.dropped |= new.dropped;
                left.gone |= new.gone;
            }
            None => state.left.push(new),
        }
        drop(state);
        self.news.notify_all();
    }

    pub(super) fn timeout(&self, seq: u64, waited: Duration, patience: &Patience<'_>) -> Error {
        let state = self.state();
        let round = state.rounds.get(&seq);
        let posted = |r: usize| round.is_some_and(|round| round.parts[r].is_some());
        let mut report = String::from("arrived:");
        for r in (0..self.size as usize).filter(|r| posted(*r)) {
            report += &format!(" {r}");
        }
        for r in (0..self.size as usize).filter(|r| !posted(*r)) {
            report += &match state.last[r] {
                Some((topic, site)) => {
                    format!("; rank {r} is missing, last seen in {topic} at {}", site)
                }
                None => format!("; rank {r} is missing and made no host-side call yet"),
            };
        }
        let Patience { operation, site, .. } = *patience;
        Error::Timeout(Box::new(Timeout { operation, site, waited, report }))
    }
}

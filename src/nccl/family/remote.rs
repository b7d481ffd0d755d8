//! A family whose members are other processes.
//!
//! Processes do not share memory, so each rank keeps what the others last sent: their calls, the
//! signals that they raised and await, what they refused, and why they left. Issuing a call costs
//! nothing extra. A rank whose host waits sends its calls to the others and asks for theirs, some
//! times a second; the comparison is the one between threads. A rank's last calls reach the others
//! before it ends: with its departure, and as part of `finish`.

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use nccl_sys::{NCCL_UNIQUE_ID_BYTES, ncclUniqueId};
use serde::{Deserialize, Serialize};

use super::super::recorder::{Calls, Word};
use super::super::signals;
use super::ids::Ids;
use super::refusals::{Turn, What};
use super::{Family, Member};
use crate::Rank;
use crate::backend::{Departure, Join, Listener, Wire};
use crate::communicator::Health;
use crate::error::{Error, Excluded, Mismatch, last_call};
use crate::lock::Mutex;
use crate::rate_limited::RateLimited;

/// The connection to the other ranks.
pub(super) struct Remote {
    wire: Arc<dyn Wire>,
    own: usize,
    /// When this rank last asked the others.
    asked: Mutex<Option<Instant>>,
    /// When each rank last sent its calls.
    heard: Mutex<Vec<Option<Instant>>>,
    /// Since when NCCL has reported an error.
    failing: OnceLock<Instant>,
}

/// What a rank sends about its calls.
#[derive(Serialize, Deserialize)]
struct RankReport {
    calls: Calls,
    signals: signals::SignalReport,
}

#[derive(Serialize, Deserialize)]
enum Message {
    /// An NCCL id made by the sender, and how many ids there are. Rank 0's number is authoritative.
    Id(Vec<u8>, usize),
    /// The sender's calls, and whether it asks for the receiver's.
    Calls(RankReport, bool),
    /// Calls that the sender refused, and why.
    Refused(Vec<(What, u64)>, String),
    /// The sender will enqueue nothing more.
    Left(String, Departure, RankReport),
    /// Ranks made different calls: the difference, and each rank's call.
    Differ(String, Vec<(u32, Word)>),
}

/// How many calls of each kind a message holds.
const TOLD: usize = 64;

/// How often a waiting rank asks the others, for each [`MANY`] of them.
const EVERY: Duration = Duration::from_millis(100);
const MANY: usize = 64;

/// The factor by which it asks less often while an answer is missing.
const UNANSWERED: u32 = 16;

/// How long news of a death may take.
const NEWS: Duration = Duration::from_millis(500);

/// How long a leaving rank waits for the others' answers.
const ANSWER: Duration = Duration::from_millis(100);

impl Remote {
    pub(super) fn new(wire: Arc<dyn Wire>, join: &Join) -> Self {
        let heard = Mutex::new(vec![None; join.size as usize]);
        let (own, asked, failing) = (join.rank as usize, Mutex::default(), OnceLock::new());
        Self { wire, own, asked, heard, failing }
    }

    /// The rank of this process.
    pub(super) fn here(&self) -> Range<usize> {
        self.own..self.own + 1
    }

    /// When a rank last sent its calls.
    pub(super) fn heard(&self, rank: usize) -> Option<Instant> {
        let heard = self.heard.lock();
        heard.get(rank).copied().flatten()
    }

    /// Starts receiving messages from the others.
    pub(super) fn listen(&self, family: &Arc<Family>) {
        let family: Arc<dyn Listener> = family.clone();
        self.wire.listen(Arc::downgrade(&family) as Weak<dyn Listener>);
    }

    /// Sends the id that this rank has made to the others.
    pub(super) fn tell_id(&self, ids: &Ids) {
        if let Some((id, count)) = ids.by(self.own) {
            self.tell(None, &Message::Id(id.to_bytes().to_vec(), count));
        }
    }

    fn tell(&self, to: Option<Rank>, message: &Message) {
        self.wire.send(to, message);
    }

    /// This rank's calls.
    fn told(&self, family: &Family) -> RankReport {
        RankReport { calls: family.of(self.own).tell(TOLD), signals: family.signals.tell(self.own) }
    }

    /// Announces that this rank enqueues nothing more.
    pub(super) fn leave(&self, family: &Family, why: &str, how: Departure) {
        self.tell(None, &Message::Left(why.to_owned(), how, self.told(family)));
    }

    /// Announces calls that this rank refused.
    pub(super) fn refuse(&self, turns: &[Turn], reason: &Error) {
        let turns = turns.iter().map(|turn| (turn.what, turn.number)).collect();
        self.tell(None, &Message::Refused(turns, reason.to_string()));
    }

    /// Announces that ranks made different calls.
    pub(super) fn differ(&self, mismatch: &Mismatch) {
        let calls = mismatch.calls.iter().map(|(rank, call)| (rank.0, Word::new(call, 0)));
        self.tell(None, &Message::Differ(mismatch.what.clone(), calls.collect()));
    }

    /// Sends this rank's calls to the others and asks for theirs, unless it just did.
    fn ask(&self, family: &Family) {
        let rarely = u32::try_from(family.size() / MANY).unwrap_or(u32::MAX);
        let every = EVERY.saturating_mul(rarely.saturating_add(1));
        let mut asked = self.asked.lock();
        let is_soon = |then: Instant| {
            // Asking again does not speed up an answer that is late.
            let rest = if self.is_answered(family, then) { every } else { every * UNANSWERED };
            then.elapsed() < rest
        };
        if asked.is_some_and(is_soon) {
            return;
        }
        *asked = Some(Instant::now());
        drop(asked);
        self.tell(None, &Message::Calls(self.told(family), true));
    }

    /// Whether every rank that is still there has sent its calls since then.
    fn is_answered(&self, family: &Family, since: Instant) -> bool {
        let state = family.state.lock();
        let has_left = |rank: usize| state.left.iter().any(|left| left.rank == rank);
        let heard = self.heard.lock();
        let mut silent = heard.iter().enumerate().filter(|(_, at)| at.is_none_or(|at| at < since));
        silent.all(|(rank, _)| rank == self.own || has_left(rank))
    }

    /// Sends this rank's calls to one rank.
    fn answer(&self, family: &Family, to: Rank) {
        self.tell(Some(to), &Message::Calls(self.told(family), false));
    }
}

impl Family {
    /// A rank's host waits, so the others' calls are of interest.
    pub(in crate::nccl) fn ask(&self) {
        if let Some(remote) = &self.remote {
            remote.ask(self);
        }
    }

    /// After announcing that this rank leaves, gives the others time to say what they wait for.
    pub(in crate::nccl) fn hear_them_out(&self) {
        if self.remote.is_some() {
            std::thread::sleep(ANSWER);
        }
    }

    /// Whether an error that NCCL found by itself may come from a process's death, news of which is
    /// about to arrive.
    pub(in crate::nccl) fn may_be_a_death(&self) -> bool {
        let Some(remote) = &self.remote else { return false };
        remote.failing.get_or_init(Instant::now).elapsed() < NEWS
    }

    /// Called after an NCCL call failed. If a process's death is the cause, waits for the news of
    /// it.
    pub(in crate::nccl) fn hear_of_deaths(&self, health: &Health) {
        let started = Instant::now();
        while self.remote.is_some() && health.is_well() && started.elapsed() < NEWS {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the others need to know of a rank's calls at its end; empty if they share memory.
    pub(in crate::nccl) fn last_words(&self) -> Vec<u8> {
        let told = self.remote.as_ref().map(|remote| remote.told(self));
        told.map_or_else(Vec::new, |told| postcard::to_stdvec(&told).unwrap_or_default())
    }

    /// Takes over another rank's last words.
    pub(in crate::nccl) fn hear_last_words(&self, from: usize, words: &[u8]) {
        let is_other = self.remote.as_ref().is_some_and(|remote| remote.own != from);
        // A dropped rank sends none.
        if let Ok(told) = postcard::from_bytes::<RankReport>(words)
            && is_other
        {
            self.hear(from, &told);
        }
    }

    /// Records that a rank of another process leaves. If this rank waits for a call that the
    /// leaving one refused or made differently, that is the cause.
    fn goes(&self, remote: &Remote, by: usize, why: &str, how: Departure, has_told: bool) {
        if how == Departure::AtOnce {
            self.look(remote.own);
        }
        self.departed(by, why, how, has_told);
    }

    /// Takes over the calls of a rank of another process.
    fn hear(&self, from: usize, told: &RankReport) {
        let Some(member) = self.members.get(from) else { return };
        // Messages arrive on one thread, last words on the rank's own.
        let _one = self.hearing.lock();
        // A recorder is large, so a rank that has called nothing has none.
        if member.recorder.get().is_some() || !told.calls.is_empty() {
            member.recorder(self.size()).hear(&told.calls);
        }
        self.signals.hear(from, self.size(), &told.signals);
        let heard = self.remote.as_ref().map(|remote| remote.heard.lock());
        if let Some(mut heard) = heard
            && let Some(heard) = heard.get_mut(from)
        {
            *heard = Some(Instant::now());
        }
    }
}

impl Listener for Family {
    fn message(&self, from: Rank, message: &[u8]) {
        let Ok(message) = postcard::from_bytes(message) else {
            static UNREAD: RateLimited = RateLimited::new();
            let name = self.name;
            return UNREAD.warn(format_args!("{name}: rank {from} sent what nobody reads"));
        };
        let Some(remote) = &self.remote else { return };
        let by = from.index();
        match message {
            Message::Id(bytes, count) => {
                if let Ok(bytes) = <[u8; NCCL_UNIQUE_ID_BYTES]>::try_from(bytes)
                    && by < self.size()
                {
                    self.ids.know(by, ncclUniqueId::from_bytes(bytes));
                }
                if by == 0 && (1..=self.size()).contains(&count) {
                    self.ids.are(count);
                }
            }
            Message::Calls(told, asks) => {
                self.hear(by, &told);
                if asks {
                    remote.answer(self, from);
                }
            }
            Message::Refused(turns, reason) => {
                let reason = Error::other(reason);
                let turn = |(what, number)| Turn { by, what, number, reason: reason.clone() };
                self.note_refused(by, turns.into_iter().map(turn).collect());
            }
            Message::Left(why, how, told) => {
                self.hear(by, &told);
                self.goes(remote, by, &why, how, true);
                // The leaving rank raises the signals this rank still awaits, once it knows of
                // them.
                if how == Departure::AtOnce && self.signals.awaits_any(remote.own, by) {
                    remote.answer(self, from);
                }
            }
            Message::Differ(what, calls) => {
                let known = calls.iter().filter(|(rank, _)| (*rank as usize) < self.size());
                let calls = known.filter_map(|(rank, word)| Some((Rank(*rank), word.call()?)));
                let calls = calls.collect();
                self.ended(&Error::from(Mismatch { name: self.name, what, calls, ended: true }));
            }
        }
    }

    fn failed(&self, error: &Error) {
        self.ended(error);
    }

    fn left_out(&self, why: &str) {
        let Some(remote) = &self.remote else { return };
        let (name, rank, why) = (self.name, Rank::at(remote.own), why.to_owned());
        self.ended(&Error::from(Excluded { name, rank, why, site: None }));
    }

    fn died(&self, rank: Rank, why: &str) {
        self.state.lock().dead.push(rank.index());
        self.stopped(rank, why);
    }

    fn stopped(&self, rank: Rank, why: &str) {
        let mut state = self.state.lock();
        if let Some(left) = state.left.iter_mut().find(|left| left.rank == rank.index()) {
            // Either no rank misses it, or a rank misses it in an exchange, and then reports it
            // together with the ranks that leave because of it.
            if std::mem::take(&mut left.finished) {
                left.why = format!("{}; {why}", left.why);
            }
            return;
        }
        drop(state);
        let last = self.members.get(rank.index()).and_then(Member::last);
        let why = match last {
            Some(last) => last_call::with_operation(why, &last),
            None => why.to_owned(),
        };
        if let Some(remote) = &self.remote {
            self.goes(remote, rank.index(), &why, Departure::AtOnce, false);
        }
    }
}

//! A family whose members are other processes.
//!
//! Nobody reads another process's memory, so each rank keeps what the others last told it: what they
//! called, which signals they raised and await, what they refused, why they left. Calls cost nothing
//! for that. A rank whose host waits tells the others what it called, and asks them for theirs, some
//! times a second; what is compared with it is compared as between threads. What a rank calls last
//! reaches the others before its end: with its departure, and with its part of `finish`.

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
use crate::control::Seldom;
use crate::error::{Error, Excluded, Mismatch};
use crate::lock::Mutex;

/// The way to the other ranks.
pub(super) struct Remote {
    wire: Arc<dyn Wire>,
    own: usize,
    /// When this rank asked the others last.
    asked: Mutex<Option<Instant>>,
    /// When each rank told last what it called.
    heard: Mutex<Vec<Option<Instant>>>,
    /// Since when NCCL says that something is wrong.
    failing: OnceLock<Instant>,
}

/// What a rank tells of its calls.
#[derive(Serialize, Deserialize)]
struct Told {
    calls: Calls,
    signals: signals::Told,
}

#[derive(Serialize, Deserialize)]
enum Message {
    /// An id of NCCL's that the sender has made, and how many there are. What rank 0 says of that
    /// counts.
    Id(Vec<u8>, usize),
    /// What the sender called, and whether it wants to know the same.
    Calls(Told, bool),
    /// Calls that the sender refused, and why.
    Refused(Vec<(What, u64)>, String),
    /// The sender will enqueue nothing more.
    Left(String, Departure, Told),
    /// Ranks called what differs: what, and what each called.
    Differ(String, Vec<(u32, Word)>),
}

/// How many calls of each kind are told.
const TOLD: usize = 64;

/// How often a rank that waits asks the others, for each [`MANY`] of them.
const EVERY: Duration = Duration::from_millis(100);
const MANY: usize = 64;

/// How many times as long it rests while it lacks an answer.
const UNANSWERED: u32 = 16;

/// How long the news of a death may take.
const NEWS: Duration = Duration::from_millis(500);

/// How long a rank that leaves waits for the others' answers.
const ANSWER: Duration = Duration::from_millis(100);

impl Remote {
    pub(super) fn new(wire: Arc<dyn Wire>, join: &Join) -> Self {
        let heard = Mutex::new(vec![None; join.size as usize]);
        let (own, asked, failing) = (join.rank as usize, Mutex::default(), OnceLock::new());
        Self { wire, own, asked, heard, failing }
    }

    /// When a rank told last what it called.
    pub(super) fn heard(&self, rank: usize) -> Option<Instant> {
        let heard = self.heard.lock();
        heard.get(rank).copied().flatten()
    }

    /// Hears the others from here on.
    pub(super) fn listen(&self, family: &Arc<Family>) {
        let family: Arc<dyn Listener> = family.clone();
        self.wire.listen(Arc::downgrade(&family) as Weak<dyn Listener>);
    }

    /// Tells the others the id that this rank has made.
    pub(super) fn tell_id(&self, ids: &Ids) {
        if let Some((id, count)) = ids.by(self.own) {
            self.tell(None, &Message::Id(id.to_bytes().to_vec(), count));
        }
    }

    fn tell(&self, to: Option<Rank>, message: &Message) {
        self.wire.send(to, message);
    }

    /// What this rank called.
    fn told(&self, family: &Family) -> Told {
        Told { calls: family.of(self.own).tell(TOLD), signals: family.signals.tell(self.own) }
    }

    /// This rank will enqueue nothing more.
    pub(super) fn leave(&self, family: &Family, why: &str, how: Departure) {
        self.tell(None, &Message::Left(why.to_owned(), how, self.told(family)));
    }

    /// This rank refused calls.
    pub(super) fn refuse(&self, turns: &[Turn], reason: &Error) {
        let turns = turns.iter().map(|turn| (turn.what, turn.number)).collect();
        self.tell(None, &Message::Refused(turns, reason.to_string()));
    }

    /// Ranks called what differs.
    pub(super) fn differ(&self, mismatch: &Mismatch) {
        let calls = mismatch.calls.iter().map(|(rank, call)| (rank.0, Word::new(call, 0)));
        self.tell(None, &Message::Differ(mismatch.what.clone(), calls.collect()));
    }

    /// Tells the others what this rank called and asks them for theirs, unless it just did.
    fn ask(&self, family: &Family) {
        let rarely = u32::try_from(family.size() / MANY).unwrap_or(u32::MAX);
        let every = EVERY.saturating_mul(rarely.saturating_add(1));
        let mut asked = self.asked.lock();
        let is_soon = |then: Instant| {
            // What is not answered in time is not answered sooner for being asked again.
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

    /// Whether all ranks that are there have told what they called since then.
    fn is_answered(&self, family: &Family, since: Instant) -> bool {
        let state = family.state.lock();
        let has_left = |rank: usize| state.left.iter().any(|left| left.rank == rank);
        let heard = self.heard.lock();
        let mut silent = heard.iter().enumerate().filter(|(_, at)| at.is_none_or(|at| at < since));
        silent.all(|(rank, _)| rank == self.own || has_left(rank))
    }

    /// Tells one rank what this one called.
    fn answer(&self, family: &Family, to: Rank) {
        self.tell(Some(to), &Message::Calls(self.told(family), false));
    }
}

impl Family {
    /// A rank's host waits: what the others called is of interest.
    pub(in crate::nccl) fn ask(&self) {
        if let Some(remote) = &self.remote {
            remote.ask(self);
        }
    }

    /// A rank has said that it leaves: gives the others the time to say what they wait for.
    pub(in crate::nccl) fn hear_them_out(&self) {
        if self.remote.is_some() {
            std::thread::sleep(ANSWER);
        }
    }

    /// NCCL found an error by itself: whether that may be a process's death, of which this rank hears in a
    /// moment.
    pub(in crate::nccl) fn may_be_a_death(&self) -> bool {
        let Some(remote) = &self.remote else { return false };
        remote.failing.get_or_init(Instant::now).elapsed() < NEWS
    }

    /// A call of NCCL's failed. If a process has died, that is the cause: gives the news the time to come.
    pub(in crate::nccl) fn hear_of_deaths(&self, health: &Health) {
        let started = Instant::now();
        while self.remote.is_some() && health.is_well() && started.elapsed() < NEWS {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What the others have to know of a rank's calls at its end; nothing where they see them.
    pub(in crate::nccl) fn last_words(&self) -> Vec<u8> {
        let told = self.remote.as_ref().map(|remote| remote.told(self));
        told.map_or_else(Vec::new, |told| postcard::to_stdvec(&told).unwrap_or_default())
    }

    /// Another rank's last words.
    pub(in crate::nccl) fn hear_last_words(&self, from: usize, words: &[u8]) {
        let is_other = self.remote.as_ref().is_some_and(|remote| remote.own != from);
        // A rank that was dropped has none.
        if let Ok(told) = postcard::from_bytes::<Told>(words)
            && is_other
        {
            self.hear(from, &told);
        }
    }

    /// A rank of another process leaves. What it refused or called otherwise before is the cause, where
    /// this one waits for that.
    fn goes(&self, remote: &Remote, by: usize, why: &str, how: Departure, has_told: bool) {
        if how == Departure::AtOnce {
            self.look(remote.own);
        }
        self.departed(by, why, how, has_told);
    }

    /// What a rank of another process called.
    fn hear(&self, from: usize, told: &Told) {
        let Some(member) = self.members.get(from) else { return };
        // Messages come on one thread, last words on the rank's own.
        let _one = self.hearing.lock();
        member.recorder(self.size()).hear(&told.calls);
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
            static UNREAD: Seldom = Seldom::new();
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
                // It raises what this rank still waits for, once it knows of it.
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
        let mut state = self.state.lock();
        state.dead.push(rank.index());
        if let Some(left) = state.left.iter_mut().find(|left| left.rank == rank.index()) {
            // It is missed by nobody, or by who waits for it in an exchange: and then with those who leave
            // because of it.
            if std::mem::take(&mut left.finished) {
                left.why = format!("{}; {why}", left.why);
            }
            return;
        }
        drop(state);
        let last = self.members.get(rank.index()).and_then(Member::last);
        let why = match last {
            Some(last) => format!("{why}; the last call that is known of it: {last}"),
            None => why.to_owned(),
        };
        if let Some(remote) = &self.remote {
            self.goes(remote, rank.index(), &why, Departure::AtOnce, false);
        }
    }
}

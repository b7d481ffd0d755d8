//! Requests of several threads, in one order on all ranks.
//!
//! A request is in the order as soon as every rank has submitted its key; one list, under one lock,
//! decides. Each rank issues the list from its beginning, so nobody waits for a request that
//! somebody lacks while another could be issued.
//!
//! Ranks of one process share the list. Over a network each has a copy, and rank 0's decides: the
//! others tell it what they submit, and it tells them the places. When a rank is gone no request
//! that it has not submitted is issued any more, so nobody has to decide instead of rank 0.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::RateLimited;
use crate::Rank;
use crate::backend::{self, Awaits, Listener, Wire};
use crate::error::{Ranks, Site};
use crate::lock::{Mutex, MutexGuard};

/// What the ranks have submitted and issued.
pub(crate) struct Agenda {
    state: Mutex<State>,
    changed: Condvar,
    /// Of a copy: the way to the others. None where all ranks share this one.
    wire: Option<Arc<dyn Wire>>,
    /// Whether places are given here.
    decides: bool,
}

/// The rank whose copy decides.
const DECIDES: Rank = Rank(0);

/// What copies tell each other.
#[derive(Serialize, Deserialize)]
enum AgendaMessage<'a> {
    Submitted { key: &'a str, site: Site },
    Placed { key: &'a str, position: u64 },
    Left { why: &'a str },
}

struct State {
    /// By key, what some ranks have submitted and some have not.
    open: HashMap<String, Open>,
    /// How many requests are in the order.
    placed: u64,
    /// How many requests each rank has issued.
    issued: Vec<u64>,
    /// The request that each rank is issuing.
    turns: Vec<Option<(String, Site)>>,
    /// Why a rank will submit nothing more.
    gone: Vec<Option<String>>,
}

struct Open {
    request: Arc<Request>,
    /// Where each rank submitted it.
    sites: Vec<Option<Site>>,
}

/// What every rank has submitted, or will.
pub(crate) struct Request {
    key: String,
    /// Its number in the order.
    position: OnceLock<u64>,
}

impl Agenda {
    pub(crate) fn new(size: usize, own: Rank, wire: Option<Arc<dyn Wire>>) -> Self {
        let (issued, turns, gone) = (vec![0; size], vec![None; size], vec![None; size]);
        let state = State { open: HashMap::new(), placed: 0, issued, turns, gone };
        let decides = wire.is_none() || own == DECIDES;
        Self { state: Mutex::new(state), changed: Condvar::new(), wire, decides }
    }

    /// Hears the other ranks' copies from here on.
    pub(crate) fn listen(self: &Arc<Self>) {
        if let Some(wire) = &self.wire {
            let listener: Arc<dyn Listener> = self.clone();
            wire.listen(Arc::downgrade(&listener));
        }
    }

    /// Does not wait, so it may be called under the lock: what is told is in the order of what
    /// happens.
    fn send(&self, message: &AgendaMessage<'_>) {
        if let Some(wire) = &self.wire {
            wire.send(None, message);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A rank submits a key, which it has not in flight; when all have, it gets its place.
    pub(crate) fn submit(&self, rank: Rank, key: &str, site: Site) -> Arc<Request> {
        let mut state = self.state();
        let request = state.submit(rank, key, site);
        self.send(&AgendaMessage::Submitted { key, site });
        self.decide(&mut state, key);
        request
    }

    /// Gives a key its place if every rank has submitted it, where that is decided.
    fn decide(&self, state: &mut State, key: &str) {
        let is_whole = |open: &Open| open.sites.iter().all(Option::is_some);
        if self.decides && state.open.get(key).is_some_and(is_whole) {
            let position = state.placed;
            state.set_position(key, position);
            self.send(&AgendaMessage::Placed { key, position });
            self.changed.notify_all();
        }
    }

    /// Whether a rank may issue a request: it has issued all that come before.
    pub(crate) fn is_turn(&self, rank: Rank, request: &Request) -> bool {
        request.position.get() == self.state().issued.get(rank.index())
    }

    /// A rank begins to issue the request whose turn it is.
    pub(crate) fn begins(&self, rank: Rank, key: &str, site: Site) {
        self.state().turns[rank.index()] = Some((key.to_owned(), site));
    }

    /// A rank has issued the request whose turn it was.
    pub(crate) fn issued(&self, rank: Rank) {
        let mut state = self.state();
        state.turns[rank.index()] = None;
        state.issued[rank.index()] += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// A rank will submit nothing more.
    pub(crate) fn leave(&self, rank: Rank, why: &str) {
        let mut state = self.state();
        state.leave(rank, why);
        self.send(&AgendaMessage::Left { why });
        self.changed.notify_all();
    }

    pub(crate) fn has_left(&self, rank: Rank) -> bool {
        self.state().gone[rank.index()].is_some()
    }

    /// The ranks that left without submitting a request, and why.
    pub(crate) fn lost(&self, request: &Request) -> Vec<(Rank, String)> {
        let state = self.state();
        let gone = |rank: Rank| Some((rank, state.gone[rank.index()].clone()?));
        state.missing(request).into_iter().filter_map(gone).collect()
    }

    /// Rests until there is news.
    pub(crate) fn wait(&self, rank: Rank, request: &Request, at_most: Duration) {
        let state = self.state();
        if request.position.get() != state.issued.get(rank.index()) {
            // A spurious or early wake-up is fine: the caller looks again.
            let _ = self.changed.wait_timeout(state, at_most);
        }
    }

    /// What a rank's request waits for.
    pub(crate) fn report(&self, rank: Rank, request: &Request) -> String {
        let (state, key) = (self.state(), &request.key);
        let missing = state.missing(request);
        if missing.is_empty() {
            return format!("`{key}` comes after {}", state.turn(rank));
        }
        let have = if missing.len() == 1 { "has" } else { "have" };
        let mut report = format!("{} {have} not submitted `{key}`", Ranks(&missing));
        for rank in missing {
            let mut waits: Vec<(&str, Site)> = state
                .open
                .iter()
                .filter_map(|(key, open)| open.sites[rank.index()].map(|site| (key.as_str(), site)))
                .collect();
            waits.sort_unstable_by_key(|(key, _)| *key);
            if let Some((key, site)) = waits.first() {
                let more = match waits.len() - 1 {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                report += &format!("; rank {rank} waits with `{key}` (at {}){more}", site);
            }
        }
        report
    }
}

/// One rank's wait for the turn of its request.
#[derive(Clone)]
pub(crate) struct Submission {
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) request: Arc<Request>,
    pub(crate) rank: Rank,
    /// The communicator's id.
    pub(crate) comm: u64,
}

impl backend::Submission for Submission {
    fn comm(&self) -> u64 {
        self.comm
    }

    fn rank(&self) -> Rank {
        self.rank
    }

    fn key(&self) -> &str {
        &self.request.key
    }

    fn awaits(&self) -> Awaits {
        let state = self.agenda.state();
        let rank = self.rank.index();
        let missing = state.missing(&self.request);
        match () {
            () if missing.iter().any(|rank| state.gone[rank.index()].is_some()) => Awaits::Nothing,
            () if !missing.is_empty() => Awaits::Ranks(missing),
            // Who has the turn and has not begun goes on by itself.
            () if state.turns[rank].is_some() => Awaits::Turn,
            () => Awaits::Nothing,
        }
    }

    fn turn(&self) -> String {
        self.agenda.state().turn(self.rank)
    }

    fn kept(&self) -> Box<dyn backend::Submission> {
        Box::new(self.clone())
    }
}

impl Listener for Agenda {
    fn message(&self, from: Rank, message: &[u8]) {
        let mut state = self.state();
        match postcard::from_bytes(message) {
            Ok(AgendaMessage::Submitted { key, site }) if from.index() < state.gone.len() => {
                state.submit(from, key, site);
                self.decide(&mut state, key);
            }
            Ok(AgendaMessage::Placed { key, position }) if from == DECIDES => {
                state.set_position(key, position)
            }
            Ok(AgendaMessage::Left { why }) => state.leave(from, why),
            _ => {
                static NONSENSE: RateLimited = RateLimited::new();
                NONSENSE.warn(format_args!("rank {from} says what no rank says of its requests"));
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn died(&self, rank: Rank, why: &str) {
        self.state().leave(rank, why);
        self.changed.notify_all();
    }
}

impl State {
    fn submit(&mut self, rank: Rank, key: &str, site: Site) -> Arc<Request> {
        let entry = self.open.entry(key.to_owned()).or_insert_with(|| Open {
            request: Arc::new(Request { key: key.to_owned(), position: OnceLock::new() }),
            sites: vec![None; self.issued.len()],
        });
        entry.sites[rank.index()] = Some(site);
        entry.request.clone()
    }

    fn set_position(&mut self, key: &str, position: u64) {
        if let Some(open) = self.open.remove(key) {
            open.request.position.get_or_init(|| position);
            self.placed = position + 1;
        }
    }

    fn leave(&mut self, rank: Rank, why: &str) {
        if let Some(gone) = self.gone.get_mut(rank.index()) {
            gone.get_or_insert_with(|| why.to_owned());
        }
    }

    fn turn(&self, rank: Rank) -> String {
        match &self.turns[rank.index()] {
            Some((key, site)) => {
                format!("`{key}` (at {}), which rank {rank} is still issuing", site)
            }
            None => format!("requests that rank {rank} is still issuing"),
        }
    }

    /// The ranks that have not submitted a request.
    fn missing(&self, request: &Request) -> Vec<Rank> {
        let open = self.open.get(&request.key).filter(|_| request.position.get().is_none());
        let sites = open.iter().flat_map(|open| open.sites.iter().enumerate());
        sites.filter(|(_, site)| site.is_none()).map(|(rank, _)| Rank::at(rank)).collect()
    }
}

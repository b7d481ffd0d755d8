//! Orders the requests of several threads alike on all ranks.
//!
//! A request gets its position once every rank has submitted its key. One list, under one lock,
//! decides. Each rank issues requests in the order of the list, so an incomplete request never
//! blocks one that could be issued.
//!
//! Ranks of one process share the list. Over a network each has a copy, and rank 0 decides: the
//! others send it their submissions, and it sends the positions. No replacement for rank 0 is
//! needed, because once any rank is gone, requests that it has not submitted can never be issued.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::warn_of_malformed;
use crate::Rank;
use crate::backend::{self, Awaits, Listener, Wire};
use crate::error::{Ranks, Site};
use crate::lock::{Mutex, MutexGuard};

/// The submitted and issued requests.
pub(crate) struct Agenda {
    state: Mutex<State>,
    changed: Condvar,
    /// A copy's wire to the others; `None` if all ranks share this list.
    wire: Option<Arc<dyn Wire>>,
    /// Whether this copy assigns positions.
    decides: bool,
}

/// What mends requests that wait for each other: a rank's threads may all wait with other keys.
const THREADS: &str = "; all ranks must submit the same keys, and each rank needs a thread, or a \
                       task and `submit_async`, for each request in flight";

/// The rank that assigns positions.
const DECIDES: Rank = Rank(0);

#[derive(Serialize, Deserialize)]
enum AgendaMessage<'a> {
    Submitted { key: &'a str, site: Site },
    Placed { key: &'a str, position: u64 },
    Left { why: &'a str },
}

struct State {
    /// Requests without a position, by key.
    open: HashMap<String, Open>,
    /// The number of requests with a position.
    placed: u64,
    /// The number of requests that each rank has issued.
    issued: Vec<u64>,
    /// The request that each rank is issuing.
    turns: Vec<Option<(String, Site)>>,
    /// Why a rank will submit nothing more.
    gone: Vec<Option<String>>,
}

struct Open {
    request: Arc<Request>,
    /// Where each rank submitted the request.
    sites: Vec<Option<Site>>,
}

/// A request that every rank has submitted or will submit.
pub(crate) struct Request {
    key: String,
    position: OnceLock<u64>,
}

impl Request {
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

impl Agenda {
    pub(crate) fn new(size: usize, own: Rank, wire: Option<Arc<dyn Wire>>) -> Self {
        let (issued, turns, gone) = (vec![0; size], vec![None; size], vec![None; size]);
        let state = State { open: HashMap::new(), placed: 0, issued, turns, gone };
        let decides = wire.is_none() || own == DECIDES;
        Self { state: Mutex::new(state), changed: Condvar::new(), wire, decides }
    }

    /// Starts to receive the other ranks' messages.
    pub(crate) fn listen(self: &Arc<Self>) {
        if let Some(wire) = &self.wire {
            let listener: Arc<dyn Listener> = self.clone();
            wire.listen(Arc::downgrade(&listener));
        }
    }

    /// Does not block. Call it under the lock, so that messages are in the order of the changes.
    fn send(&self, message: &AgendaMessage<'_>) {
        if let Some(wire) = &self.wire {
            wire.send(None, message);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Submits a key that the rank has not in flight. Once all ranks have, the request gets its
    /// position.
    pub(crate) fn submit(&self, rank: Rank, key: &str, site: Site) -> Arc<Request> {
        let mut state = self.state();
        let request = state.submit(rank, key, site);
        self.send(&AgendaMessage::Submitted { key, site });
        self.decide(&mut state, key);
        request
    }

    /// Assigns a position if every rank has submitted the key and this copy decides.
    fn decide(&self, state: &mut State, key: &str) {
        let is_whole = |open: &Open| open.sites.iter().all(Option::is_some);
        if self.decides && state.open.get(key).is_some_and(is_whole) {
            let position = state.placed;
            state.set_position(key, position);
            self.send(&AgendaMessage::Placed { key, position });
            self.changed.notify_all();
        }
    }

    /// Whether a rank has issued all requests before this one.
    pub(crate) fn is_turn(&self, rank: Rank, request: &Request) -> bool {
        request.position.get() == self.state().issued.get(rank.index())
    }

    /// A rank starts to issue its next request.
    pub(crate) fn begins(&self, rank: Rank, key: &str, site: Site) {
        self.state().turns[rank.index()] = Some((key.to_owned(), site));
    }

    /// A rank has issued its current request.
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

    /// Waits for a change.
    pub(crate) fn wait(&self, rank: Rank, request: &Request, at_most: Duration) {
        let state = self.state();
        if request.position.get() != state.issued.get(rank.index()) {
            // A spurious or early wake-up is fine: the caller checks again.
            let _ = self.changed.wait_timeout(state, at_most);
        }
    }

    /// Describes what a rank's request waits for.
    pub(crate) fn report(&self, rank: Rank, request: &Request) -> String {
        let (state, key) = (self.state(), &request.key);
        let missing = state.missing(request);
        if missing.is_empty() {
            return format!("`{key}` comes after {}", state.turn(rank));
        }
        let have = if missing.len() == 1 { "has" } else { "have" };
        let mut report = format!("{} {have} not submitted `{key}`", Ranks(&missing));
        let mut others = "";
        for rank in missing {
            let mut waits: Vec<(&str, Site)> = state
                .open
                .iter()
                .filter_map(|(key, open)| open.sites[rank.index()].map(|site| (key.as_str(), site)))
                .collect();
            waits.sort_unstable_by_key(|(key, _)| *key);
            if let Some((key, site)) = waits.first() {
                others = THREADS;
                let more = match waits.len() - 1 {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                report += &format!("; rank {rank} waits with `{key}` (at {}){more}", site);
            }
        }
        report + others
    }
}

/// One rank's wait for its request's turn.
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
            // A request whose turn has come is about to begin.
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
            _ => warn_of_malformed(from, "its requests"),
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
            self.placed = position.saturating_add(1);
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

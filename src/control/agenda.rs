//! Requests of several threads, in one order on all ranks.
//!
//! A request is in the order as soon as every rank has submitted its key; one list, under one lock,
//! decides. Each rank issues the list from its beginning, so nobody waits for a request that somebody
//! lacks while another could be issued.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::Rank;
use crate::error::{Ranks, Site};

/// What the ranks have submitted and issued.
pub(crate) struct Agenda {
    state: Mutex<State>,
    news: Condvar,
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
    place: OnceLock<u64>,
}

impl Agenda {
    pub(crate) fn new(size: usize) -> Self {
        let (issued, turns, gone) = (vec![0; size], vec![None; size], vec![None; size]);
        let state = State { open: HashMap::new(), placed: 0, issued, turns, gone };
        Self { state: Mutex::new(state), news: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank submits a key, which it has not in flight; the last rank to do so gives it its place.
    pub(crate) fn submit(&self, rank: Rank, key: &str, site: Site) -> Arc<Request> {
        let mut state = self.state();
        let State { open, placed, issued, .. } = &mut *state;
        let entry = open.entry(key.to_owned()).or_insert_with(|| Open {
            request: Arc::new(Request { key: key.to_owned(), place: OnceLock::new() }),
            sites: vec![None; issued.len()],
        });
        entry.sites[rank.index()] = Some(site);
        let request = entry.request.clone();
        if entry.sites.iter().all(Option::is_some) {
            open.remove(key);
            request.place.get_or_init(|| *placed);
            *placed += 1;
            drop(state);
            self.news.notify_all();
        }
        request
    }

    /// Whether a rank may issue a request: it has issued all that come before.
    pub(crate) fn is_turn(&self, rank: Rank, request: &Request) -> bool {
        request.place.get() == self.state().issued.get(rank.index())
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
        self.news.notify_all();
    }

    /// A rank will submit nothing more.
    pub(crate) fn leave(&self, rank: Rank, why: &str) {
        self.state().gone[rank.index()].get_or_insert_with(|| why.to_owned());
        self.news.notify_all();
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
    pub(crate) fn rest(&self, rank: Rank, request: &Request, at_most: Duration) {
        let state = self.state();
        if request.place.get() != state.issued.get(rank.index()) {
            // A spurious or early wake-up is fine: the caller looks again.
            let _ = self.news.wait_timeout(state, at_most);
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
pub struct Submission {
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) request: Arc<Request>,
    pub(crate) rank: Rank,
    /// The communicator's id.
    pub(crate) comm: u64,
}

/// What a submission waits for.
pub(crate) enum Awaits {
    /// Nothing, one way or another.
    Nothing,
    /// These ranks, which have not submitted its key.
    Ranks(Vec<Rank>),
    /// The request that its rank is issuing.
    Turn,
}

impl Submission {
    pub(crate) fn key(&self) -> &str {
        &self.request.key
    }

    pub(crate) fn awaits(&self) -> Awaits {
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

    /// The request that its rank is issuing: `` `a` (at main.rs:3), which this rank is still issuing ``.
    pub(crate) fn turn(&self) -> String {
        self.agenda.state().turn(self.rank)
    }
}

impl State {
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
        let open = self.open.get(&request.key).filter(|_| request.place.get().is_none());
        let sites = open.iter().flat_map(|open| open.sites.iter().enumerate());
        sites.filter(|(_, site)| site.is_none()).map(|(rank, _)| Rank::at(rank)).collect()
    }
}

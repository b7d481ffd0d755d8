//! Which node each wait depends on, computed once per search instead of once per wait.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::thread::ThreadId;

use super::barrier::{At, Brings};
use super::comm::MemberId;
use super::deadlock::{Gathering, Need, Node, Why};
use super::state::State;
use super::stream::Task;
use super::wait::On;

/// One search over everything that waits.
pub(super) struct Looking<'s> {
    pub(super) state: &'s State,
    /// Every thread of the process waits.
    pub(super) all_wait: bool,
    /// For each communicator, by its health, the first wait made by one of its calls.
    within: HashMap<u64, usize>,
    /// For each communicator, by its health, the first wait that its end would end.
    users: OnceCell<HashMap<u64, usize>>,
    /// The first wait of each thread.
    threads: OnceCell<HashMap<ThreadId, usize>>,
    /// The streams whose queues hold ranks' next groups.
    turns: OnceCell<HashMap<MemberId, usize>>,
    /// The streams with closures that use device communicators; `None` for several streams.
    coming: OnceCell<HashMap<Brings, Option<usize>>>,
    /// The shared sets of needs.
    gatherings: RefCell<HashMap<Gathering, Vec<Need>>>,
}

impl<'s> Looking<'s> {
    pub(super) fn new(state: &'s State, all_wait: bool) -> Self {
        let within = state.waits.iter().filter_map(|(key, wait)| Some((wait.within?, key)));
        Self {
            state,
            all_wait,
            within: firsts(within),
            users: OnceCell::new(),
            threads: OnceCell::new(),
            turns: OnceCell::new(),
            coming: OnceCell::new(),
            gatherings: RefCell::default(),
        }
    }

    /// A need for everything that a gathering lacks, computed by `lacks` on first use.
    pub(super) fn gather(
        &self,
        gathering: Gathering,
        why: Why,
        lacks: impl FnOnce() -> Vec<Need>,
    ) -> Need {
        if !self.gatherings.borrow().contains_key(&gathering) {
            let lacks = lacks();
            self.gatherings.borrow_mut().insert(gathering, lacks);
        }
        Need { on: Some(Node::All(gathering)), why }
    }

    /// The needs of all gatherings that were used.
    pub(super) fn gathered(self) -> impl Iterator<Item = (Node, Vec<Need>)> {
        let gatherings = self.gatherings.into_inner().into_iter();
        gatherings.map(|(gathering, lacks)| (Node::All(gathering), lacks))
    }

    /// What a rank's next operations come after: its unfinished work, else its next call.
    pub(super) fn work(&self, place: MemberId) -> Option<Node> {
        match self.state.seen_member(place) {
            Some(member) if !member.is_idle() => self.own_work(place),
            Some(_) => self.caller(place),
            None => None,
        }
    }

    /// The stream with a rank's first unfinished group.
    pub(super) fn own_work(&self, place: MemberId) -> Option<Node> {
        let member = self.state.seen_member(place)?;
        let key = match &member.active {
            Some(active) => active.stream,
            None => *self.turns.get_or_init(|| self.find_turns()).get(&place)?,
        };
        Some(Node::Stream(key))
    }

    fn find_turns(&self) -> HashMap<MemberId, usize> {
        let queued = self.state.streams.iter().flat_map(|(key, stream)| {
            stream.queue.iter().filter_map(move |task| match task {
                Task::Group { place, unit, .. } => Some((*place, *unit, key)),
                _ => None,
            })
        });
        let is_next =
            |place, unit| self.state.seen_member(place).is_some_and(|member| member.turn == unit);
        firsts(queued.filter(|&(place, unit, _)| is_next(place, unit)).map(|(p, _, key)| (p, key)))
    }

    /// The node that would make a rank's next call; `None` if some thread may make it.
    pub(super) fn caller(&self, place: MemberId) -> Option<Node> {
        let member = self.state.seen_member(place)?;
        let health = member.health.as_ref().filter(|health| health.is_well())?;
        if member.gone.is_some() {
            return None;
        }
        if let Some(wait) = self.within(health.id()) {
            return Some(wait);
        }
        if !self.all_wait {
            return None;
        }
        // The communicator's owner is waiting; this is its most likely wait.
        let user = self.users.get_or_init(|| self.find_users()).get(&health.id());
        let at_home = || {
            let threads = self.threads.get_or_init(|| self.find_threads());
            threads.get(&member.home?)
        };
        Some(user.or_else(at_home).map_or(Node::Nobody, |&key| Node::Wait(key)))
    }

    /// The wait inside a communicator's current call, by its health.
    pub(super) fn within(&self, health: u64) -> Option<Node> {
        self.within.get(&health).map(|&key| Node::Wait(key))
    }

    fn find_users(&self) -> HashMap<u64, usize> {
        let waits = self.state.waits.iter();
        firsts(
            waits.flat_map(|(key, wait)| {
                wait.users().into_iter().map(move |health| (health.id(), key))
            }),
        )
    }

    fn find_threads(&self) -> HashMap<ThreadId, usize> {
        firsts(self.state.waits.iter().map(|(key, wait)| (wait.thread, key)))
    }

    /// The stream by which a rank comes to a barrier, if its thread cannot launch another closure
    /// meanwhile: it waits for that stream, or there is none.
    fn only_by(&self, place: MemberId, stream: usize) -> Option<Node> {
        let is_only = match self.caller(place)? {
            Node::Wait(wait) => match &self.state.waits.get(wait)?.on {
                On::Point(point) => point.stream().key == stream,
                On::Idle(_) | On::Exchange(_) | On::Submission(_) => true,
            },
            Node::Nobody | Node::Stream(_) | Node::All(_) => true,
        };
        is_only.then_some(Node::Stream(stream))
    }

    /// The needs of a closure at a barrier.
    pub(super) fn barrier_needs(&self, at: &At) -> Vec<Need> {
        let place = at.of.place;
        let Some(comm) = self.state.seen_comm(place).filter(|comm| !comm.broken) else {
            return Vec::new();
        };
        let need = |peer: usize| {
            let of = Brings { place: place.of(peer), ..at.of };
            let on = match self.coming.get_or_init(|| self.state.coming()).get(&of) {
                Some(Some(key)) => self.only_by(of.place, *key),
                // One of the streams may be able to proceed.
                Some(None) => None,
                None => self.caller(of.place),
            };
            Need { on, why: Why::Part { peer } }
        };
        let why = Why::Barrier { place, index: at.index, peer: place.rank };
        let gathering = at.gathering();
        vec![self.gather(gathering, why, || comm.missing(at).into_iter().map(need).collect())]
    }
}

/// The first value of each key.
pub(super) fn firsts<K: std::hash::Hash + Eq, V>(
    all: impl Iterator<Item = (K, V)>,
) -> HashMap<K, V> {
    let mut firsts = HashMap::new();
    for (key, value) in all {
        firsts.entry(key).or_insert(value);
    }
    firsts
}

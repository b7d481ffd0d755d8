//! How ranks of several processes find each other's memory.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::super::comm::{Member, MemberId};
use super::super::state::{Out, State};
use super::super::{ENGINE, Engine};
use super::{Place, Remote, There};
use crate::backend::{Departure, Join, Listener, Wire};
use crate::communicator::Health;
use crate::error::{Error, Excluded, InitFailed};
use crate::host::shared::{self, Address, Peer};
use crate::lock::Mutex;
use crate::{Rank, Result};

/// How long a process on this machine may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// What ranks tell each other before they share memory.
#[derive(Serialize, Deserialize)]
enum Hello {
    /// Where the rank's process shares its memory.
    At(Address),
    /// The rank's process has mapped the memory of every other one.
    Ready,
}

/// A rank that joins.
pub struct Joining {
    member: Option<Member>,
    health: Arc<Health>,
    name: &'static str,
    wire: Option<Arc<dyn Wire>>,
    ear: Option<Arc<Ear>>,
    is_ready: bool,
}

/// Receives what the control plane brings for a rank.
#[derive(Debug)]
pub(in crate::host) struct Ear {
    place: MemberId,
    name: &'static str,
    /// By rank, whether it has mapped everything.
    ready: Mutex<Vec<bool>>,
}

impl Joining {
    pub(in crate::host) fn new(join: Join) -> Result<Self> {
        let (wire, health) = (join.wire.clone(), join.health.clone());
        let (name, size) = (join.name, join.size as usize);
        let address = match &wire {
            None => None,
            Some(_) => Some(own_address().map_err(|error| {
                let why = format!("memory for ranks in several processes: {error}");
                Error::from(InitFailed { size, ranks: Vec::new(), why })
            })?),
        };
        let member = ENGINE.join(join);
        let mut joining = Self { member: None, health, name, wire, ear: None, is_ready: false };
        if let (Some(wire), Some(address)) = (&joining.wire, address) {
            let place = member.place();
            let ready = Mutex::new(vec![false; size]);
            let ear = Arc::new(Ear { place, name, ready });
            let listener: Arc<dyn Listener> = ear.clone();
            wire.listen(Arc::downgrade(&listener) as Weak<dyn Listener>);
            wire.send(None, &Hello::At(address));
            joining.ear = Some(ear);
        }
        joining.member = Some(member);
        Ok(joining)
    }

    /// The rank, once its process and all others share their memory.
    pub(in crate::host) fn joined(&mut self) -> Result<Option<Member>> {
        let (Some(wire), Some(ear)) = (&self.wire, &self.ear) else {
            return Ok(self.member.take());
        };
        self.health.check()?;
        for (rank, address) in ENGINE.addresses(ear.place) {
            let peer = shared::connect(&address, ANSWER);
            let peer = peer.map_err(|error| self.unreachable(ear.place, rank, &error))?;
            ENGINE.connected(ear.place, rank, peer);
        }
        if !self.is_ready && ENGINE.knows_all(ear.place) {
            self.is_ready = true;
            wire.send(None, &Hello::Ready);
        }
        let all = self.is_ready && ENGINE.all_ready(ear);
        if all && let Some(member) = &mut self.member {
            member.keep(ear.clone());
        }
        Ok(if all { self.member.take() } else { None })
    }

    fn unreachable(&self, place: MemberId, rank: usize, error: &io::Error) -> Error {
        let size = ENGINE.size(place);
        let why = match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                "is on another machine, and ranks without a GPU share memory: start all of them on one machine, or use GPUs"
                    .to_owned()
            }
            _ => format!("does not share its memory: {error}"),
        };
        log::debug!("{}: rank {rank} {why}", self.name);
        InitFailed { size, ranks: vec![Rank::at(rank)], why }.into()
    }
}

/// How long a rank waits, before it leaves, until its peers can read its last events.
const LAST: Duration = Duration::from_secs(1);

fn own_address() -> io::Result<Address> {
    let arena = shared::open()?;
    ENGINE.listen()?;
    ENGINE.bury();
    Ok(arena.address()?.clone())
}

impl Engine {
    /// Starts the thread that takes in what other processes say while no thread of a rank does.
    fn listen(&'static self) -> io::Result<()> {
        static STARTED: Mutex<bool> = Mutex::new(false);
        let mut started = STARTED.lock();
        if !*started {
            let listen = move || loop {
                shared::sleep(Duration::from_secs(1));
                self.hear(true);
            };
            std::thread::Builder::new().name("typed-nccl events".to_owned()).spawn(listen)?;
            *started = true;
        }
        Ok(())
    }

    /// Waits until the peers can read everything that was said, even once this process has ended.
    pub(in crate::host) fn say_all(&self) {
        let started = Instant::now();
        while !shared::all_sent() && started.elapsed() < LAST {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Forgets processes that have ended.
    fn bury(&self) {
        let mut out = Out::take();
        let mut state = self.lock();
        state.hear(&mut out);
        shared::bury();
        self.finish(state, out, false);
    }

    /// Takes in what other processes have said.
    pub(in crate::host) fn hear(&self, inline: bool) {
        if shared::has_news() {
            let mut out = Out::take();
            let mut state = self.lock();
            state.hear(&mut out);
            self.finish(state, out, inline);
        }
    }

    fn with_remote<T>(&self, place: MemberId, with: impl FnOnce(&mut Remote) -> T) -> Option<T> {
        let mut state = self.lock();
        Some(with(state.comm(place)?.remote.as_mut()?))
    }

    /// The processes that this one has not mapped.
    fn addresses(&self, place: MemberId) -> Vec<(usize, Address)> {
        let known = |(rank, place): (usize, &Place)| match place {
            Place::Known(address) => Some((rank, address.clone())),
            Place::Unknown | Place::Here | Place::There(_) => None,
        };
        let known =
            |remote: &mut Remote| remote.ranks.iter().enumerate().filter_map(known).collect();
        self.with_remote(place, known).unwrap_or_default()
    }

    fn connected(&self, place: MemberId, rank: usize, peer: Arc<Peer>) {
        let stream = self.open_stream();
        let there = There { peer, stream, puts: 0, is_dead: false };
        self.with_remote(place, |remote| {
            if matches!(remote.ranks[rank], Place::Known(_)) {
                remote.ranks[rank] = Place::There(Box::new(there));
            }
        });
    }

    fn knows_all(&self, place: MemberId) -> bool {
        let is_known = |place: &Place| matches!(place, Place::Here | Place::There(_));
        self.with_remote(place, |remote| remote.ranks.iter().all(is_known)).unwrap_or(false)
    }

    fn all_ready(&self, ear: &Ear) -> bool {
        let own = self.with_remote(ear.place, |remote| remote.own()).unwrap_or_default();
        ear.ready.lock().iter().zip(own).all(|(ready, own)| *ready || own)
    }

    fn size(&self, place: MemberId) -> usize {
        self.lock().comm(place).map_or(0, |comm| comm.size())
    }

    /// Ends a communicator for a reason of the control plane.
    fn ended(&self, place: MemberId, error: &Error) {
        let mut out = Out::take();
        let mut state = self.lock();
        state.hear(&mut out);
        state.end(place, &[], &|_| error.clone(), &mut out);
        self.finish(state, out, false);
    }
}

impl Listener for Ear {
    fn message(&self, from: Rank, message: &[u8]) {
        let rank = from.index();
        match postcard::from_bytes(message) {
            Ok(Hello::At(address)) if !shared::is_own(&address) => {
                ENGINE.with_remote(self.place, |remote| {
                    if let Some(place @ Place::Unknown) = remote.ranks.get_mut(rank) {
                        *place = Place::Known(address);
                    }
                });
            }
            Ok(Hello::At(_)) => {}
            Ok(Hello::Ready) => {
                if let Some(ready) = self.ready.lock().get_mut(rank) {
                    *ready = true;
                }
            }
            Err(_) => log::error!("{}: rank {rank} sent what nobody reads", self.name),
        }
    }

    fn failed(&self, error: &Error) {
        ENGINE.ended(self.place, error);
    }

    fn left_out(&self, why: &str) {
        let (name, rank, why) = (self.name, Rank::at(self.place.rank), why.to_owned());
        ENGINE.ended(self.place, &Error::from(Excluded { name, rank, why, site: None }));
    }

    fn died(&self, rank: Rank, why: &str) {
        let mut out = Out::take();
        let mut state = ENGINE.lock();
        state.hear(&mut out);
        state.died(self.place.of(rank.index()), why, &mut out);
        ENGINE.finish(state, out, false);
    }

    fn stopped(&self, rank: Rank, why: &str) {
        let mut out = Out::take();
        let mut state = ENGINE.lock();
        state.hear(&mut out);
        let place = self.place.of(rank.index());
        if state.seen_comm(place).is_some_and(|comm| comm.is_copy(place.rank)) {
            state.depart(place, why, Departure::AtOnce, &mut out);
        }
        ENGINE.finish(state, out, false);
    }
}

impl State {
    /// A rank's process has ended, cannot be reached, or has nothing to do with the communicator
    /// any more.
    fn died(&mut self, place: MemberId, why: &str, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        if place.rank >= comm.size() || !comm.is_copy(place.rank) {
            return;
        }
        if let Some(remote) = &mut comm.remote {
            remote.ranks[place.rank].dies();
        }
        let member = &mut comm.members[place.rank];
        if let Some(gone) = &mut member.gone {
            // Either no rank misses it, or a rank misses it in an exchange, and then reports it.
            if std::mem::take(&mut gone.finished) {
                gone.why = format!("{}; {why}", gone.why);
            }
        } else {
            let why = match member.last {
                Some(last) => format!("{why}; the last call that is known of it: {last}"),
                None => why.to_owned(),
            };
            self.depart(place, &why, Departure::AtOnce, out);
        }
        self.end_moving(place, out);
    }
}

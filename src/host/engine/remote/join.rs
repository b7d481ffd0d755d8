//! How ranks of several processes find each other's memory.

use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use super::super::comm::{Member, MemberId};
use super::super::state::{Out, State};
use super::super::{ENGINE, Engine};
use super::packet::Event;
use super::{Place, Remote, There};
use crate::backend::{Departure, Join, Listener, Wire};
use crate::communicator::Health;
use crate::error::{Error, Excluded, InitFailed};
use crate::host::shared::{self, Address, Peer};
use crate::lock::Mutex;
use crate::{Rank, Result};

/// How long a process on this machine may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a process that does not answer is asked again. If it has died, the control plane says
/// so meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// What ranks tell each other before they share memory.
#[derive(Serialize, Deserialize)]
enum Hello {
    /// Where the rank's process shares its memory, and on which machine it is.
    At(Address, u64),
    /// The rank's process has mapped the memory of every other one.
    Ready,
}

/// A rank that joins.
pub struct Joining {
    member: Option<Member>,
    health: Arc<Health>,
    wire: Option<Arc<dyn Wire>>,
    ear: Option<Arc<Ear>>,
    is_ready: bool,
    /// Since when a process has not answered.
    since: Option<Instant>,
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
    pub(in crate::host) fn new(mut join: Join) -> Result<Self> {
        if join.size == 1 {
            // There is nobody to share with.
            join.wire = None;
        }
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
        let mut joining =
            Self { member: None, health, wire, ear: None, is_ready: false, since: None };
        if let (Some(wire), Some(address)) = (&joining.wire, address) {
            let place = member.place();
            let ready = Mutex::new(vec![false; size]);
            let ear = Arc::new(Ear { place, name, ready });
            let listener: Arc<dyn Listener> = ear.clone();
            wire.listen(Arc::downgrade(&listener) as Weak<dyn Listener>);
            wire.send(None, &Hello::At(address, machine()));
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
        // Before the peers' health: they leave for the same reason.
        if let Some(rank) = ENGINE.elsewhere(ear.place) {
            let why = "is on another machine, and ranks without GPUs share memory: start all on one machine, or use GPUs";
            return Err(unreachable(ear.place, rank, why.to_owned()));
        }
        self.health.check()?;
        for (rank, address) in ENGINE.addresses(ear.place) {
            match shared::connect(&address, ANSWER) {
                Ok(peer) => ENGINE.connected(ear.place, rank, peer),
                Err(error) => {
                    let since = *self.since.get_or_insert_with(Instant::now);
                    if since.elapsed() < PATIENCE {
                        return Ok(None);
                    }
                    let why = format!("does not share its memory: {error}");
                    return Err(unreachable(ear.place, rank, why));
                }
            }
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
}

fn unreachable(place: MemberId, rank: usize, why: String) -> Error {
    InitFailed { size: ENGINE.size(place), ranks: vec![Rank::at(rank)], why }.into()
}

/// A number of this machine: of its start, and of its network, as containers are machines.
fn machine() -> u64 {
    let mut hasher = SipHasher13::new();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    read("/proc/sys/kernel/random/boot_id").hash(&mut hasher);
    std::fs::read_link("/proc/self/ns/net").ok().hash(&mut hasher);
    hasher.finish()
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
            Place::Unknown | Place::Here | Place::Elsewhere | Place::There(_) => None,
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

    /// A rank on another machine.
    fn elsewhere(&self, place: MemberId) -> Option<usize> {
        let is_elsewhere = |place: &Place| matches!(place, Place::Elsewhere);
        self.with_remote(place, |remote| remote.ranks.iter().position(is_elsewhere))?
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
            Ok(Hello::At(address, there)) if !shared::is_own(&address) => {
                ENGINE.with_remote(self.place, |remote| {
                    if let Some(place @ Place::Unknown) = remote.ranks.get_mut(rank) {
                        let is_here = there == machine();
                        *place = if is_here { Place::Known(address) } else { Place::Elsewhere };
                    }
                });
            }
            Ok(Hello::At(..)) => {}
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
        self.gone(rank, why, true);
    }

    fn stopped(&self, rank: Rank, why: &str) {
        self.gone(rank, why, false);
    }
}

impl Ear {
    /// Takes in that a rank is gone. The others are told too, or what this rank does because of it
    /// could reach them before the reason does.
    fn gone(&self, rank: Rank, why: &str, died: bool) {
        let mut out = Out::take();
        let mut state = ENGINE.lock();
        state.hear(&mut out);
        let of = self.place.of(rank.index());
        if state.is_news(of, died) {
            let gone = Event::Gone { rank: rank.0, why: why.to_owned(), died };
            // Who has said that it leaves is known to be gone.
            if let Some(comm) = state.comm(self.place)
                && comm.members[of.rank].gone.is_none()
            {
                comm.say(self.place.rank, &gone, &[]);
            }
            state.gone(of, why, died, &mut out);
        }
        ENGINE.finish(state, out, false);
    }
}

impl State {
    /// Whether it is not known yet that a rank of another process is gone.
    fn is_news(&mut self, place: MemberId, died: bool) -> bool {
        let Some(comm) = self.comm(place) else { return false };
        let is_copy = place.rank < comm.size() && comm.is_copy(place.rank);
        is_copy
            && match &comm.remote {
                Some(remote) if died => !remote.is_silent(place.rank),
                _ => comm.members[place.rank].gone.is_none(),
            }
    }

    /// A rank's communicator is poisoned; or its process has `died`: it has ended, cannot be
    /// reached, or has nothing to do with the communicator any more.
    pub(super) fn gone(&mut self, place: MemberId, why: &str, died: bool, out: &mut Out) {
        if !self.is_news(place, died) {
            return;
        }
        if !died {
            return self.depart(place, why, Departure::AtOnce, out);
        }
        let Some(comm) = self.comm(place) else { return };
        if let Some(remote) = &mut comm.remote {
            remote.ranks[place.rank].dies();
        }
        let puts = comm.stands_at_a_put(place.rank);
        let member = &mut comm.members[place.rank];
        if let Some(gone) = &mut member.gone {
            // Either no rank misses it, or a rank misses it in an exchange, and then reports it.
            let owes = member.to_come > 0 || puts;
            if std::mem::take(&mut gone.finished) || owes {
                gone.why = format!("{}; {why}", gone.why);
            }
            if owes {
                self.depart_again(place, out);
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

    /// A rank that had said that it leaves died before its work was over.
    pub(super) fn depart_again(&mut self, place: MemberId, out: &mut Out) {
        let gone = self.member(place).and_then(|member| member.gone.as_ref());
        if let Some(why) = gone.map(|gone| gone.why.clone()) {
            self.depart(place, &why, Departure::AtOnce, out);
        }
    }
}

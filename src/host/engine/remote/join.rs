//! How ranks of several processes find each other's memory.

use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher13;

use super::super::comm::{CommState, Member, MemberId};
use super::super::state::{Out, State};
use super::super::{ENGINE, Engine, Here};
use super::packet::{Event, Note};
use super::{Place, Reach, Remote, There};
use crate::backend::{Departure, Join, Listener, Wire};
use crate::communicator::Health;
use crate::error::{Error, Excluded, InitFailed, last_call};
use crate::host::far::{self, Spot};
use crate::host::shared::{self, Address};
use crate::lock::Mutex;
use crate::quiet::Quiet;
use crate::{Rank, Result};

/// How long a process on this machine may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// How long a process that does not answer is asked again. If it has died, the control plane says
/// so meanwhile; one that is stopped for less lives for it too.
const PATIENCE: Duration = Duration::from_secs(20);

/// A rank that joins.
pub struct Joining {
    member: Option<Member>,
    health: Arc<Health>,
    wire: Option<Arc<dyn Wire>>,
    ear: Option<Arc<Ear>>,
    has_told_spots: bool,
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
    /// By rank, the number of the last message that it asked for.
    asked: Mutex<Vec<u64>>,
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
        let ear = wire.as_ref().zip(address).map(|(wire, address)| {
            let ear = Arc::new(Ear::new(member.place(), name, size));
            let listener: Arc<dyn Listener> = ear.clone();
            wire.listen(Arc::downgrade(&listener) as Weak<dyn Listener>);
            wire.send(None, &Note::At(address, machine()));
            ear
        });
        let member = Some(member);
        let (has_told_spots, is_ready, since) = (false, false, None);
        Ok(Self { member, health, wire, ear, has_told_spots, is_ready, since })
    }

    /// The rank, once its process and all others share their memory.
    pub(in crate::host) fn joined(&mut self) -> Result<Option<Member>> {
        let (Some(wire), Some(ear)) = (&self.wire, &self.ear) else {
            return Ok(self.member.take());
        };
        // Before the peers' health: they leave for the same reason.
        for (rank, spots) in ENGINE.elsewhere(ear.place) {
            let fail =
                |why| unreachable(ear.place, rank, format!("is on another machine, and {why}"));
            let Some(own) = far::start().map_err(fail)? else { break };
            if !std::mem::replace(&mut self.has_told_spots, true) {
                wire.send(None, &Note::Spots(own.clone()));
            }
            let Some(spots) = spots else { continue };
            let Some(link) = far::link(&own, &spots) else {
                return Err(fail(
                    "MPI does not connect the two: start all by one `mpirun`".to_owned(),
                ));
            };
            ENGINE.connected(ear.place, rank, Reach::Far(link));
        }
        self.health.check_apart_from_peers()?;
        for (rank, address) in ENGINE.addresses(ear.place) {
            match shared::connect(&address, ANSWER) {
                Ok(peer) => ENGINE.connected(ear.place, rank, Reach::Mapped(peer)),
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
        self.since = None;
        if !self.is_ready && ENGINE.knows_all(ear.place) {
            self.is_ready = true;
            wire.send(None, &Note::Ready);
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

/// How often this process looks whether others still read what it says.
const LOOK: Duration = Duration::from_secs(1);

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
            let listen = move || {
                let _quiet = Quiet::enter();
                let mut rest = shared::Rest::new();
                let mut looked = Instant::now();
                loop {
                    rest.rest();
                    if !self.hear(Here::Small) {
                        self.release();
                    }
                    if looked.elapsed() > LOOK {
                        self.forget_strangers();
                        looked = Instant::now();
                    }
                }
            };
            std::thread::Builder::new().name("typed-nccl events".to_owned()).spawn(listen)?;
            *started = true;
            self.listens.store(true, Ordering::Release);
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
    pub(super) fn bury(&self) {
        // First, so that all that these have said is taken in.
        let ended = shared::ended();
        self.change(Here::Small, |state, out| {
            state.hear(out);
            for process in ended {
                state.forget(process, "its process has ended", out);
            }
        });
    }

    /// Ends what waits for processes that have ended, in communicators that broke. Nothing else
    /// would, once this process's ranks have left them and hear no news.
    fn release(&self) {
        let waits = self.lock().broken_and_moving().next().is_some();
        let ended = if waits { shared::ended() } else { Vec::new() };
        if !ended.is_empty() {
            self.change(Here::Small, |state, out| {
                state.hear(out);
                state.release(&ended, out);
            });
        }
    }

    /// Forgets processes that have stopped and share no communicator with this one: events would
    /// wait until they read them, and the control plane does not watch them any more.
    fn forget_strangers(&self) {
        let stalled = shared::stalled();
        if !stalled.is_empty() {
            self.change(Here::Small, |state, out| {
                state.hear(out);
                let shares = |process: &u64| state.comms.iter().any(|(_, it)| it.awaits(*process));
                stalled.into_iter().filter(|process| !shares(process)).for_each(shared::forget);
            });
        }
    }

    /// Takes in what other processes have said. Returns whether there was anything.
    pub(in crate::host::engine) fn hear(&self, here: Here) -> bool {
        let has_news = self.listens.load(Ordering::Acquire) && shared::has_news();
        if has_news {
            self.change(here, State::hear);
        }
        has_news
    }

    /// Takes in what other processes have said so far, also what another thread is taking in.
    pub(in crate::host) fn hear_all(&self) {
        if self.listens.load(Ordering::Acquire) && !self.hear(Here::Nothing) {
            drop(self.lock());
        }
    }

    pub(super) fn with_remote<T>(
        &self,
        place: MemberId,
        with: impl FnOnce(&mut Remote) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        Some(with(state.remote(place)?))
    }

    /// The processes that this one has not mapped.
    pub(super) fn addresses(&self, place: MemberId) -> Vec<(usize, Address)> {
        let known = |(rank, place): (usize, &Place)| match place {
            Place::Known(address) => Some((rank, address.clone())),
            Place::Unknown | Place::Here | Place::Elsewhere(_) | Place::There(_) => None,
        };
        let known =
            |remote: &mut Remote| remote.ranks.iter().enumerate().filter_map(known).collect();
        self.with_remote(place, known).unwrap_or_default()
    }

    pub(super) fn connected(&self, place: MemberId, rank: usize, reach: Reach) {
        let stream = self.open_stream();
        let there = There { reach, stream, puts: 0, is_dead: false };
        self.with_remote(place, |remote| {
            // Whoever was forgotten meanwhile is asked again.
            if matches!(&there.reach, Reach::Mapped(peer) if peer.is_over()) {
                return;
            }
            if matches!(remote.ranks[rank], Place::Known(_) | Place::Elsewhere(_)) {
                remote.ranks[rank] = Place::There(Box::new(there));
            }
        });
    }

    /// The ranks on other machines that are not connected.
    fn elsewhere(&self, place: MemberId) -> Vec<(usize, Option<Vec<Spot>>)> {
        let elsewhere = |(rank, place): (usize, &Place)| match place {
            Place::Elsewhere(spots) => Some((rank, spots.clone())),
            Place::Unknown | Place::Here | Place::Known(_) | Place::There(_) => None,
        };
        let all =
            |remote: &mut Remote| remote.ranks.iter().enumerate().filter_map(elsewhere).collect();
        self.with_remote(place, all).unwrap_or_default()
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
        self.change(Here::Nothing, |state, out| {
            state.hear(out);
            state.end(place, &[], &|_| error.clone(), out);
        });
    }
}

impl Listener for Ear {
    fn message(&self, from: Rank, message: &[u8]) {
        let rank = from.index();
        let Ok((note, payload)) = postcard::take_from_bytes(message) else {
            return log::error!("{}: rank {rank} sent what nobody reads", self.name);
        };
        match note {
            Note::At(address, there) if !shared::is_own(&address) => {
                ENGINE.with_remote(self.place, |remote| {
                    if let Some(place @ Place::Unknown) = remote.ranks.get_mut(rank) {
                        *place = match there == machine() {
                            true => Place::Known(address),
                            false => Place::Elsewhere(None),
                        };
                        remote.is_spread |= matches!(place, Place::Elsewhere(_));
                    }
                });
            }
            Note::At(..) => {}
            Note::Spots(spots) => {
                ENGINE.with_remote(self.place, |remote| {
                    if let Some(Place::Elsewhere(known)) = remote.ranks.get_mut(rank) {
                        *known = Some(spots);
                    }
                });
            }
            Note::Ready => {
                if let Some(ready) = self.ready.lock().get_mut(rank) {
                    *ready = true;
                }
            }
            Note::Said => ENGINE.hear_far(self.place.of(rank), payload),
            Note::Fetch { number, pieces } if self.is_first(rank, number) => {
                ENGINE.send_pieces(self.place, rank, number, &pieces);
            }
            Note::Put { number, to, bytes } if self.is_first(rank, number) => {
                ENGINE.take_put(self.place, rank, number, (to, bytes), payload);
            }
            Note::Fetch { .. } | Note::Put { .. } => {}
            Note::Written(number) => ENGINE.written(self.place.of(rank), number),
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

    /// Otherwise this process's events for others would wait until that one reads them.
    fn process_died(&self, rank: Rank, why: &str) {
        ENGINE.change(Here::Nothing, |state, out| {
            state.hear(out);
            if let Some(process) = state.process(self.place.of(rank.index())) {
                state.forget(process, why, out);
            }
        });
    }

    fn stopped(&self, rank: Rank, why: &str) {
        self.gone(rank, why, false);
    }
}

impl Ear {
    pub(super) fn new(place: MemberId, name: &'static str, size: usize) -> Self {
        let (ready, asked) = (Mutex::new(vec![false; size]), Mutex::new(vec![0; size]));
        Self { place, name, ready, asked }
    }

    /// Whether a rank asks for this for the first time. Messages may come twice.
    fn is_first(&self, rank: usize, number: u64) -> bool {
        let mut asked = self.asked.lock();
        asked.get_mut(rank).is_some_and(|last| std::mem::replace(last, number.max(*last)) < number)
    }

    /// Takes in that a rank is gone.
    fn gone(&self, rank: Rank, why: &str, died: bool) {
        ENGINE.change(Here::Nothing, |state, out| {
            state.hear(out);
            state.tell_gone(self.place.rank, self.place.of(rank.index()), why, died, out);
        });
    }
}

impl State {
    /// The communicators that broke while data moved.
    fn broken_and_moving(&self) -> impl Iterator<Item = MemberId> {
        let is_moving =
            |comm: &CommState| comm.remote.as_ref().is_some_and(|it| !it.moving.is_empty());
        let stand = self.comms.iter().filter(move |(_, comm)| comm.broken && is_moving(comm));
        stand.map(|(at, comm)| MemberId { comm: at, id: comm.id, rank: 0 })
    }

    fn release(&mut self, ended: &[u64], out: &mut Out) {
        let stand: Vec<_> = self.broken_and_moving().collect();
        for place in stand {
            for rank in self.remote(place).into_iter().flat_map(|remote| &mut remote.ranks) {
                let has_ended = rank.process().is_some_and(|process| ended.contains(&process));
                if let Place::There(there) = rank {
                    there.is_dead |= has_ended;
                }
            }
            self.end_moving(place, out);
        }
        self.settle(out);
    }

    /// The process on this machine that a rank is in, by its arena.
    fn process(&mut self, place: MemberId) -> Option<u64> {
        self.comm(place)?.remote.as_ref()?.ranks.get(place.rank)?.process()
    }

    /// Forgets a process that has ended or is taken for dead.
    fn forget(&mut self, process: u64, why: &str, out: &mut Out) {
        shared::forget(process);
        self.lose_process(process, why, true, out);
    }

    /// Nothing more can be heard from a process on this machine, in any communicator: its ranks are
    /// lost, and with `tells` the others hear why. A rank that still connects to it may reach it.
    pub(super) fn lose_process(&mut self, process: u64, why: &str, tells: bool, out: &mut Out) {
        let is_lost =
            |rank: &Place| matches!(rank, Place::There(_)) && rank.process() == Some(process);
        let ranks_of = |(at, comm): (_, &CommState)| {
            let remote = comm.remote.as_ref();
            let ranks = remote.iter().flat_map(|remote| remote.ranks.iter().enumerate());
            let lost = ranks.filter(|(_, rank)| is_lost(rank));
            let (id, by) = (comm.id, remote.and_then(|remote| remote.first()).unwrap_or(0));
            lost.map(move |(rank, _)| (by, MemberId { comm: at, id, rank })).collect::<Vec<_>>()
        };
        let lost: Vec<_> = self.comms.iter().flat_map(ranks_of).collect();
        for (by, place) in lost {
            match tells {
                true => self.tell_gone(by, place, why, true, out),
                false => self.gone(place, why, true, out),
            }
        }
        self.settle(out);
    }

    /// Takes in that a rank is gone. The others are told too, `by` a rank of this process, or what
    /// that one does because of it could reach them before the reason does.
    fn tell_gone(&mut self, by: usize, place: MemberId, why: &str, died: bool, out: &mut Out) {
        if !self.is_news(place, died) {
            return;
        }
        // Who has said that it leaves is known to be gone.
        if let Some(comm) = self.comm(place)
            && comm.members[place.rank].gone.is_none()
        {
            let rank = place.rank as u32;
            comm.say(by, &Event::Gone { rank, why: why.to_owned(), died }, &[]);
        }
        self.gone(place, why, died, out);
    }

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
            remote.dies(place.rank);
            if remote.is_spread {
                far::abandon(place.id, Some(place.rank as u32));
            }
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
            far::lose(Duration::ZERO);
            let why = match member.last {
                Some(last) => last_call::with_operation(why, &last),
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

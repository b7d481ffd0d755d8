//! The ranks of one communicator in this process.
//!
//! They share NCCL's id, tell each other who left, and compare what they call. NCCL does none of it:
//! a rank whose peer is gone, or calls something else, hangs in it.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use nccl_sys::ncclUniqueId;

use super::api::{Nccl, unsupported};
use super::comm::Shared;
use super::recorder::Recorder;
use super::signals::Signals;
use super::watch;
use crate::backend::{Allocation, Departure, Join, Refusal, Slot};
use crate::communicator::Health;
use crate::cuda::{CudaBackend, CudaStream};
use crate::error::{Aborted, Called, CallsByRanks, Error, PeerFailed, Refused, Site, Timeout};
use crate::{Rank, Result};

pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) unique: ncclUniqueId,
    members: Box<[Member]>,
    state: Mutex<State>,
    pub(super) signals: Signals,
}

struct Member {
    seen: OnceLock<Seen>,
    recorder: Arc<Recorder>,
    comm: OnceLock<Weak<Shared>>,
}

/// What a member told when it joined.
struct Seen {
    health: Weak<Health>,
    deadline: Duration,
}

impl Member {
    fn health(&self) -> Option<Arc<Health>> {
        self.seen.get()?.health.upgrade()
    }
}

#[derive(Default)]
struct State {
    /// How many members joined and have not ended.
    live: usize,
    /// Memory that peers may have seen: NCCL lets go of it when the last member has ended.
    parked: Vec<Arc<Allocation<CudaBackend>>>,
    refused: Vec<Turn>,
    /// Who left, the first one first.
    left: Vec<Left>,
    /// A rank left before its time: everybody has been told.
    ended: bool,
    /// What the members' work went to.
    streams: Vec<Arc<CudaStream>>,
    /// The same for members that live.
    carriers: Vec<Weak<CudaStream>>,
}

struct Left {
    rank: usize,
    why: String,
    /// It was done, as far as it knew.
    finished: bool,
}

/// A call that a rank refused.
struct Turn {
    by: usize,
    what: What,
    number: u64,
    reason: Error,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Collective,
    /// To this rank.
    Send(usize),
    /// From this rank.
    Recv(usize),
    /// A put or a signal to this rank, in this slot.
    Signal(usize, Slot),
}

/// How many refusals of each rank are kept.
const REFUSALS: usize = 256;

static FAMILIES: LazyLock<Mutex<HashMap<u64, Weak<Family>>>> = LazyLock::new(Mutex::default);

impl Drop for Family {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.live > 0 {
            // A member never ended, as far as NCCL is concerned: what it may name stays for ever.
            std::mem::forget(std::mem::take(&mut state.parked));
            watch::bury(Vec::new(), std::mem::take(&mut state.streams));
        }
    }
}

/// A rank of a communicator that others may have joined never will, or not for long.
pub(super) fn absent(id: u64, rank: Rank, why: &str) {
    let families = FAMILIES.lock().unwrap_or_else(PoisonError::into_inner);
    let family = families.get(&id).and_then(Weak::upgrade);
    drop(families);
    if let Some(family) = family {
        family.depart(rank.index(), why, Departure::AtOnce);
    }
}

/// The families that are alive.
pub(super) fn all() -> Vec<Arc<Family>> {
    let families = FAMILIES.lock().unwrap_or_else(PoisonError::into_inner);
    families.values().filter_map(Weak::upgrade).collect()
}

impl Family {
    /// The family of this communicator; its first member asks NCCL for an id.
    pub(super) fn meet(nccl: &Nccl, join: &Join) -> Result<Arc<Self>> {
        let mut families = FAMILIES.lock().unwrap_or_else(PoisonError::into_inner);
        families.retain(|_, family| family.strong_count() > 0);
        let known = families.get(&join.id).and_then(Weak::upgrade);
        let family = match known {
            Some(family) => family,
            None => {
                let family = Arc::new(Self::new(nccl, join)?);
                families.insert(join.id, Arc::downgrade(&family));
                family
            }
        };
        drop(families);
        watch::start();
        if let Some(member) = family.members.get(join.rank as usize) {
            // A seat is taken once.
            let (health, deadline) = (Arc::downgrade(&join.health), join.deadline);
            let _ = member.seen.set(Seen { health, deadline });
        }
        family.state().live += 1;
        Ok(family)
    }

    fn new(nccl: &Nccl, join: &Join) -> Result<Self> {
        let make =
            nccl.api.ncclGetUniqueId().map_err(|missing| unsupported("a communicator", missing))?;
        let mut unique = ncclUniqueId::zeroed();
        // SAFETY: `unique` is a place for an id.
        let result = unsafe { make(&raw mut unique) };
        nccl.check("ncclGetUniqueId", None, result)?;
        let size = join.size as usize;
        let member = |_| Member {
            seen: OnceLock::new(),
            recorder: Arc::new(Recorder::new(size)),
            comm: OnceLock::new(),
        };
        let members = (0..size).map(member).collect();
        Ok(Self {
            name: join.name,
            unique,
            members,
            state: Mutex::default(),
            signals: Signals::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn recorder(&self, rank: usize) -> Arc<Recorder> {
        // The control plane gave the rank, which is below the size.
        self.members[rank].recorder.clone()
    }

    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// What a rank called.
    pub(super) fn of(&self, rank: usize) -> &Recorder {
        &self.members[rank].recorder
    }

    /// A member's communicator is there.
    pub(super) fn has_made(&self, comm: &Arc<Shared>) {
        // A seat is taken once.
        let _ = self.members[comm.rank].comm.set(Arc::downgrade(comm));
    }

    /// A member's work goes to this stream.
    pub(super) fn carried_by(&self, stream: &Arc<CudaStream>) {
        let carriers = &mut self.state().carriers;
        carriers.retain(|carrier| carrier.strong_count() > 0);
        carriers.push(Arc::downgrade(stream));
    }

    /// Keeps memory until every member has ended, and the members' streams have passed.
    pub(super) fn park(
        &self,
        memory: impl IntoIterator<Item = Arc<Allocation<CudaBackend>>>,
        streams: Vec<Arc<CudaStream>>,
    ) {
        let mut state = self.state();
        state.parked.extend(memory);
        state.streams.extend(streams);
    }

    /// A member has ended, or never joined.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.live = state.live.saturating_sub(1);
        if state.live > 0 {
            return;
        }
        let (parked, streams) =
            (std::mem::take(&mut state.parked), std::mem::take(&mut state.streams));
        drop(state);
        if !streams.is_empty() {
            watch::bury(parked, streams);
        }
    }

    /// A rank will enqueue nothing more.
    pub(super) fn depart(&self, rank: usize, why: &str, how: Departure) {
        let mut state = self.state();
        if state.ended {
            // The first cause is known to everybody; ranks that leave because of it are no news.
            return;
        }
        let left = Left { rank, why: why.to_owned(), finished: how == Departure::Finished };
        match state.left.iter_mut().find(|known| known.rank == rank) {
            // It was not done after all.
            Some(known) if known.finished => *known = left,
            Some(_) => {}
            None => state.left.push(left),
        }
        if how != Departure::AtOnce {
            return;
        }
        state.ended = true;
        let lost = state.left.iter().filter(|left| left.rank == rank || !left.finished);
        let lost: Vec<_> = lost.collect();
        let error = self.gone(&lost, "communication".to_owned());
        let others = self.members.iter().enumerate().filter(|(other, _)| *other != rank);
        // All of them before any of them can pass it on as its own.
        let told: Vec<_> = others
            .filter_map(|(_, member)| member.health())
            .filter(|health| health.poison(error.clone()))
            .collect();
        // Whoever finds the end noted finds everybody poisoned.
        drop(state);
        for health in told {
            health.tell_others();
        }
    }

    /// These ranks are lost. Those that were done, as far as they knew, speak last.
    fn gone(&self, lost: &[&Left], during: String) -> Error {
        let mut lost: Vec<_> = lost.to_vec();
        lost.sort_by_key(|left| left.finished);
        let lost: Vec<_> = lost.iter().map(|left| (Rank::at(left.rank), &*left.why)).collect();
        Error::PeerFailed(Box::new(PeerFailed::new(self.name, &lost, during)))
    }

    /// Ranks that ended regularly and called less than `rank` did, so that a call of `rank`'s never
    /// ends.
    pub(super) fn left(&self, rank: usize) -> Option<Error> {
        let state = self.state();
        let own = &self.members[rank].recorder;
        let mut during = None;
        let mut is_missed = |left: &&Left| {
            let other = left.rank;
            let theirs = &self.members[other].recorder;
            if other == rank {
                return false;
            }
            let last =
                || own.last().map_or_else(|| "communication".to_owned(), |call| call.to_string());
            // What this rank refused waits for nobody.
            let called = |number: u64| own.call(number).is_some();
            let behind = (theirs.issued().max(own.oldest())..own.issued()).any(called)
                || self.unsent(other, rank);
            let missed = behind
                .then(last)
                .or_else(|| self.first_unreceived(rank, other))
                .or_else(|| Some(self.signals.unraised(other, rank)?.to_string()));
            let is_missed = missed.is_some();
            during = during.take().or(missed);
            is_missed
        };
        let lost: Vec<_> = state.left.iter().filter(&mut is_missed).collect();
        let during = during?;
        Some(self.gone(&lost, during))
    }

    /// A send of `rank`'s, or to it, that nobody received, when all have finished. NCCL may be done with
    /// one that is never met.
    pub(super) fn unmet(&self, rank: usize) -> Option<Error> {
        let others = || (0..self.size()).filter(|&other| other != rank);
        let own = others().find_map(|to| self.unreceived(rank, to));
        own.or_else(|| {
            others().find_map(|from| {
                let (why, during) = (self.unreceived(from, rank)?.to_string(), "finish".to_owned());
                let lost = [(Rank::at(from), &*why)];
                Some(Error::PeerFailed(Box::new(PeerFailed::new(self.name, &lost, during))))
            })
        })
    }

    /// Whether a rank called a receive that the other one has not called the send of.
    fn unsent(&self, from: usize, to: usize) -> bool {
        let receiver = self.of(to);
        let first = self.of(from).sent(to).max(receiver.oldest_receive(from));
        (first..receiver.received(from)).any(|number| receiver.receive(from, number).is_some())
    }

    /// The first send from one rank to another that it has not called the receive of.
    fn first_unreceived(&self, from: usize, to: usize) -> Option<String> {
        let sender = self.of(from);
        let first = self.of(to).received(from).max(sender.oldest_send(to));
        let mut sends = (first..sender.sent(to)).map(|number| (number, sender.send(to, number)));
        sends.find_map(|(number, call)| Some(format!("transfer #{number} ({})", call?)))
    }

    /// What a rank is told whose send to another one was never received.
    fn unreceived(&self, from: usize, to: usize) -> Option<Error> {
        let during = self.first_unreceived(from, to)?;
        let state = self.state();
        let left = state.left.iter().find(|left| left.rank == to)?;
        Some(self.gone(&[left], during))
    }

    /// Books calls that a rank refused.
    pub(super) fn refuse(&self, by: usize, refusals: &[Refusal], reason: &Error) {
        let recorder = &self.members[by].recorder;
        let turns = refusals.iter().filter_map(|refusal| {
            let (what, number) = match *refusal {
                Refusal::Collective => (What::Collective, recorder.refused()),
                Refusal::SendTo(to) => (What::Send(to.index()), recorder.refused_send(to.index())),
                Refusal::RecvFrom(from) => {
                    (What::Recv(from.index()), recorder.refused_recv(from.index()))
                }
                Refusal::Signal(to, slot) => {
                    recorder.refused_signal();
                    (What::Signal(to.index(), slot), self.signals.refused(by, to, slot))
                }
                Refusal::Wait(..) => return None,
            };
            Some(Turn { by, what, number, reason: reason.clone() })
        });
        let mut state = self.state();
        state.refused.extend(turns);
        // Old ones have been seen, or nobody waits for them.
        let own = state.refused.iter().filter(|turn| turn.by == by).count();
        let mut surplus = own.saturating_sub(REFUSALS);
        state.refused.retain(|turn| {
            let goes = surplus > 0 && turn.by == by;
            surplus -= usize::from(goes);
            !goes
        });
    }

    /// A call of `rank`'s that another rank refused its part of, so that it never ends.
    pub(super) fn refused(&self, rank: usize) -> Option<Error> {
        let state = self.state();
        let own = &self.members[rank].recorder;
        let stuck = state.refused.iter().find(|turn| {
            // The same call, as this rank counts it.
            let (mine, called) = match turn.what {
                _ if turn.by == rank => return false,
                What::Collective => (What::Collective, own.issued()),
                What::Send(to) if to == rank => (What::Recv(turn.by), own.received(turn.by)),
                What::Recv(from) if from == rank => (What::Send(turn.by), own.sent(turn.by)),
                What::Signal(to, slot) if to == rank => {
                    return self.signals.awaits(turn.by, rank, slot, turn.number);
                }
                _ => return false,
            };
            let too = |other: &Turn| {
                other.by == rank && other.what == mine && other.number == turn.number
            };
            let refused_too = mine == What::Collective
                && turn.number >= own.oldest()
                && own.call(turn.number).is_none();
            called > turn.number && !refused_too && !state.refused.iter().any(too)
        })?;
        let call = match stuck.what {
            // An old one may be forgotten: then the last stands for it.
            What::Collective => own.call(stuck.number).or_else(|| own.last()),
            What::Signal(_, slot) => self.signals.wait(stuck.by, rank, slot),
            What::Send(_) => own.receive(stuck.by, stuck.number).or_else(|| own.last()),
            What::Recv(_) => own.send(stuck.by, stuck.number).or_else(|| own.last()),
        };
        let (by, reason) = (Rank::at(stuck.by), stuck.reason.clone());
        let name = self.name;
        drop(state);
        Some(Error::Refused(Box::new(Refused { name, call: call?, by, reason })))
    }

    /// Ranks called what differs, and NCCL takes no call back: that is the end for all of them, with
    /// one cause.
    #[cold]
    pub(super) fn end(&self, error: &Error) {
        let mut state = self.state();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        let healths = self.members.iter().filter_map(Member::health);
        let told: Vec<_> = healths.filter(|health| health.poison(error.clone())).collect();
        drop(state);
        for health in told {
            health.tell_others();
        }
    }

    /// Whether a rank called something that another one has not called.
    pub(super) fn is_uneven(&self) -> bool {
        let ranks = 0..self.size();
        ranks.clone().any(|rank| self.of(rank).issued() != self.of(0).issued())
            || ranks.clone().any(|from| {
                ranks.clone().any(|to| self.of(from).sent(to) != self.of(to).received(from))
            })
    }

    /// Whose thread is inside NCCL: the rank, which stay it is, and how long it may last.
    pub(super) fn stays(&self) -> impl Iterator<Item = (usize, u64, Duration)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(rank, member)| {
            Some((rank, member.recorder.stay()?, member.seen.get()?.deadline))
        })
    }

    /// What a rank's thread is inside NCCL with.
    pub(super) fn inside(&self, rank: usize) -> String {
        let call = self.members.get(rank).and_then(|member| member.recorder.last());
        let call = call.map_or_else(|| "a call of NCCL's".to_owned(), |call| call.to_string());
        format!("rank {rank} of {} with {call}", self.name)
    }

    /// Whether a rank's communicator is poisoned: what its thread waits for inside NCCL is void.
    pub(super) fn is_poisoned(&self, rank: usize) -> bool {
        let health = self.members.get(rank).and_then(Member::health);
        health.is_some_and(|health| !health.is_well())
    }

    /// A rank's thread does not come back from NCCL. `elsewhere` says whose threads do not either.
    #[cold]
    pub(super) fn is_stuck(&self, rank: usize, waited: Duration, elsewhere: &[String]) {
        let Some(member) = self.members.get(rank) else { return };
        let Some(health) = member.health() else { return };
        let call = member.recorder.last();
        let operation = call.map_or("a call of NCCL", |call| call.operation.name());
        let site = call.map_or_else(Site::caller, |call| call.site);
        let mut report =
            format!("its thread is inside NCCL, which waits for other ranks: {}", self.report());
        if !elsewhere.is_empty() {
            // Writing to a string succeeds.
            let _ = write!(report, "; also inside NCCL: {}", elsewhere.join(", "));
        }
        let error = Error::Timeout(Box::new(Timeout { operation, site, waited, report }));
        log::error!("rank {rank} of {}: {error}", self.name);
        health.fail(error);
    }

    /// Frees a rank's thread that NCCL holds up; false where that cannot be.
    pub(super) fn free(&self, rank: usize) -> bool {
        let comm = self.members.get(rank).and_then(|member| member.comm.get()?.upgrade());
        comm.is_some_and(|comm| comm.revoke())
    }

    /// Whether a member lives.
    pub(super) fn is_alive(&self) -> bool {
        self.state().live > 0
    }

    /// Whether no member's thread is inside NCCL, and none of their work is under way.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.state();
        let ended = state.streams.clone();
        let alive: Vec<_> = state.carriers.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        self.stays().next().is_none() && ended.iter().chain(&alive).all(|stream| stream.is_idle())
    }

    /// What holds on, where it is not quiet.
    pub(super) fn holds(&self) -> Option<String> {
        if self.is_quiet() {
            return None;
        }
        let inside: Vec<String> = self.stays().map(|(rank, ..)| self.inside(rank)).collect();
        let inside = match inside.is_empty() {
            true => String::new(),
            false => format!("inside NCCL: {}; ", inside.join(", ")),
        };
        Some(format!("{inside}{}", self.report()))
    }

    /// The process ends: no member begins anything any more.
    pub(super) fn process_ends(&self) {
        for health in self.members.iter().filter_map(Member::health) {
            let why = "the process ends".to_owned();
            let aborted = Aborted { why, by: health.rank(), at: Site::caller() };
            health.fail(Error::Aborted(Box::new(aborted)));
        }
    }

    /// What each rank called last, who refused what, and who left.
    pub(super) fn report(&self) -> String {
        let ranks = 0..self.size();
        let called: Vec<_> = ranks.map(|rank| self.of(rank).called(Rank::at(rank))).collect();
        let mut report =
            format!("the last {} calls of each rank on {}, in order:", Called::LAST, self.name);
        // Writing to a string succeeds.
        let _ = write!(report, "{}", CallsByRanks(&called));
        let state = self.state();
        for Turn { by, what, reason, .. } in &state.refused {
            let what = match what {
                What::Collective => "a collective".to_owned(),
                What::Send(to) => format!("its send to rank {to}"),
                What::Recv(from) => format!("its receive from rank {from}"),
                What::Signal(to, _) => format!("its put or signal to rank {to}"),
            };
            let _ = write!(report, "\n  rank {by} refused {what}: {reason}");
        }
        for Left { rank, why, .. } in &state.left {
            let _ = write!(report, "\n  rank {rank} left: {why}");
        }
        report
    }
}

//! The ranks of one communicator.
//!
//! They share NCCL's ids, announce departures and compare their calls. NCCL does none of this: a
//! rank whose peer is gone, or makes a different call, hangs in it.
//!
//! Ranks of one process share one family. A rank whose peers are other processes has its own, which
//! holds what the others last sent: see [`remote`].

mod deferred_release;
mod departures;
mod ids;
mod pace;
mod refusals;
mod remote;
mod report;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::{Duration, Instant};

use nccl_sys::ncclUniqueId;

use deferred_release::DeferredRelease;
pub(super) use deferred_release::Parked;
use departures::Left;
pub(super) use departures::Owing;
use ids::Ids;
pub(super) use pace::RankPace;
use refusals::Turn;
use remote::Remote;

use super::api::{Nccl, lacking};
use super::recorder::Recorder;
use super::shared::Shared;
use super::signals::Signals;
use super::watch;
use crate::backend::{Departure, Join};
use crate::communicator::{Health, Limits};
use crate::cuda::CudaStream;
use crate::error::{Abort, Call, Error, InitFailed, Site, Timeout};
use crate::lock::Mutex;
use crate::{Rank, Result};

pub(super) struct Family {
    pub(super) name: &'static str,
    ids: Ids,
    members: Box<[Member]>,
    state: Mutex<State>,
    pub(super) signals: Signals,
    /// Held while taking over another process's message.
    hearing: Mutex<()>,
    deferred_release: Arc<DeferredRelease>,
    /// The connection to the others, if they are other processes.
    remote: Option<Remote>,
}

struct Member {
    seen: OnceLock<Seen>,
    /// Empty for a rank of another process that has sent nothing yet.
    recorder: OnceLock<Arc<Recorder>>,
    comm: OnceLock<Weak<Shared>>,
}

/// What a member passes when it joins.
struct Seen {
    health: Weak<Health>,
    limits: Arc<Limits>,
}

impl Member {
    fn recorder(&self, size: usize) -> &Arc<Recorder> {
        self.recorder.get_or_init(|| Arc::new(Recorder::new(size)))
    }

    /// Its last known call.
    fn last(&self) -> Option<Call> {
        self.recorder.get()?.last()
    }

    fn health(&self) -> Option<Arc<Health>> {
        self.seen.get()?.health.upgrade()
    }
}

#[derive(Default)]
struct State {
    /// How many members joined and have not ended.
    live: usize,
    refused: Vec<Turn>,
    /// Ranks that left, in order.
    left: Vec<Left>,
    /// Ranks whose processes died.
    dead: Vec<usize>,
    /// A rank left too early, and every rank has been informed.
    ended: bool,
    /// Streams that carry work of live members.
    carriers: Vec<Weak<CudaStream>>,
}

/// The shortest and the longest pause between checks for NCCL's ids. In between, the pause is a
/// share of the time waited.
const REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(20);
const SHARE: u32 = 16;

/// By communicator, and by rank where each rank has its own family.
type Key = (u64, Option<u32>);

static FAMILIES: LazyLock<Mutex<HashMap<Key, Weak<Family>>>> = LazyLock::new(Mutex::default);

/// A new NCCL id.
pub(super) fn unique_id(nccl: &Nccl) -> Result<ncclUniqueId> {
    let make = nccl.api.ncclGetUniqueId().map_err(lacking("a communicator"))?;
    let mut unique = ncclUniqueId::zeroed();
    // SAFETY: `unique` is valid for a write.
    let result = unsafe { make(&raw mut unique) };
    nccl.check("ncclGetUniqueId", None, result)?;
    Ok(unique)
}

/// Whether ranks of this process have met, or tried to.
pub(super) fn has_met() -> bool {
    HAS_MET.load(Relaxed)
}

static HAS_MET: AtomicBool = AtomicBool::new(false);

/// A rank of a communicator that others may have joined will not join, or leaves at once.
pub(super) fn absent(id: u64, rank: Rank, why: &str) {
    let families = FAMILIES.lock();
    let of = |rank| families.get(&(id, rank)).and_then(Weak::upgrade);
    let family = of(None).or_else(|| of(Some(rank.0)));
    drop(families);
    if let Some(family) = family {
        family.depart(rank.index(), why, Departure::AtOnce);
    }
}

/// The families that are alive.
pub(super) fn all() -> Vec<Arc<Family>> {
    let families = FAMILIES.lock();
    families.values().filter_map(Weak::upgrade).collect()
}

impl Family {
    /// Whether all ranks are of this process.
    pub(super) fn is_here(&self) -> bool {
        self.remote.is_none()
    }

    /// The family of a communicator. With `by_id` its first member asks NCCL for an id. Where
    /// members have families of their own, rank 0 does, and decides how many ids there are.
    pub(super) fn meet(nccl: &Nccl, join: &Join, by_id: bool) -> Result<Arc<Self>> {
        HAS_MET.store(true, Relaxed);
        let mut families = FAMILIES.lock();
        families.retain(|_, family| family.strong_count() > 0);
        let key = (join.id, join.wire.is_some().then_some(join.rank));
        let known = families.get(&key).and_then(Weak::upgrade);
        let is_new = known.is_none();
        let family = known.unwrap_or_else(|| Arc::new(Self::new(join)));
        if is_new {
            families.insert(key, Arc::downgrade(&family));
        }
        drop(families);
        if is_new && by_id && (join.wire.is_none() || join.rank == 0) {
            // NCCL may take long. The other members wait for it in `unique`.
            family.ids.know(0, unique_id(nccl)?);
            let is_one = join.wire.is_none();
            let size = join.size as usize;
            family.ids.are(if is_one { 1 } else { ids::count(nccl, size, join.ids) });
        }
        watch::start();
        if let Some(member) = family.members.get(join.rank as usize) {
            // Seats are taken once, so this is not set yet.
            let (health, limits) = (Arc::downgrade(&join.health), join.limits.clone());
            let _ = member.seen.set(Seen { health, limits });
        }
        family.state.lock().live += 1;
        family.deferred_release.join();
        if let Some(remote) = &family.remote {
            remote.listen(&family);
            if by_id && join.rank == 0 {
                remote.tell_id(&family.ids);
            }
        }
        Ok(family)
    }

    fn new(join: &Join) -> Self {
        let member =
            |_| Member { seen: OnceLock::new(), recorder: OnceLock::new(), comm: OnceLock::new() };
        let members = (0..join.size).map(member).collect();
        Self {
            name: join.name,
            ids: Ids::default(),
            members,
            state: Mutex::default(),
            signals: Signals::default(),
            hearing: Mutex::default(),
            deferred_release: match &join.wire {
                Some(_) => DeferredRelease::of(join.id),
                None => Arc::default(),
            },
            remote: join.wire.clone().map(|wire| Remote::new(wire, join)),
        }
    }

    /// NCCL's ids. Makes the one that `rank` has to make, and waits for those of other processes.
    pub(super) fn unique(
        &self,
        (rank, health): (usize, &Health),
        limit: Duration,
        make: impl Fn() -> Result<ncclUniqueId>,
    ) -> Result<Vec<ncclUniqueId>> {
        let (started, size) = (Instant::now(), self.size());
        loop {
            if let (true, Some(remote)) = (self.ids.wants(rank, size), &self.remote) {
                self.ids.know(rank, make()?);
                remote.tell_id(&self.ids);
            }
            let missing = match self.ids.all(size) {
                Ok(ids) => return Ok(ids),
                Err(missing) => missing,
            };
            health.check()?;
            if started.elapsed() >= limit {
                let ranks = missing.into_iter().map(Rank::at).collect();
                let why = "did not tell NCCL's id within the deadline".into();
                return Err(InitFailed { size, ranks, why }.into());
            }
            std::thread::sleep((started.elapsed() / SHARE).clamp(REST, LONGEST_REST));
        }
    }

    pub(super) fn recorder(&self, rank: usize) -> Arc<Recorder> {
        // The control plane assigned the rank, which is below the size.
        self.members[rank].recorder(self.size()).clone()
    }

    pub(super) fn size(&self) -> usize {
        self.members.len()
    }

    /// A rank's calls, to be read: ranks that have sent nothing share an empty recorder.
    pub(super) fn of(&self, rank: usize) -> &Recorder {
        static NOTHING: LazyLock<Recorder> = LazyLock::new(|| Recorder::new(0));
        self.members[rank].recorder.get().map_or(&NOTHING, |recorder| recorder)
    }

    /// Records a member's communicator.
    pub(super) fn has_made(&self, comm: &Arc<Shared>) {
        // Seats are taken once, so this is not set yet.
        let _ = self.members[comm.rank].comm.set(Arc::downgrade(comm));
        self.deferred_release.opens();
    }

    /// A member's communicator, whose streams are parked, begins to end. The last one of this
    /// process gets the streams of all.
    pub(super) fn closes(&self) -> Option<Vec<Arc<CudaStream>>> {
        self.deferred_release.closes()
    }

    /// Records that this stream carries a member's work.
    pub(super) fn carried_by(&self, stream: &Arc<CudaStream>) {
        let carriers = &mut self.state.lock().carriers;
        carriers.retain(|carrier| carrier.strong_count() > 0);
        carriers.push(Arc::downgrade(stream));
    }

    /// Keeps memory until every rank of this process has ended, and their streams have passed.
    pub(super) fn park(&self, memory: Parked, streams: Vec<Arc<CudaStream>>) {
        self.deferred_release.park(memory, streams);
    }

    /// Records that a member has ended, or never joined.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock();
        state.live = state.live.saturating_sub(1);
        let deferred_release = self.deferred_release.leave();
        drop(state);
        // Dropping memory may drop a user's value, so the lock must be free.
        drop(deferred_release);
    }

    /// Ends the communicator on all ranks with one cause: ranks made different calls, and NCCL
    /// cannot take a call back.
    #[cold]
    pub(super) fn end(&self, error: &Error) {
        let is_news = !self.state.lock().ended;
        // Sent first, so that the others take this for the cause and not this rank's departure.
        if let (Some(remote), Error::Mismatch(mismatch), true) = (&self.remote, error, is_news) {
            remote.differ(mismatch);
        }
        self.ended(error);
    }

    /// Like [`end`](Self::end), without informing other processes.
    fn ended(&self, error: &Error) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.ended, true) {
            return;
        }
        // Dropped without the lock, since one may hold a user's value.
        let healths: Vec<_> = self.members.iter().filter_map(Member::health).collect();
        let poisons = |health: &&Arc<Health>| health.poison(error.clone());
        let told: Vec<_> = healths.iter().filter(poisons).collect();
        drop(state);
        for health in told {
            health.tell_others();
        }
    }

    /// The ranks of this process whose threads are inside NCCL, with the number of the stay and its
    /// deadline.
    pub(super) fn pending_calls(&self) -> impl Iterator<Item = (usize, u64, Duration)> {
        let here = self.remote.as_ref().map_or_else(|| 0..self.size(), Remote::here);
        here.filter_map(|rank| {
            let member = self.members.get(rank)?;
            Some((
                rank,
                member.recorder.get()?.pending_call()?,
                member.seen.get()?.limits.now().time,
            ))
        })
    }

    /// The call that a rank's thread is inside NCCL with.
    pub(super) fn inside(&self, rank: usize) -> String {
        let call = self.members.get(rank).and_then(Member::last);
        let call = call.map_or_else(|| "a call of NCCL's".to_owned(), |call| call.to_string());
        format!("rank {rank} of {} with {call}", self.name)
    }

    /// Whether a rank's communicator is poisoned, so that its thread waits inside NCCL for nothing.
    pub(super) fn is_poisoned(&self, rank: usize) -> bool {
        let health = self.members.get(rank).and_then(Member::health);
        health.is_some_and(|health| !health.is_well())
    }

    /// Reports that a rank's thread does not return from NCCL. `elsewhere` names other such
    /// threads.
    #[cold]
    pub(super) fn is_stuck(&self, rank: usize, waited: Duration, elsewhere: &[String]) {
        let Some(member) = self.members.get(rank) else { return };
        let (Some(health), Some(seen)) = (member.health(), member.seen.get()) else { return };
        let (deadline, call) = (seen.limits.now().of, self.of(rank).last());
        let operation = call.map_or("a call of NCCL", |call| call.operation.name());
        let site = call.map_or_else(Site::nowhere, |call| call.site);
        let mut report =
            format!("its thread is inside NCCL, which waits for other ranks: {}", self.report());
        if !elsewhere.is_empty() {
            // Writing to a string succeeds.
            let _ = write!(report, "; also inside NCCL: {}", elsewhere.join(", "));
        }
        let error = Error::from(Timeout { operation, site, waited, deadline, report });
        log::error!("rank {rank} of {}: {error}", self.name);
        health.fail(error);
    }

    /// Checks for errors on behalf of a rank whose thread is inside NCCL.
    pub(super) fn look(&self, rank: usize) {
        let Some(member) = self.members.get(rank) else { return };
        let comm = member.comm.get().and_then(Weak::upgrade);
        if let (Some(comm), Some(health)) = (comm, member.health()) {
            comm.look(&health);
        }
    }

    /// Frees a rank's thread that NCCL holds up; false if that is impossible.
    pub(super) fn free(&self, rank: usize) -> bool {
        let Some(member) = self.members.get(rank) else { return false };
        if let Some(health) = member.health() {
            // The device may not respond before the thread is free.
            health.cuts("NCCL held up its thread", false);
        }
        member.comm.get().and_then(Weak::upgrade).is_some_and(|comm| comm.revoke())
    }

    /// Whether any member is alive.
    pub(super) fn is_alive(&self) -> bool {
        self.state.lock().live > 0
    }

    /// Whether no member's thread is inside NCCL and none of their work is in progress. Lost
    /// streams count only with `lost_too`.
    pub(super) fn is_quiet(&self, lost_too: bool) -> bool {
        let is_over = |stream: &Arc<CudaStream>| !lost_too && stream.is_lost() || stream.is_idle();
        self.pending_calls().next().is_none() && self.streams().iter().all(is_over)
    }

    /// Whether work of its members on a GPU is in progress.
    pub(super) fn is_busy_on(&self, ordinal: u32) -> bool {
        self.streams().iter().any(|stream| stream.is_busy_on(ordinal))
    }

    /// Streams that carry its members' work, or did until they ended.
    fn streams(&self) -> Vec<Arc<CudaStream>> {
        let mut streams = self.deferred_release.streams();
        streams.extend(self.state.lock().carriers.iter().filter_map(Weak::upgrade));
        streams
    }

    /// Describes the work in progress, if there is any.
    pub(super) fn holds(&self) -> Option<String> {
        if self.is_quiet(true) {
            return None;
        }
        let inside: Vec<String> =
            self.pending_calls().map(|(rank, ..)| self.inside(rank)).collect();
        let inside = match inside.is_empty() {
            true => String::new(),
            false => format!("inside NCCL: {}; ", inside.join(", ")),
        };
        Some(format!("{inside}{}", self.report()))
    }

    /// The process ends: fails every member, so that none begins anything new.
    pub(super) fn process_ends(&self) {
        for health in self.members.iter().filter_map(Member::health) {
            let why = "the process ends".to_owned();
            health.fail(Abort { why, by: health.rank(), at: Site::nowhere() }.into());
        }
    }
}

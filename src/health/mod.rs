//! A communicator's health, which every wait and every enqueue checks.

mod carriers;
mod change;
mod late;
mod limits;
mod recovery;

pub(crate) use carriers::Carrier;
pub(crate) use change::Changes;
pub use change::{Change, Watch};
pub use late::{Late, Standing, Stragglers};
pub(crate) use late::{Lateness, Posted};
pub use limits::{Limit, Limits};
pub use recovery::{Lost, Recovery};

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};

use crate::backend;
use crate::error::{Abort, Departed, Error, Revocation, Site, WorstReport, goes_on, reported};
use crate::lock::Mutex;
use crate::rank::Generation;
use crate::record::{self, Recorded};
use crate::{Rank, Result};

use carriers::Carriers;

/// Tells the other ranks of a fault.
type Tell = Box<dyn Fn(&Error) + Send + Sync>;

/// Follows a communicator through its replacements to the current one.
#[derive(Default)]
pub(crate) struct Line(Mutex<Option<Weak<Health>>>);

impl Line {
    pub(crate) fn health(&self) -> Option<Arc<Health>> {
        self.0.lock().as_ref()?.upgrade()
    }
}

/// How many errors may be pending for host waits; further ones are dropped.
const PENDING: usize = 16;

/// One rank's view of its communicator: healthy, or the first fault.
pub struct Health {
    id: u64,
    name: &'static str,
    rank: Rank,
    generation: Generation,
    /// The rank under which records show it: that of the communicator it descends from.
    row: u32,
    /// Where its operations are recorded, if they are.
    journal: OnceLock<Weak<dyn Recorded>>,
    /// Its flight record was dumped.
    dumped: Once,
    /// Set with `fault` or `request`. The fast path reads only this.
    tripped: AtomicBool,
    request: OnceLock<Abort>,
    /// Why another thread asked to revoke the communicator.
    revocation: OnceLock<Revocation>,
    /// What abort handles follow across replacements.
    line: Mutex<Arc<Line>>,
    fault: OnceLock<Error>,
    pending: Mutex<VecDeque<Error>>,
    carriers: Carriers,
    /// Communicators that share resources with this one, and therefore its faults.
    family: Mutex<Vec<Weak<Self>>>,
    /// The communicator has ended and has nothing left to report.
    over: AtomicBool,
    /// It has ended, and is over once its fault has been reported again.
    ending: AtomicBool,
    /// As `ending`, or once all pending errors have been reported.
    draining: AtomicBool,
    /// Tells the other ranks of a fault.
    tell: OnceLock<Tell>,
    /// Polls for faults that occur outside the program's calls.
    watch: OnceLock<backend::Watch>,
    /// Detects late ranks, once the communicator is ready.
    lateness: OnceLock<Lateness>,
    /// The late ranks that this rank leaves out, and why.
    left_out: OnceLock<(Vec<u32>, String)>,
    /// Reports the fault, once the communicator is ready.
    changes: Mutex<Option<Changes>>,
    /// How many host-side exchanges a rank of another process says are complete.
    complete: AtomicU64,
    /// Errors that this rank has been shown.
    told: WorstReport,
}

impl Health {
    pub(crate) fn new(name: &'static str, rank: Rank) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            rank,
            generation: Generation::default(),
            row: rank.index() as u32,
            journal: OnceLock::new(),
            dumped: Once::new(),
            tripped: AtomicBool::new(false),
            request: OnceLock::new(),
            revocation: OnceLock::new(),
            line: Mutex::default(),
            fault: OnceLock::new(),
            pending: Mutex::default(),
            carriers: Carriers::default(),
            family: Mutex::default(),
            over: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            tell: OnceLock::new(),
            watch: OnceLock::new(),
            lateness: OnceLock::new(),
            left_out: OnceLock::new(),
            changes: Mutex::default(),
            complete: AtomicU64::new(0),
            told: WorstReport::here(),
        }
    }

    /// Unique in this process.
    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The communicator's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Sets the generation, for a communicator that renumbers its ranks.
    pub(crate) fn numbered(self, generation: Generation) -> Self {
        Self { generation, ..self }
    }

    /// Sets the rank under which records show it.
    pub(crate) fn in_row(self, row: u32) -> Self {
        Self { row, ..self }
    }

    pub(crate) fn row(&self) -> u32 {
        self.row
    }

    /// Its operations are recorded there.
    pub(crate) fn recorded_in(&self, journal: Weak<dyn Recorded>) {
        // A communicator has one journal.
        let _ = self.journal.set(journal);
    }

    /// Dumps its flight record, if it has one and it is the first time. Returns once it is dumped,
    /// by whichever thread.
    pub(crate) fn dump_once(&self, dump: impl FnOnce()) {
        if self.journal.get().is_some() {
            self.dumped.call_once_force(|_| dump());
        }
    }

    /// Records an error. May be called under a lock.
    fn record(&self, error: &Error) {
        let Some(journal) = self.journal.get().and_then(Weak::upgrade) else { return };
        journal.fails();
        record::error(self.row, self.name, error);
    }

    /// This rank's number, which has no generation.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    /// Sets a callback that host waits run while they wait, and once more when they complete. It
    /// runs on the waiting thread and must not block.
    pub fn set_watch(&self, watch: backend::Watch) {
        if self.watch.set(watch).is_err() {
            log::debug!("{}: told how to watch twice", self.name);
        }
    }

    /// Polls for faults that occur outside the program's calls.
    pub(crate) fn look(&self) {
        if let Some(watch) = self.watch.get() {
            watch(self);
        }
    }

    /// Starts to compare the ranks' progress.
    pub(crate) fn compares(&self, lateness: Lateness) {
        if self.lateness.set(lateness).is_err() {
            log::debug!("{}: told how to compare twice", self.name);
        }
    }

    /// How many host-side exchanges this rank has contributed to.
    pub(crate) fn posted(&self) -> Option<u64> {
        self.lateness.get().map(Lateness::posted)
    }

    /// Looks for late ranks and applies the policy. Must be called without a lock held.
    pub(crate) fn look_who_is_late(&self) {
        self.follow_policy(Lateness::look);
    }

    /// The same during a host wait, at the policy's interval.
    pub(crate) fn watch_who_is_late(&self) {
        self.follow_policy(Lateness::look_while_waiting);
    }

    fn follow_policy(&self, look: impl Fn(&Lateness) -> Vec<Late>) {
        let Some(lateness) = self.lateness.get().filter(|_| self.is_well()) else { return };
        let news = look(lateness);
        if news.is_empty() {
            return;
        }
        match lateness.policy {
            Stragglers::Wait => {}
            Stragglers::Report(_) => {
                let changes = self.changes.lock().clone();
                for late in news {
                    log::warn!("rank {} of {}: {late}", self.rank, self.name);
                    changes.iter().for_each(|changes| changes.tell_of(|| Change::Late(late)));
                }
            }
            Stragglers::LeaveOut(_) => self.leave_out(&news),
        }
    }

    #[cold]
    fn leave_out(&self, late: &[Late]) {
        let why = |late: &Late| format!("it is left out: {late}");
        let why: Vec<(Rank, String)> = late.iter().map(|late| (late.rank, why(late))).collect();
        let texts = late.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let left_out =
            (late.iter().map(|late| Rank::at(late.rank.index()).0).collect(), format!(": {texts}"));
        if self.left_out.set(left_out).is_ok() {
            let why: Vec<_> = why.iter().map(|(rank, why)| (*rank, why.as_str())).collect();
            self.fail(Departed::each(&why).error(self.name, "the next operation".to_owned()));
        }
    }

    /// The late ranks that this rank leaves out, and why.
    pub(crate) fn left_out(&self) -> (&[u32], &str) {
        self.left_out.get().map_or((&[], ""), |(ranks, why)| (ranks, why))
    }

    /// The progress of the other ranks.
    pub(crate) fn standing(&self) -> Standing {
        self.lateness.get().map(Lateness::standing).unwrap_or_default()
    }

    /// Records that a rank of another process completed so many host-side exchanges.
    pub(crate) fn completes(&self, exchanges: u64) {
        self.complete.fetch_max(exchanges, Ordering::Relaxed);
    }

    /// Whether a rank is known to have completed a host-side exchange.
    pub(crate) fn is_complete(&self, exchange: u64) -> bool {
        self.complete.load(Ordering::Relaxed) > exchange
    }

    /// Returns the first fault, if any. Honours an abort request. Never blocks.
    ///
    /// # Errors
    /// The first fault.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_well() { Ok(()) } else { self.cause() }
    }

    /// As [`check`](Self::check), but ignores ranks that left. A connecting rank asks this: those
    /// that were ready have already done all that it needs of them.
    pub(crate) fn check_apart_from_peers(&self) -> Result<()> {
        let is_asked = self.request.get().is_some() || self.revocation.get().is_some();
        match self.fault.get() {
            Some(Error::PeerFailed(_) | Error::Revocation(_)) if !is_asked => Ok(()),
            _ => self.check(),
        }
    }

    #[inline]
    pub(crate) fn is_well(&self) -> bool {
        !self.tripped.load(Ordering::Relaxed)
    }

    #[cold]
    fn cause(&self) -> Result<()> {
        if let Some(request) = self.request.get() {
            self.fail(request.clone().into());
        }
        if let Some(revoked) = self.revocation.get() {
            self.fail(revoked.clone().into());
        }
        let Some(fault) = self.fault.get() else { return Ok(()) };
        if self.ending.load(Ordering::Acquire) {
            self.end();
        }
        Err(self.told(fault.clone()))
    }

    /// Records that the rank is shown `error`, on whichever of its threads.
    pub(crate) fn told(&self, error: Error) -> Error {
        self.told.note(&error);
        reported(error)
    }

    /// Poisons the communicator and tells the other ranks; the first fault stays. Must be called
    /// without a lock held.
    pub fn fail(&self, error: Error) {
        if self.poison(error) {
            self.tell_others();
        }
    }

    /// Poisons the communicator without telling anyone, so it may be called under a lock. Returns
    /// false if it is poisoned already; if true, the caller must call
    /// [`tell_others`](Self::tell_others).
    #[must_use = "if true, `tell_others` is due"]
    pub fn poison(&self, error: Error) -> bool {
        let first = self.fault.set(error.numbered(self.generation)).is_ok();
        self.tripped.store(true, Ordering::Release);
        if first && let Some(error) = self.fault.get() {
            self.record(error);
        }
        if first && let Some(changes) = &*self.changes.lock() {
            self.note_fault(changes);
        }
        first
    }

    fn note_fault(&self, changes: &Changes) {
        match self.fault.get() {
            Some(Error::Revocation(revoked)) => {
                changes.note(|| Change::Revocation((**revoked).clone()))
            }
            Some(error) => changes.note(|| Change::Failed(error.clone())),
            None => {}
        }
    }

    /// Reports that it is ready, and its changes from then on. One lock covers this and the fault,
    /// so that exactly one of this and [`poison`](Self::poison) queues the fault.
    pub(crate) fn is_ready(&self, changes: &Changes, change: impl FnOnce() -> Change) {
        goes_on();
        let mut place = self.changes.lock();
        changes.note(change);
        match self.fault.get() {
            Some(_) => self.note_fault(changes),
            None => *place = Some(changes.clone()),
        }
        drop(place);
        changes.tell();
    }

    /// Tells the other ranks about the fault. Must be called without a lock held.
    pub fn tell_others(&self) {
        let Some(fault) = self.fault.get() else { return };
        if let Some(tell) = self.tell.get() {
            tell(fault);
        }
        let family = self.family.lock().clone();
        for member in family.iter().filter_map(Weak::upgrade) {
            member.fail(fault.clone());
        }
        let changes = self.changes.lock().clone();
        changes.iter().for_each(Changes::tell);
        record::failed(self, fault);
    }

    /// Makes a fault of one a fault of the other.
    pub(crate) fn share_fate(self: &Arc<Self>, other: &Arc<Self>) {
        for (of, member) in [(self, other), (other, self)] {
            let mut family = of.family.lock();
            family.retain(|member| member.strong_count() > 0);
            family.push(Arc::downgrade(member));
        }
    }

    /// Makes faults of this one, including a present one, faults of the other, until
    /// [`lets_go`](Self::lets_go).
    pub(crate) fn holds(&self, other: &Arc<Self>) {
        self.family.lock().push(Arc::downgrade(other));
        if let Some(fault) = self.fault() {
            other.fail(fault);
        }
    }

    pub(crate) fn lets_go(&self, other: &Arc<Self>) {
        self.family.lock().retain(|member| !std::ptr::eq(member.as_ptr(), Arc::as_ptr(other)));
    }

    /// Prepares for an abort, which also ends the communicators that share resources with it.
    pub(crate) fn takes_down(&self, why: &str) {
        self.cuts(why, true);
        let family = self.family.lock().clone();
        for member in family.iter().filter_map(Weak::upgrade) {
            member.fail(self.cause_or(why));
        }
    }

    /// Marks unfinished work on its streams, and on those of its family, as possibly lost. With
    /// `asks`, the device is queried, so no lock may be held.
    pub(crate) fn cuts(&self, why: &str, asks: bool) {
        let error = self.cause_or(why).numbered(self.generation);
        let mut all: Vec<Arc<Self>> = Vec::new();
        let mut family = self.family.lock().clone();
        while let Some(member) = family.pop() {
            let Some(member) = member.upgrade() else { continue };
            if member.id != self.id && all.iter().all(|known| known.id != member.id) {
                family.extend(member.family.lock().iter().cloned());
                all.push(member);
            }
        }
        self.carriers.are_cut(self, &error, asks);
        all.iter().for_each(|member| member.carriers.are_cut(member, &error, asks));
    }

    /// The fault, or an abort for reason `why`.
    fn cause_or(&self, why: &str) -> Error {
        self.fault().unwrap_or_else(|| {
            let (why, by, at) = (why.to_owned(), self.rank, Site::nowhere());
            Error::from(Abort { why, by, at })
        })
    }

    /// The error of a call on a communicator that has ended.
    #[cold]
    pub(crate) fn ended(&self) -> Error {
        let (why, by) = ("the communicator has ended".to_owned(), self.rank);
        Error::from(Abort { why, by, at: Site::nowhere() }).numbered(self.generation)
    }

    /// Records that a stream carries its work.
    pub(crate) fn carried_by(&self, stream: Weak<dyn Carrier>) {
        self.carriers.add(stream);
    }

    /// Queues an error for the next host waits, each of which returns one.
    pub fn pend(&self, error: Error) {
        let error = error.numbered(self.generation);
        let mut pending = self.pending.lock();
        if pending.len() < PENDING && !pending.iter().any(|known| known.is_again(&error)) {
            self.record(&error);
            pending.push_back(error);
        }
    }

    pub(crate) fn take_pending(&self) -> Option<Error> {
        let mut pending = self.pending.lock();
        let error = pending.pop_front()?;
        if pending.is_empty() && self.draining.load(Ordering::Acquire) {
            self.over.store(true, Ordering::Release);
        }
        drop(pending);
        record::failed(self, &error);
        Some(self.told(error))
    }

    /// The fault, if there is one.
    pub fn fault(&self) -> Option<Error> {
        self.fault.get().cloned()
    }

    /// The communicator has ended, and the program knows: later waits are not concerned.
    pub(crate) fn end(&self) {
        self.pending.lock().clear();
        self.over.store(true, Ordering::Release);
    }

    /// The communicator has ended without the program's knowledge: the next wait for its work
    /// returns the reason.
    pub(crate) fn end_when_told(&self, why: Error) {
        // An earlier fault stays. The other ranks know.
        let _ = self.poison(why);
        self.ending.store(true, Ordering::Release);
    }

    /// As [`end_when_told`](Self::end_when_told), for unfinished work whose errors are pending: the
    /// next waits for its work return them.
    pub(crate) fn end_when_drained(&self) {
        let pending = self.pending.lock();
        self.ending.store(true, Ordering::Release);
        self.draining.store(true, Ordering::Release);
        if pending.is_empty() {
            self.over.store(true, Ordering::Release);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Asks its owner, who may be waiting in a communicator of the same family, to abort it.
    pub(crate) fn request_abort(&self, request: Abort) -> bool {
        let first = self.request.set(request.clone()).is_ok();
        self.tripped.store(true, Ordering::Release);
        if first {
            let family = self.family.lock().clone();
            for member in family.iter().filter_map(Weak::upgrade) {
                member.request_abort(request.clone());
            }
        }
        first
    }

    /// Asks its owner to revoke it. The owner may be waiting in a communicator of the same family,
    /// so that gets the same request.
    pub(crate) fn request_revocation(&self, why: String) -> bool {
        if !self.is_well() {
            return false;
        }
        self.ask_to_revoke(&Revocation { name: self.name, by: self.rank, why })
    }

    fn ask_to_revoke(&self, request: &Revocation) -> bool {
        let first = self.revocation.set(request.clone()).is_ok();
        self.tripped.store(true, Ordering::Release);
        if first {
            let family = self.family.lock().clone();
            family.iter().filter_map(Weak::upgrade).for_each(|member| {
                member.ask_to_revoke(request);
            });
        }
        first
    }

    /// Fails if an abort was requested, whatever other fault there is.
    pub(crate) fn wants_an_end(&self) -> Result<()> {
        let aborted = |request: &Abort| Err(Error::from(request.clone()).numbered(self.generation));
        self.request.get().map_or(Ok(()), aborted)
    }

    /// What an abort handle follows.
    pub(crate) fn line(self: &Arc<Self>) -> Arc<Line> {
        let line = self.line.lock().clone();
        line.0.lock().get_or_insert(Arc::downgrade(self));
        line
    }

    /// Replaces another communicator and takes over its abort handles.
    pub(crate) fn goes_on_from(self: &Arc<Self>, other: &Arc<Self>) {
        other.told.clear();
        let line = other.line();
        *line.0.lock() = Some(Arc::downgrade(self));
        *self.line.lock() = line;
    }

    /// Another communicator has replaced it, so its changes are no longer reported.
    pub(crate) fn is_replaced(&self) {
        *self.changes.lock() = None;
        self.end();
    }

    /// Undoes [`goes_on_from`](Self::goes_on_from) after a failed replacement, and takes over
    /// requests made meanwhile.
    pub(crate) fn takes_back(self: &Arc<Self>, other: &Arc<Self>) {
        self.goes_on_from(other);
        if let Some(request) = other.request.get() {
            self.request_abort(request.clone());
        }
        if let Some(revoked) = other.revocation.get() {
            self.request_revocation(revoked.why.clone());
        }
    }

    pub(crate) fn set_tell(&self, tell: Tell) {
        if self.tell.set(tell).is_err() {
            log::debug!("{}: told how to tell the others twice", self.name);
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Health of rank {} of {}", self.rank, self.name)
    }
}

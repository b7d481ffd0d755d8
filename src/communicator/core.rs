//! A communicator without its type parameters: the backend's handle, the control plane and the
//! resource table.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::leaving::{PANICKED, leave};
use super::recover::Survivors;
use super::unconsumed::Unconsumed;
use super::{CommConfig, Health, Key, Limit, Limits, Made, Resources, reaper};
use crate::backend::{
    Backend, Departure, HostWait, KernelOffer, Op, Refusal, Slot, WaitsOn, Watcher, Wire,
};
use crate::control::{Control, Exchange, Parts, Patience, Ticket, Topic};
use crate::device_comm::Shared as DeviceShared;
use crate::error::{Error, NoSuchRank, Site, StaleRank};
use crate::graph::{GraphRegistry, Recording};
use crate::group::Lists;
use crate::health::{Change, Changes};
use crate::rank::Generation;
use crate::record::{self, Journal, Recorded, Who};
use crate::stream::{StreamCore, launching};
use crate::wait::{Noted, Within};
use crate::{AsRank, Rank, Result, trace, wait};

/// The interval at which waits poll.
const REST: Duration = Duration::from_millis(1);

/// All state of a live communicator that does not depend on its world's type. The reaper takes it
/// over when the communicator is dropped.
pub(crate) struct Core<B: Backend> {
    /// `None` once it has ended.
    comm: Option<B::Comm>,
    /// `None` once it has ended.
    control: Option<Control>,
    pub(crate) health: Arc<Health>,
    pub(crate) resources: Resources<B>,
    /// The number by which the backend knows this rank. Programs see [`own`](Self::own).
    pub(crate) rank: Rank,
    pub(crate) generation: Generation,
    pub(crate) size: usize,
    pub(crate) ordinal: u32,
    pub(crate) slots: Slot,
    /// The configuration it was created with.
    pub(crate) config: CommConfig,
    /// The limit of its waits.
    pub(super) limits: Arc<Limits>,
    /// Reports changes of its state.
    pub(super) changes: Changes,
    /// Whether signals are set up, by a symmetric window or by `early_signals`.
    pub(crate) has_signals: bool,
    /// Signals that refused waits would have consumed.
    pub(super) unconsumed: Unconsumed,
    /// Whether all ranks have announced that they end, so that this one has to do no more.
    pub(super) is_agreed: Cell<bool>,
    /// The id of the stream that carried its last operations, or 0.
    carrier: Cell<u64>,
    /// Reusable lists for groups. The cell limits a core to one thread at a time.
    lists: RefCell<Lists<'static, B>>,
    /// The recording of the capture in progress.
    pub(crate) recording: RefCell<Option<Recording<B>>>,
    /// Its captured graphs.
    pub(crate) graphs: GraphRegistry<B>,
    /// Shared state of its kernels, once created.
    pub(crate) kernel_offer: OnceCell<Option<KernelOffer>>,
    /// Progress of a recovery that has failed so far.
    pub(super) going: Option<Box<Survivors>>,
    /// The numbers that its ranks began with.
    pub(super) at_start: Arc<[u32]>,
    /// Where its operations are recorded, if they are.
    pub(crate) journal: Option<Arc<Journal<B>>>,
}

/// What a communicator is created with.
pub(super) struct Terms {
    pub(super) config: CommConfig,
    pub(super) limits: Arc<Limits>,
}

impl<B: Backend> Core<B> {
    pub(super) fn new(
        comm: B::Comm,
        control: Control,
        health: Arc<Health>,
        size: usize,
        ordinal: u32,
        config: CommConfig,
        (limits, changes): (Arc<Limits>, Changes),
    ) -> Self {
        let (resources, rank) = (Resources::new(health.name()), health.rank());
        let generation = control.generation();
        let (comm, control) = (Some(comm), Some(control));
        let (slots, has_signals) = (config.slots(), config.has_signals());
        Self {
            comm,
            control,
            health,
            resources,
            rank,
            generation,
            size,
            ordinal,
            slots,
            config,
            limits,
            changes,
            has_signals,
            unconsumed: Unconsumed::default(),
            is_agreed: Cell::new(false),
            carrier: Cell::new(0),
            lists: RefCell::new(Lists::new()),
            recording: RefCell::default(),
            graphs: GraphRegistry::default(),
            kernel_offer: OnceCell::new(),
            going: None,
            at_start: Arc::default(),
            journal: None,
        }
    }

    /// Records its operations, if that is asked for.
    pub(super) fn is_recorded(&mut self, who: Who) {
        self.at_start = who.rows.clone();
        self.journal = Journal::new(who, self.ordinal, &self.config);
        if let Some(journal) = &self.journal {
            let journal: Weak<dyn Recorded> =
                Arc::downgrade(&(journal.clone() as Arc<dyn Recorded>));
            self.health.recorded_in(journal);
        }
    }

    /// The backend's communicator, unless it is poisoned or has ended.
    #[inline]
    pub(crate) fn comm(&self) -> Result<&B::Comm> {
        self.health.check()?;
        match &self.comm {
            Some(comm) => Ok(comm),
            None => Err(self.health.ended()),
        }
    }

    /// The backend's communicator, if it is healthy and `stream` carried its last operations. The
    /// stream and the backend then know each other already.
    #[inline]
    pub(crate) fn comm_on(&self, stream: &StreamCore<B>) -> Option<&B::Comm> {
        match &self.comm {
            Some(comm) if self.carrier.get() == stream.id() && self.health.is_well() => Some(comm),
            _ => None,
        }
    }

    /// Records that the backend was given operations on `stream`. The stream must not be capturing.
    pub(super) fn carried_by(&self, stream: &StreamCore<B>) {
        // What is recorded takes the slow path, which records it.
        if self.journal.is_none() {
            self.carrier.set(stream.id());
        }
    }

    /// This rank, as programs see it.
    #[inline]
    pub(crate) fn own(&self) -> Rank {
        self.generation.of(self.rank)
    }

    /// The number of a rank, or `None` if the communicator has no such rank.
    #[inline]
    pub(crate) fn number(&self, rank: impl AsRank) -> Option<usize> {
        self.generation.number(rank, self.size)
    }

    /// The error for a rank that the communicator does not have.
    #[cold]
    pub(crate) fn no_rank(
        &self,
        operation: &'static str,
        rank: impl AsRank,
        collective: bool,
        site: Site,
    ) -> Error {
        let (asked, size, name) = (rank.index(), self.size, self.health.name());
        if Rank::kept(rank).is_of(self.generation) {
            return Error::from(NoSuchRank { operation, asked, size, site, collective });
        }
        let since = self.resources.since();
        Error::from(StaleRank { operation, asked, name, size, since, site, collective })
    }

    /// Its position among the communicators of a group, which is the same on all ranks.
    pub(crate) fn order(&self) -> u64 {
        self.control.as_ref().map_or(0, Control::id)
    }

    pub(crate) fn control(&self) -> Result<&Control> {
        self.control.as_ref().ok_or_else(|| self.health.ended())
    }

    /// Refuses a host-side call inside a launched closure. The refusal counts as the rank's turn.
    pub(crate) fn may_wait(&self, operation: Topic, site: Site) -> Result<()> {
        let control = self.control()?;
        wait::allowed(operation, site).inspect_err(|_| {
            control.refuse("a host-side call inside a closure where the host may not wait", site);
        })
    }

    /// Refuses a host-side call of a poisoned communicator, or inside a launched closure.
    pub(crate) fn may_call(&self, operation: Topic, site: Site) -> Result<()> {
        self.health.check()?;
        self.may_wait(operation, site)
    }

    /// Waits for every rank's part of an exchange. A fatal failure poisons the communicator,
    /// because the others may have completed the exchange and assume that this rank has too.
    pub(crate) fn collect(&self, ticket: Ticket, operation: Topic, site: Site) -> Result<Parts> {
        let watch = |exchange: &Exchange| self.watch(WaitsOn::Exchange(exchange), operation, site);
        let patience = Patience::new(&self.health, self.limit(), operation, site);
        let patience = Patience { watch: &watch, ..patience };
        let control = self.control()?;
        let parts = control.collect(ticket, &patience).map_err(|error| {
            let error = error.numbered(self.generation);
            if error.is_fatal() {
                self.health.fail(error.clone());
            }
            error
        })?;
        if let Some(comm) = self.comm.as_ref().filter(|_| control.is_remote()) {
            B::exchanged(comm, control.number(ticket) + 1);
        }
        Ok(parts)
    }

    /// Limits for a wait inside one of its calls.
    pub(crate) fn within(&self) -> Within<'_> {
        Within { health: &self.health, limits: &self.limits }
    }

    /// The current limit of a wait inside one of its calls.
    pub(crate) fn limit(&self) -> Limit {
        self.limits.now()
    }

    /// Registers a wait inside one of its calls with the backend.
    #[cold]
    pub(crate) fn watch(
        &self,
        on: WaitsOn<'_, B>,
        operation: Topic,
        site: Site,
    ) -> Option<Watcher> {
        let health = self.health.clone();
        let within = Some(health.id());
        let users = Box::new(move || vec![health.clone()]);
        B::watch(HostWait { on, operation, site, users, within })
    }

    /// Creates state that all ranks share, by an exchange of its own.
    pub(crate) fn share<T: Any + Send + Sync>(
        &self,
        operation: Topic,
        site: Site,
        make: impl Fn(Option<Arc<dyn Wire>>) -> T,
    ) -> Result<Arc<T>> {
        self.may_call(operation, site)?;
        let ticket = self.barrier(operation, site)?;
        Ok(self.control()?.shared(ticket, make))
    }

    /// Waits until all work that this rank enqueued on the communicator has completed, puts
    /// included.
    pub(crate) fn drained(&self, operation: Topic, site: Site) -> Result<()> {
        let _span = trace::wait(Some(&self.health), operation, site);
        let report = "work of this rank on the communicator is not over";
        self.until_idle(Instant::now(), report, operation, site)
    }

    /// Waits until the backend has no more work of this rank. The limit counts from `started`;
    /// `report` describes the unfinished work in the timeout.
    pub(super) fn until_idle(
        &self,
        started: Instant,
        report: &str,
        operation: Topic,
        site: Site,
    ) -> Result<()> {
        let mut noted = Noted::default();
        loop {
            // Before the look, as time may pass between the two.
            let waited = started.elapsed();
            if B::is_idle(self.comm()?) {
                return Ok(());
            }
            self.health.look();
            let limit = self.limit();
            if waited >= limit.time {
                let patience = Patience::new(&self.health, limit, operation, site);
                let error = patience.timeout(waited, report.to_owned());
                self.health.fail(error.clone());
                return Err(error);
            }
            B::rest(self.comm()?, REST);
            self.health.watch_who_is_late();
            let comm = self.comm()?;
            noted.rest(|| self.watch(WaitsOn::Idle(comm), operation, site));
        }
    }

    /// Waits for this rank's share of an operation of all ranks to complete: a division that gives
    /// it no child, or a suspension.
    pub(super) fn stand_by(
        &self,
        dividing: Option<B::Dividing>,
        operation: Topic,
        site: Site,
    ) -> Result<()> {
        let Some(mut dividing) = dividing else { return Ok(()) };
        let (started, limit) = (Instant::now(), self.limit());
        let patience = Patience::new(&self.health, limit, operation, site);
        let outcome = loop {
            // Before the look, as time may pass between the two.
            let waited = started.elapsed();
            match B::divided(&mut dividing) {
                Ok(false) if waited < limit.time => {
                    std::thread::sleep(REST);
                    self.health.watch_who_is_late();
                }
                Ok(false) => {
                    let report = "all ranks have come, and the backend is still at it".to_owned();
                    break Err(patience.timeout(waited, report));
                }
                Ok(true) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        // Poison before dropping `dividing`, which ends the division.
        outcome.inspect_err(|error| self.health.fail(error.clone()))
    }

    /// Adds an operator, and drops an old one whose handle is gone.
    pub(super) fn add_operator(&mut self, made: Made<B>) -> Result<Key> {
        let (key, old) = self.resources.add_operator(made);
        if let Some(old) = old {
            B::drop_operator(self.comm()?, old);
        }
        Ok(key)
    }

    /// Records that `stream` carries this communicator's work.
    #[inline]
    pub(crate) fn note(&self, stream: &StreamCore<B>) {
        stream.note(&self.health, self.config.deadline);
    }

    /// Records refusals as this rank's turns, so that its peers fail as well, and returns the
    /// reason.
    #[cold]
    pub(crate) fn refuse(&self, refusals: &[Refusal], reason: Error) -> Error {
        if let Some(recording) = &mut *self.recording.borrow_mut() {
            return recording.fail(reason.numbered(self.generation));
        }
        match self.comm() {
            Ok(comm) => {
                self.unconsumed.add(refusals);
                if let Some(journal) = &self.journal {
                    journal.refused(refusals);
                }
                B::refuse(comm, refusals, &reason.in_words());
                reason.numbered(self.generation)
            }
            Err(poisoned) => poisoned,
        }
    }

    /// Makes waits consume the signals that refused waits left.
    pub(super) fn catch_up(&self, ops: &mut [Op<'_, B>]) {
        self.unconsumed.catch_up(ops);
    }

    /// Fails the capture in progress because a group's closure returned an error.
    #[cold]
    pub(crate) fn fail_capture(&self, at: Site) {
        if let Some(recording) = &mut *self.recording.borrow_mut() {
            drop(
                recording.fail(Error::other(format!(
                    "the closure of a group returned an error (at {at})"
                ))),
            );
        }
    }

    /// [`refuse`](Self::refuse) for one operation.
    #[cold]
    pub(crate) fn refuse_one(&self, refusal: Refusal, reason: Error) -> Error {
        self.refuse(&[refusal], reason)
    }

    /// Empty lists for a group, reusing the previous allocation.
    pub(crate) fn lists<'e>(&self) -> Lists<'e, B> {
        self.lists.replace(Lists::new()).recycle()
    }

    /// Keeps a group's lists for the next one.
    pub(crate) fn keep_lists(&self, lists: Lists<'_, B>) {
        self.lists.replace(lists.recycle());
    }

    /// Takes backend and control plane for a regular end. Dropping the core does nothing
    /// afterwards.
    pub(super) fn end(&mut self) -> Option<(B::Comm, Control)> {
        let (comm, control) = self.take();
        Some((comm?, control?))
    }

    /// Takes whichever of backend and control plane it still has.
    pub(super) fn take(&mut self) -> (Option<B::Comm>, Option<Control>) {
        // Graphs must end first: NCCL waits for them.
        self.graphs.lose_all(|| ENDED.to_owned());
        self.resources.end_device_comms(ENDED);
        (self.comm.take(), self.control.take())
    }

    /// The device communicators, if a launch on this thread may use them: their end waits for it.
    fn held_by_a_launch(&mut self) -> Vec<Arc<DeviceShared<B>>> {
        match launching() {
            true => self.resources.lose_device_comms(ENDED),
            false => Vec::new(),
        }
    }

    /// What the communicator that replaces this one is created with.
    ///
    /// # Errors
    /// The backend lacks an option of a new configuration.
    pub(super) fn terms(&self, config: Option<CommConfig>) -> Result<Terms> {
        let Some(config) = config else {
            return Ok(Terms { config: self.config.clone(), limits: self.limits.clone() });
        };
        config.check(self.own(), self.size)?;
        B::offers(&config)?;
        let limits = Limits::new(config.deadline);
        Ok(Terms { config: CommConfig { watch: self.config.watch.clone(), ..config }, limits })
    }

    /// The configuration of a child, this one's unless it is given, and the limit for connecting it.
    pub(super) fn child_terms(&self, config: Option<CommConfig>) -> (CommConfig, Limit) {
        match config {
            Some(config) => {
                let limit = self.limits.or(config.deadline);
                (config, limit)
            }
            None => (CommConfig { watch: None, ..self.config.clone() }, self.limit()),
        }
    }

    /// Goes on with the terms of the communicator that has replaced this one.
    pub(super) fn accept(&mut self, terms: &Terms) {
        let Terms { config, limits } = terms;
        (self.slots, self.limits, self.config) = (config.slots(), limits.clone(), config.clone());
    }

    /// Switches to another communicator's backend, ranks and health. The caller recreates the
    /// resources.
    pub(super) fn go_on_as(
        &mut self,
        comm: Option<B::Comm>,
        control: Control,
        health: Arc<Health>,
        journal: Option<Arc<Journal<B>>>,
    ) {
        (self.rank, self.generation) = (health.rank(), control.generation());
        self.size = control.size();
        (self.comm, self.control, self.health) = (comm, Some(control), health);
        (self.unconsumed, self.kernel_offer) = (Unconsumed::default(), OnceCell::new());
        self.carrier.set(0);
        self.write_record();
        self.journal = journal;
    }

    /// Writes what its journal knows, and the flight record if it has failed. Other threads do
    /// both as well, but the journal may be gone and the process over before they come to it.
    fn write_record(&self) {
        let Some(journal) = &self.journal else { return };
        journal.look();
        if let Some(fault) = self.health.fault() {
            record::failed(&self.health, &fault);
            record::goes(&**journal);
        }
    }

    /// Ends it now and tells the other ranks why. For callers whose program knows that it ends.
    pub(super) fn abort(&mut self, why: &str) {
        let held = self.held_by_a_launch();
        let (comm, control) = self.take();
        let is_alive = control.is_some();
        if comm.is_some() {
            self.health.takes_down(why);
        }
        let cause = why.to_owned();
        once_ended(held, move || abort::<B>(comm, control, &cause));
        if is_alive {
            self.health.end();
            self.changes.tell_of(|| aborted(why));
        }
    }
}

impl<B: Backend> Drop for Core<B> {
    fn drop(&mut self) {
        self.write_record();
        let held = self.held_by_a_launch();
        let (comm, control) = match self.take() {
            (Some(comm), Some(control)) => (comm, control),
            // It has ended.
            (None, None) => return,
            // A recovery had failed.
            (comm, control) => {
                let why = "its communicator was dropped";
                once_ended(held, move || abort::<B>(comm, control, why));
                return self.changes.tell_of(|| aborted(why));
            }
        };
        let (health, changes) = (self.health.clone(), self.changes.clone());
        let (panics, deadline) = (std::thread::panicking(), self.config.deadline);
        let is_agreed = self.is_agreed.get();
        once_ended(held, move || {
            if is_agreed {
                B::finalize(comm);
                health.end();
                changes.tell_of(|| Change::Finished);
            } else if panics {
                leave(PANICKED, move |why| abandon::<B>(comm, control, (&health, &changes), why));
            } else if let Err(cause) = health.check() {
                abandon::<B>(comm, control, (&health, &changes), &cause.to_string());
            } else {
                reaper::take::<B>(comm, control, (health, changes), deadline);
            }
        });
    }
}

/// Calls `then` once these device communicators have ended. A launch that this thread has begun may
/// use them, so a separate thread waits for it.
fn once_ended<B: Backend>(held: Vec<Arc<DeviceShared<B>>>, then: impl FnOnce() + Send + 'static) {
    if held.is_empty() {
        return then();
    }
    let work = move || {
        held.iter().for_each(|shared| shared.end(ENDED));
        then();
    };
    if let Err(error) = std::thread::Builder::new().name("NCCL leave".to_owned()).spawn(work) {
        log::warn!("no thread to end a communicator in a launch: {error}");
    }
}

/// The reason given for resources of a communicator that has ended.
pub(super) const ENDED: &str = "its communicator has ended";

fn abort<B: Backend>(comm: Option<B::Comm>, mut control: Option<Control>, why: &str) {
    // The backend first: it poisons every rank with this cause, before a rank waiting in an
    // exchange can leave for the same reason and be reported as the cause itself.
    if B::JOINS_LATE
        && let Some(comm) = &comm
    {
        B::departer(comm)(why, Departure::AtOnce);
        // Before `comm` goes: a rank that joins meanwhile finds it, or hears why it is gone.
        if let Some(control) = control.take() {
            control.depart(why);
        }
    }
    if let Some(comm) = comm {
        B::abort(comm, why);
    }
    if let Some(control) = control {
        control.depart(why);
    }
}

/// Ends a communicator that was dropped, which its program may not be aware of.
pub(super) fn abandon<B: Backend>(
    comm: B::Comm,
    control: Control,
    (health, changes): (&Health, &Changes),
    why: &str,
) {
    health.takes_down(why);
    abort::<B>(Some(comm), Some(control), why);
    match B::ENDS_REACH_POINTS {
        true => health.end_when_told(health.ended()),
        false => health.end_when_drained(),
    }
    changes.tell_of(|| aborted(why));
}

fn aborted(why: &str) -> Change {
    Change::Abort { why: why.to_owned() }
}

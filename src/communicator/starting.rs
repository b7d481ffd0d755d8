//! A connecting communicator: it waits for the other ranks, checks that they fit together, and
//! joins.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::adopted_comm::AdoptedComm;
use super::builder::Setup;
use super::hello::{Hello, agree};
use super::leaving::leave;
use super::lifecycle::Gone;
use super::ready::Live;
use super::{Back, CommConfig, Core, Health, Limit, Limits};
use crate::backend::{Backend, Departure, HostWait, Join, Lifecycle, WaitsOn, Watcher};
use crate::control::{Control, Exchange, Leaves, Parts, Patience, Ticket};
use crate::error::{self, Error, Failed, Site, reported};
use crate::health::{Change, Changes, Lateness};
use crate::record::Who;
use crate::{Device, Rank, Result, Seat, Stream, World, record, seat, trace, wait};

/// The shortest and the longest pause between polls of the backend. In between, the pause is a
/// share of the time waited: a machine with more ranks than processors needs them for the ranks
/// that work.
const REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_millis(20);
const SHARE: u32 = 16;

/// The state of a connecting communicator.
#[doc(hidden)]
pub struct Starting<W: World> {
    device: W::Device,
    config: CommConfig,
    limits: Arc<Limits>,
    changes: Changes,
    size: usize,
    /// The number of ids, if the program passed several.
    ids: Option<u32>,
    /// `None` once it is ready or aborted.
    control: Option<Control>,
    ticket: Ticket,
    health: Arc<Health>,
    site: Site,
    /// For a child, until all ranks have joined.
    parent: Option<Arc<Health>>,
    /// For a child that divides its parent, and for an adopted communicator, until it joins.
    dividing: Option<<Back<W> as Lifecycle>::Dividing>,
    part: JoinRole,
    /// Set from when all ranks have joined until it is ready.
    joining: Option<(<Back<W> as Lifecycle>::Joining, Stream<W::Device>)>,
    /// The numbers that its ranks began with, from then on. Records show the ranks under them.
    rows: Arc<[u32]>,
}

/// The role of a rank among those that connect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JoinRole {
    /// A rank of a new communicator.
    First,
    /// A survivor of a recovery. If another one fails, the rest meet again.
    Survivor,
    /// A member of a growing communicator. If the others do not join, it keeps the old one, so
    /// ranks that wait for it do not hang.
    Member,
    /// A rank that joins a growing communicator.
    Newcomer,
}

/// How far apart the rows of newcomers of different generations are.
pub(super) const ROWS: u32 = 10_000;

/// The row of a rank that descends from no communicator. After a recovery, a newcomer's number may
/// be one that a member began with.
fn new_row(seat: &Seat) -> u32 {
    let (rank, generation) = (seat.rank().index() as u32, seat.generation());
    match seat.is_newcomer() {
        true => rank + ROWS * u32::from(generation.to_byte()),
        false => rank,
    }
}

impl<W: World> Starting<W> {
    pub(super) fn post(setup: Setup<W>, site: Site) -> Self {
        let (rank, size) = setup.place();
        let Setup { seat, device, config, raw, row } = setup;
        let row = row.unwrap_or_else(|| new_row(&seat));
        let (raw, dividing) = match raw {
            Some(AdoptedComm { says, taken }) => (Some(says), taken),
            None => (None, None),
        };
        let ids = seat.ids();
        let part = if seat.is_newcomer() { JoinRole::Newcomer } else { JoinRole::First };
        let control = seat.take();
        let is_remote = control.is_remote();
        let hello = Hello::of::<W>(device.ordinal(), &config, is_remote, (ids, raw, row));
        let ticket = control.post("init", site, hello);
        let health = Health::new(W::NAME, rank).numbered(control.generation()).in_row(row);
        let health = Arc::new(health);
        let control = Some(control);
        let (joining, ids) = (None, ids.map(|(count, _)| count));
        let limits = Limits::new(config.deadline);
        let changes = Changes::new(W::NAME, row, config.watch.clone());
        Self {
            device,
            config,
            limits,
            changes,
            size,
            ids,
            control,
            ticket,
            health,
            site,
            parent: None,
            dividing,
            part,
            joining,
            rows: Arc::default(),
        }
    }

    /// Waits until it is ready. The other ranks learn of a failure.
    pub(super) fn connect(self) -> Result<Live<W>> {
        let limit = self.limits.now();
        self.ready(limit, true).map_err(|Failed { error, mut value }| {
            value.fail(&error);
            error
        })
    }

    /// Sets the division that creates it from the communicator it replaces.
    pub(super) fn divides(&mut self, dividing: Option<<Back<W> as Lifecycle>::Dividing>) {
        self.dividing = dividing;
    }

    /// [`connect`](Self::connect) for a child. Until all ranks have joined, a fault of the parent
    /// also ends the wait, because some ranks may never get this far. If the backend divides the
    /// parent, a failure of the child also fails the parent.
    pub(super) fn connect_child(
        mut self,
        parent: &Arc<Health>,
        dividing: Option<<Back<W> as Lifecycle>::Dividing>,
        limit: Limit,
    ) -> Result<Live<W>> {
        let divides = dividing.is_some();
        self.dividing = dividing;
        self.parent = Some(parent.clone());
        self.ready(limit, true)
            .map_err(|Failed { error, value }| value.fails_with(parent, divides, error))
    }

    /// [`connect_child`](Self::connect_child) for a child whose members made no exchange before:
    /// they meet and compare their configurations first, and then all of them `divide` the parent.
    pub(super) fn connect_gathered(
        mut self,
        parent: &Arc<Health>,
        divide: impl FnOnce() -> Result<Option<<Back<W> as Lifecycle>::Dividing>>,
        limit: Limit,
    ) -> Result<Live<W>> {
        self.parent = Some(parent.clone());
        let mut divides = false;
        let met = self.gather(limit, true).and_then(|parts| {
            self.agree(&parts)?;
            let dividing = divide();
            divides = !matches!(dividing, Ok(None));
            self.dividing = dividing?;
            self.meet(limit)
        });
        match met {
            Ok(()) => self
                .ready(limit, true)
                .map_err(|Failed { error, value }| value.fails_with(parent, divides, error)),
            Err(error) => Err(self.fails_with(parent, divides, reported(error))),
        }
    }

    /// Gives up a child; a parent that the backend `divides` fails too.
    fn fails_with(mut self, parent: &Health, divides: bool, error: Error) -> Error {
        if divides {
            // Before `dividing` is dropped.
            parent.fail(error.clone());
        }
        self.fail(&error);
        error
    }

    /// Makes it a member's attempt to grow, which reports no changes of its own.
    pub(super) fn grows(&mut self, limits: &Arc<Limits>) {
        self.part = JoinRole::Member;
        self.limits = limits.clone();
        // The communicator that it replaces reports them.
        self.changes = Changes::none();
    }

    pub(super) fn place(&self) -> (Rank, usize) {
        (self.health.generation().of(self.health.rank()), self.size)
    }

    pub(super) fn health(&self) -> &Arc<Health> {
        &self.health
    }

    #[expect(clippy::result_large_err, reason = "the communicator comes back in it")]
    pub(super) fn ready(mut self, limit: Limit, last: bool) -> Result<Live<W>, Failed<Self>> {
        self.join(limit, last).map_err(|error| Failed { error: reported(error), value: self })
    }

    /// Waits until all ranks have joined, then starts the backend. A thread with several ranks
    /// begins all of them before it waits for one. With `last`, the rank does not retry after
    /// `limit`.
    pub(crate) fn begin(&mut self, limit: Limit, last: bool) -> Result<()> {
        if self.joining.is_some() {
            return Ok(());
        }
        let parts = self.gather(limit, last)?;
        self.agree(&parts)?;
        self.meet(limit)
    }

    /// The control plane, if the ranks may wait for each other's greetings.
    fn may_gather(&self) -> Result<&Control> {
        let Some(control) = &self.control else { return Err(self.ended()) };
        if !control.is_remote() {
            seat::fits(self.size)?;
        }
        wait::allowed("ready", self.site)?;
        Ok(control)
    }

    fn patience(&self, limit: Limit) -> Patience<'_> {
        let needs_all = matches!(self.part, JoinRole::Member | JoinRole::Newcomer);
        let parent = self.parent.as_deref();
        Patience { needs_all, parent, ..Patience::new(&self.health, limit, "init", self.site) }
    }

    /// Waits for the greetings of all ranks.
    fn gather(&self, limit: Limit, last: bool) -> Result<Parts> {
        let control = self.may_gather()?;
        let watch = |exchange: &Exchange| {
            // A wait that gives up early ends by itself, and ranks of other processes may still
            // join: neither is a deadlock.
            let gives_up =
                self.part == JoinRole::Member || !last && limit.time < self.config.deadline;
            let known = !gives_up && !control.is_remote();
            known.then(|| watch::<Back<W>>(&self.health, exchange, self.site))?
        };
        control.collect(self.ticket, &Patience { watch: &watch, ..self.patience(limit) })
    }

    /// Checks that the ranks fit together.
    fn agree(&mut self, parts: &Parts) -> Result<()> {
        let Some(control) = &self.control else { return Err(self.ended()) };
        self.rows = Result::clone(&control.shared(self.ticket, |_| agree(parts)))?;
        Ok(())
    }

    /// Starts the backend, once all ranks have joined.
    fn meet(&mut self, limit: Limit) -> Result<()> {
        let Some(control) = &self.control else { return Err(self.ended()) };
        // From here on the child is independent of its parent, because other ranks may have theirs
        // already.
        self.parent = None;
        self.none_left(control)?;
        let join = Join {
            id: control.id(),
            rank: self.health.rank().0,
            size: u32::try_from(self.size).unwrap_or(u32::MAX),
            ordinal: self.device.ordinal(),
            name: W::NAME,
            config: self.config.clone(),
            health: self.health.clone(),
            deadline: self.config.deadline.max(limit.time),
            limits: self.limits.clone(),
            ids: self.ids,
            wire: control.wire(),
        };
        let stream = Stream::open(&self.device)?;
        record::name_stream(stream.core.id(), || format!("stream of {}", W::NAME));
        self.joining = Some((Back::<W>::join(join, self.dividing.take())?, stream));
        Ok(())
    }

    fn join(&mut self, limit: Limit, last: bool) -> Result<Live<W>> {
        let started = Instant::now();
        self.begin(limit, last)?;
        let _span = trace::wait(Some(&self.health), "init", self.site);
        let begun = Instant::now();
        loop {
            let waited = started.elapsed();
            if let Some(live) = self.try_join(waited, limit)? {
                return Ok(live);
            }
            let rest = (begun.elapsed() / SHARE).clamp(REST, LONGEST_REST);
            std::thread::sleep(rest.min(limit.time.saturating_sub(waited)));
        }
    }

    /// Polls within the configured deadline; does not block, but for a moment once that has passed.
    pub(super) fn poll(&mut self, since: Instant) -> Result<Option<Live<W>>> {
        let (waited, limit) = (since.elapsed(), self.limits.now());
        self.step(waited, limit).map_err(reported)
    }

    fn step(&mut self, waited: Duration, limit: Limit) -> Result<Option<Live<W>>> {
        if self.joining.is_none() {
            let control = self.may_gather()?;
            let Some(parts) = control.poll(self.ticket, waited, &self.patience(limit))? else {
                return Ok(None);
            };
            self.agree(&parts)?;
            self.meet(limit)?;
        }
        self.try_join(waited, limit)
    }

    /// Returns the communicator if the backend has completed it.
    fn try_join(&mut self, waited: Duration, limit: Limit) -> Result<Option<Live<W>>> {
        let Some(control) = &self.control else { return Err(self.ended()) };
        let Some((joining, _)) = &mut self.joining else { return Err(self.ended()) };
        let Some(comm) = <Back<W> as Lifecycle>::joined(joining)? else {
            self.none_left(control)?;
            if waited >= limit.time {
                let report = "all ranks have come, and the backend is still connecting".to_owned();
                return Err(self.patience(limit).timeout(waited, report));
            }
            return Ok(None);
        };
        self.joined(comm).map(Some)
    }

    /// Fails if this rank cannot become ready, because it was told to end or because others left.
    fn none_left(&self, control: &Control) -> Result<()> {
        if self.part == JoinRole::First && Back::<W>::JOINS_LATE {
            control.all_connect(&self.health, "init")?;
            return self.health.check_apart_from_peers();
        }
        control.all_here(&self.health, "init")?;
        self.health.check()
    }

    /// Fails as [`none_left`](Self::none_left). If others left after they were ready, this rank is
    /// ready too, and its first call fails.
    fn look_around(&self, control: &Control) -> Result<()> {
        self.none_left(control)?;
        match control.all_here(&self.health, "the next operation") {
            Err(error @ Error::PeerFailed(_)) => {
                // `joined` tells the others.
                let _ = self.health.poison(error);
                Ok(())
            }
            other => other,
        }
    }

    fn joined(&mut self, comm: <Back<W> as Lifecycle>::Comm) -> Result<Live<W>> {
        let Some(control) = &self.control else { return Err(self.ended()) };
        // A rank that leaves from now on finds the backend's communicator and fails it.
        if let Err(error) = self.look_around(control) {
            // Ranks that are ready learn the reason.
            Back::<W>::abort(comm, &error.to_string());
            return Err(error);
        }
        Back::<W>::keep(&comm);
        let (leave, stop) =
            (control.leaver(Leaves::Stopped), <Back<W> as Lifecycle>::departer(&comm));
        let own = self.health.generation().of(self.health.rank());
        self.health.set_tell(Box::new(move |error| {
            let why = error.to_string();
            match error {
                Error::Revocation(revoked) if revoked.by == own => {
                    stop(&revoked.why, Departure::Survives);
                }
                _ => stop(&why, Departure::AtOnce),
            }
            leave(&why);
        }));
        let (pace, policy) = (<Back<W> as Lifecycle>::pace(&comm), self.config.stragglers);
        let posted = Box::new(control.posted());
        self.health.compares(Lateness::new(pace, posted, policy, self.health.generation()));
        let (Some(control), Some((_, stream))) = (self.control.take(), self.joining.take()) else {
            return Err(self.ended());
        };
        let who = Who {
            row: self.health.row(),
            name: W::NAME,
            number: self.health.id(),
            id: control.id(),
            rows: std::mem::take(&mut self.rows),
            rank: self.health.rank().index() as u32,
        };
        let mut core = Core::new(
            comm,
            control,
            self.health.clone(),
            self.size,
            self.device.ordinal(),
            self.config.clone(),
            (self.limits.clone(), self.changes.clone()),
        );
        core.is_recorded(who);
        let (rank, size) = self.place();
        self.health.is_ready(&self.changes, || Change::Ready { rank, size });
        if !self.health.is_well() {
            // It may have failed before there was a way to tell them.
            self.health.tell_others();
        }
        Ok(Live::new(core, self.device.clone(), stream))
    }

    #[cold]
    fn ended(&self) -> Error {
        let why = "the communicator has ended".to_owned();
        error::Abort { why, by: self.health.rank(), at: self.site }.into()
    }

    pub(super) fn abort(mut self, why: &str, at: Site) -> Gone {
        let (rank, size) = self.place();
        if let Some(tell) = self.end() {
            tell(&format!("it was aborted: {why}"));
        }
        Gone { rank, size, cause: Some(error::Abort { why: why.to_owned(), by: rank, at }) }
    }

    /// Makes it the successor of a communicator with these limits and so many exchanges.
    pub(super) fn go_on_from(&mut self, exchanges: u64, limits: &Arc<Limits>) {
        self.part = JoinRole::Survivor;
        self.limits = limits.clone();
        // The communicator that it replaces reports changes.
        self.changes = Changes::none();
        if let Some(control) = &mut self.control {
            control.go_on_from(exchanges);
        }
    }

    /// Gives up without ending the rank, which continues with the survivors; the other ranks learn
    /// of it immediately.
    pub(super) fn stop(mut self, error: &Error) -> Option<Control> {
        self.health.fail(error.clone());
        let control = self.control.take()?;
        control.leaver(Leaves::Stopped)(&error.to_string());
        Back::<W>::absent(control.id(), self.health.rank(), &error.to_string());
        Some(control)
    }

    /// Gives up; the other ranks learn of it immediately.
    pub(super) fn fail(&mut self, error: &Error) {
        if let Some(tell) = self.end() {
            tell(&error.to_string());
        }
    }

    /// Returns a function that tells the other ranks that this one does not join, unless it has.
    fn end(&mut self) -> Option<impl FnOnce(&str) + Send + 'static> {
        let control = self.control.take()?;
        let (rank, absent): (_, fn(u64, Rank, &str)) = (self.health.rank(), Back::<W>::absent);
        Some(move |why: &str| {
            control.leaver(Leaves::Unready)(why);
            absent(control.id(), rank, why);
        })
    }
}

impl<W: World> Drop for Starting<W> {
    fn drop(&mut self) {
        if let Some(tell) = self.end() {
            leave("its communicator was dropped before it was ready", tell);
        }
    }
}

/// Registers a wait for the other ranks to connect.
#[cold]
fn watch<B: Backend>(health: &Arc<Health>, exchange: &Exchange, site: Site) -> Option<Watcher> {
    let (on, within, health) = (WaitsOn::Exchange(exchange), Some(health.id()), health.clone());
    let users = Box::new(move || vec![health.clone()]);
    B::watch(HostWait { on, operation: "init", site, users, within })
}

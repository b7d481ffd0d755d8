//! Recovery: continuing in place with the surviving ranks.
//!
//! The survivors agree on their members over the control plane, meet in a child of it, and create a
//! communicator there that replaces the old one. If a rank dies meanwhile, the new meeting misses
//! it, and the ranks there agree again in that meeting. Ranks that have already continued and
//! ranks that have not thus find each other in one place. Retries end, because each of them loses a
//! rank or counts towards a limit.
//!
//! It works the same on every backend and every release of NCCL.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Change;
use super::builder::Setup;
use super::core::Terms;
use super::lifecycle::Finish;
use super::ready::Live;
use super::resources::{Own, Scalar};
use super::starting::{ROWS, Starting};
use super::{Back, CanGoOn, Communicator, Core, Health, Lost, Recovery, State};
use crate::backend::{Backend, ChildPlace, Lifecycle, Part, WindowId};
use crate::control::{Control, Decision, Patience, Topic};
use crate::error::{Error, Failed, Ranks, Revocation, Site, last_call};
use crate::window::WindowKind;
use crate::{Rank, Result, Seat, Symmetric, World, wait};

/// How often survivors may retry a meeting that lost nobody.
const AGAIN: u32 = 3;

/// ## After ranks have died
impl<W: World, S: State> Communicator<W, S> {
    /// Continues without the ranks that died, in place: agrees with the other ranks on the
    /// survivors, ends operations in flight, and replaces this communicator with one of the
    /// survivors. All surviving ranks must call it; those unaware of the death learn of it when
    /// their next call fails. The host waits for them within the deadline; a rank that has not
    /// called it by then is left out.
    ///
    /// Buffers, streams, windows, operators, registrations and abort handles stay valid. Ranks are
    /// renumbered in order. [`Recovery`] maps the old ranks, which are refused from now on
    /// ([`Error::StaleRank`]). Results of operations that were in flight are unspecified. Declared
    /// lengths, signals, bound plans and split-off communicators belong to the old ranks and must
    /// be created again.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Error, Result, World};
    /// # fn step<W: World>(_: &mut Communicator<W>) -> Result<()> { Ok(()) }
    /// fn train<W: World>(comm: &mut Communicator<W>, steps: u64) -> Result<()> {
    ///     for _ in 0..steps {
    ///         while let Err(error) = step(comm) {
    ///             if !error.is_peer_failure() {
    ///                 return Err(error);
    ///             }
    ///             let recovery = comm.recover()?;
    ///             println!("{recovery}");
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// NCCL: `ncclCommAbort`, and `ncclCommInitRankConfig` with a new id, on every release.
    ///
    /// # Errors
    /// [`Error::Excluded`]: the others continue without this rank. [`Error::Timeout`]: the others
    /// did not call it. [`Error::Abort`]: an abort handle. The communicator is then poisoned: it
    /// can be aborted, or recovered again.
    #[track_caller]
    pub fn recover(&mut self) -> Result<Recovery>
    where
        S: CanGoOn,
    {
        let site = Site::caller();
        let live = S::held(&mut self.body);
        let terms = live.core.terms(None)?;
        live.go_on(&[], terms, "recover", site)
    }
}

/// The remaining ranks during a recovery.
pub(super) struct Survivors {
    /// Their old ranks, by new rank.
    before: Vec<Rank>,
    lost: Vec<Lost>,
    rank_before: Rank,
    /// The numbers that the old ranks began with.
    at_start: Arc<[u32]>,
}

impl Survivors {
    fn of<B: Backend>(core: &Core<B>) -> Self {
        let own = core.own();
        let before = (0..core.size).map(|rank| own.beside(rank)).collect();
        Self { before, lost: Vec::new(), rank_before: own, at_start: core.at_start.clone() }
    }

    /// Applies a decision, whose members are numbered as in the current meeting.
    /// `fault` is how this rank learnt that it cannot go on as before.
    fn go_on_with(&mut self, decision: &Decision, fault: Option<&Error>) {
        let before = |rank: &u32| self.before.get(*rank as usize).copied();
        let lost = decision.lost.iter().filter_map(|(rank, why)| {
            let (rank, why) = (before(rank)?, why_lost(*rank, why, fault));
            let at_start = self.at_start.get(rank.index()).filter(|row| **row < ROWS);
            let rank_at_start = at_start.map_or_else(|| rank.index(), |row| *row as usize);
            Some(Lost { rank, rank_at_start, why })
        });
        let (lost, left): (Vec<_>, Vec<_>) =
            (lost.collect(), decision.members.iter().filter_map(before).collect());
        self.lost.extend(lost);
        self.lost.sort_by_key(|lost| lost.rank);
        self.before = left;
    }

    /// The lost ranks, for messages.
    fn names(&self) -> String {
        let lost: Vec<Rank> = self.lost.iter().map(|lost| lost.rank).collect();
        Ranks(&lost).to_string()
    }

    fn told(self, rank: Rank) -> Recovery {
        let Self { before, lost, rank_before, .. } = self;
        let size_before = before.len() + lost.len();
        Recovery { lost, rank_before, size_before, rank, before }
    }
}

/// Why a rank is lost. The backend may know its last call, which the control plane does not.
fn why_lost(rank: u32, why: &str, fault: Option<&Error>) -> String {
    match fault {
        Some(Error::PeerFailed(failed)) if failed.lost.iter().all(|lost| lost.0 == rank) => {
            last_call::fuller(why, &failed.why)
        }
        _ => why.to_owned(),
    }
}

/// A local resource that was created again.
pub(super) enum Again<B: Backend> {
    Operator(B::Operator),
    Buffer(Option<u64>),
}

impl<W: World> Live<W> {
    /// Revokes it, unless it is poisoned already.
    pub(super) fn revoke(&self, why: String) {
        revoke(&self.core.health, why);
    }

    /// Continues with the survivors, leaving out the ranks `without`.
    pub(super) fn go_on(
        &mut self,
        without: &[u32],
        terms: Terms,
        operation: Topic,
        site: Site,
    ) -> Result<Recovery> {
        wait::allowed(operation, site)?;
        self.revoke(format!("`{operation}` was called (at {site})"));
        self.meet(without, terms, operation, site)
    }

    /// Holds meetings until all members of one have connected.
    pub(super) fn meet(
        &mut self,
        without: &[u32],
        terms: Terms,
        operation: Topic,
        site: Site,
    ) -> Result<Recovery> {
        let (mut comm, control) = self.core.take();
        let mut meetings = vec![control.ok_or_else(|| self.core.health.ended())?];
        let mut going =
            self.core.going.take().unwrap_or_else(|| Box::new(Survivors::of(&self.core)));
        let (mut again, mut without) = (0, without);
        let mut last = None;
        let outcome = loop {
            let Some(meeting) = meetings.last() else { break Err(self.core.health.ended()) };
            let divides = comm.as_ref().is_some_and(|comm| self.divides(comm, without));
            let decision = match self.agree(meeting, (without, divides), operation, site) {
                Ok(decision) => decision,
                Err(error) => break Err(error),
            };
            again = if decision.lost.is_empty() { again + 1 } else { 0 };
            if let Some(error) = last.take_if(|_| again > AGAIN) {
                break Err(error);
            }
            going.go_on_with(&decision, self.core.health.fault().as_ref());
            without = &[];
            let (old, names) = (self.core.health.clone(), going.names());
            log::info!("{}: agreed to go on without {names}", W::NAME);
            // Taken before the old communicator ends, which can take seconds: the others look for
            // this rank at once.
            let seat = Seat::from(meeting.successor(&decision));
            // The ranks that are left out learn of it, and operations in flight end.
            let end = |comm: &mut Option<_>| {
                revoke(&old, format!("it goes on without {names} (at {site})"));
                if let Some(comm) = comm.take() {
                    let why = "it goes on without ranks that are gone";
                    old.cuts(why, true);
                    Back::<W>::abort(comm, why);
                }
            };
            let dividing = match &comm {
                Some(comm) if decision.divides => {
                    Back::<W>::divide(comm, &self.part(&decision, &terms))
                }
                _ => {
                    end(&mut comm);
                    Ok(None)
                }
            };
            let met = self.meet_once(seat, (&decision, &terms), dividing, site);
            end(&mut comm);
            match met {
                Ok(()) => break Ok(()),
                Err((error, None)) => break Err(error),
                Err((error, Some(next))) => {
                    log::warn!("{}: the survivors look for each other again: {error}", W::NAME);
                    meetings.push(next);
                    last = Some(error);
                }
            }
        };
        match outcome {
            Ok(()) => {
                let recovery = going.told(self.core.own());
                let Core { health, changes, .. } = &self.core;
                health.is_ready(changes, || Change::Recovered(recovery.clone()));
                Ok(recovery)
            }
            Err(error) => {
                // Return to the last meeting, so that a retry finds the others there.
                if let Some(meeting) = meetings.pop() {
                    let health = self.core.health.clone();
                    self.core.go_on_as(comm, meeting, health, None);
                    self.core.going = Some(going);
                }
                Err(error)
            }
        }
    }

    fn agree(
        &self,
        meeting: &Control,
        (without, divides): (&[u32], bool),
        operation: Topic,
        site: Site,
    ) -> Result<Decision> {
        let health = &*self.core.health;
        let patience = Patience::new(health, self.core.limit(), operation, site);
        let numbered = |error: Error| error.numbered(meeting.generation());
        let (late, why) = health.left_out();
        let without: Vec<u32> = without.iter().chain(late).copied().collect();
        meeting.survive(&without, why, divides, &patience).map_err(numbered)
    }

    /// Whether the backend can derive the survivors' communicator from this one: it is healthy, its
    /// work has completed, and some rank is left out.
    fn divides(&self, comm: &<Back<W> as Lifecycle>::Comm, without: &[u32]) -> bool {
        !without.is_empty() && self.core.health.is_well() && Back::<W>::leaves_out(comm)
    }

    /// This rank's share of that division.
    fn part(&self, decision: &Decision, terms: &Terms) -> Part {
        let own = decision.members.binary_search(&self.core.rank.0);
        let place = ChildPlace {
            color: 0,
            rank: Rank::at(own.unwrap_or_default()).0,
            size: u32::try_from(decision.members.len()).unwrap_or(u32::MAX),
            name: W::NAME,
            config: terms.config.clone(),
            deadline: self.core.limit().time,
        };
        let without = decision.lost.iter().map(|(rank, _)| *rank).collect();
        Part { place: Some(place), borrows: false, without }
    }

    /// Connects the agreed members and replaces this communicator with theirs. A failure returns
    /// the meeting where they meet next.
    fn meet_once(
        &mut self,
        seat: Seat,
        (decision, terms): (&Decision, &Terms),
        dividing: Result<Option<<Back<W> as Lifecycle>::Dividing>>,
        site: Site,
    ) -> Result<(), (Error, Option<Control>)> {
        let (config, limit) = (terms.config.clone(), self.core.limit());
        let setup = Setup::new(seat, self.device.clone(), config).after(&self.core.health);
        let mut starting = Starting::<W>::post(setup, site);
        starting.go_on_from(decision.next, &terms.limits);
        // An abort handle acts on the new communicator from now on.
        let health = starting.health().clone();
        health.goes_on_from(&self.core.health);
        std::mem::replace(&mut self.core.health, health).end();
        match dividing {
            Ok(dividing) => starting.divides(dividing),
            Err(error) => {
                let next = starting.stop(&error);
                return Err((error, next));
            }
        }
        let mut fresh = match starting.ready(limit, true) {
            Ok(fresh) => fresh,
            Err(Failed { error, value }) => {
                let next = value.stop(&error);
                return Err((error, next));
            }
        };
        match self.core.make_again(&fresh.core, site) {
            Ok(()) => {
                self.becomes(&mut fresh.core, terms);
                Ok(())
            }
            Err(error) => {
                // The other members are told, and meet again there.
                fresh.core.health.fail(error.clone());
                let (comm, control) = fresh.core.take();
                if let Some(comm) = comm {
                    Back::<W>::abort(comm, &error.to_string());
                }
                Err((error, control))
            }
        }
    }
}

impl<W: World> Live<W> {
    /// Takes the place of a communicator whose resources it has created again.
    pub(super) fn becomes(&mut self, fresh: &mut Core<Back<W>>, terms: &Terms) {
        let Some((comm, control)) = fresh.end() else { return };
        let core = &mut self.core;
        core.at_start = fresh.at_start.clone();
        core.go_on_as(Some(comm), control, fresh.health.clone(), fresh.journal.take());
        core.accept(terms);
        core.note(&self.stream.core);
        self.finish.set(Finish::Not);
    }
}

/// Revokes a communicator, unless it is poisoned already.
fn revoke(health: &Health, why: String) {
    if health.is_well() {
        let (name, by) = (health.name(), health.rank());
        health.fail(Revocation { name, by, why }.into());
    }
}

impl<B: Backend> Core<B> {
    /// Recreates every window, operator and registered buffer on the replacement communicator.
    fn make_again(&mut self, fresh: &Self, site: Site) -> Result<()> {
        const TOPIC: Topic = "recover";

        let size = fresh.size;
        self.resources.goes_on_with(size, site);
        let why = format!("the communicator went on with {size} ranks (at {site})");
        self.resources.end_device_comms(&why);
        let own = self.resources.windows();
        own.iter().for_each(|window| window.allocation.order.expose());
        let own: BTreeMap<WindowId, usize> =
            own.iter().map(|window| (window.id, window.len)).collect();
        let parts = fresh.gather(&own, TOPIC, site)?;
        let lens = |id| parts.iter().map(|part| part.get(&id).copied()).collect::<Option<Vec<_>>>();
        let why = format!("ranks died while it was made or closed, so not all have it (at {site})");
        self.resources.lose_windows(|id| lens(id).is_some(), &why);
        let mut has_signals = fresh.config.has_signals();
        for window in self.resources.windows() {
            let (id, flags) = (window.id, window.flags);
            let (allocation, comm) = (&window.allocation, fresh.comm()?);
            window.handle = B::register(comm, id, allocation, window.bytes, flags)?;
            has_signals |= flags & Symmetric::BITS != 0;
            if let (Some(shared), Some(lens)) = (&window.lens, lens(id)) {
                shared.set(fresh.generation, lens);
            }
        }
        // A peer may put only once every rank's memory is registered.
        fresh.barrier(TOPIC, site)?;
        let again = self.make_own_again(fresh.comm()?)?;
        self.install(again);
        self.has_signals = has_signals;
        Ok(())
    }

    /// Recreates this rank's local resources on `comm`, for [`install`](Self::install).
    pub(super) fn make_own_again(&mut self, comm: &B::Comm) -> Result<HashMap<usize, Again<B>>> {
        let make = |own: Own<'_, B>| match own {
            Own::Operator(made) => match &made.scalar {
                Scalar::Host(bytes) => B::pre_mul_sum(comm, made.dtype, *bytes),
                Scalar::Device(scalar) => B::pre_mul_sum_device(comm, made.dtype, scalar),
            }
            .map(Again::Operator),
            Own::Buffer(held) => {
                B::register_buffer(comm, &held.lease, held.bytes.clone()).map(Again::Buffer)
            }
        };
        self.resources.own().map(|(at, own)| Ok((at, make(own)?))).collect()
    }

    /// Installs recreated resources, given by slot. Operators may have been dropped meanwhile.
    pub(super) fn install(&mut self, mut again: HashMap<usize, Again<B>>) {
        for (at, own) in self.resources.own() {
            match (own, again.remove(&at)) {
                (Own::Operator(made), Some(Again::Operator(operator))) => made.operator = operator,
                (Own::Buffer(held), Some(Again::Buffer(handle))) => held.handle.set(handle),
                // A slot keeps its kind while nothing is added.
                _ => {}
            }
        }
    }

    /// Invalidates all windows, because newcomers have no memory in them.
    pub(super) fn lose_windows_to_newcomers(&mut self, site: Site) {
        let why =
            format!("newcomers have no part in it, and the communicator has grown (at {site})");
        self.resources.lose_windows(|_| false, &why);
        self.resources.end_device_comms(&why);
    }
}

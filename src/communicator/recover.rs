//! Going on after ranks have died: with those who live, in place.
//!
//! The survivors agree on who they are over the control plane, meet in a child of it, and make a
//! communicator of their own there, whose parts take the old one's place. A rank that dies meanwhile is
//! found missing at the new meeting; then those who have met agree again, there. So whoever has gone on
//! already, and whoever has not, look for each other in one place. Each time a rank is lost, so it ends.
//!
//! It is the same on every backend and every release of NCCL.

use std::collections::BTreeMap;

use super::builder::Setup;
use super::change::Change;
use super::lifecycle::Finish;
use super::ready::Live;
use super::resources::{Own, Scalar};
use super::starting::Starting;
use super::{CanGoOn, Communicator, Core, Health, Lost, Recovery, State, ended};
use crate::backend::{Backend, ChildPlace, Lifecycle, Part, WindowId};
use crate::control::{Control, Decision, Exchange, Patience, Topic};
use crate::error::{Error, Failed, Ranks, Revocation, Site};
use crate::window::WindowKind;
use crate::{Device, Rank, Result, Symmetric, World, wait};

/// How often the survivors of one meeting meet anew without having lost anybody.
const AGAIN: u32 = 3;

type Back<W> = <<W as World>::Device as Device>::Backend;

impl<W: World, S: State> Communicator<W, S> {
    /// Goes on without the ranks that died, in place: agrees with the others on who lives, ends what is
    /// in flight, and puts a communicator of the survivors into this one's place. All ranks that live
    /// call it; those that do not know yet are told by the failure of what they do next. The host waits
    /// for them within the deadline; a rank that has not come by then is left out.
    ///
    /// Buffers, streams, windows, operators, registrations and abort handles stay valid; ranks are
    /// numbered anew, in their order, and [`Recovery`] tells the old ones, which are refused from here on
    /// ([`Error::StaleRank`]). What the operations that were in flight wrote is unspecified. What knows ranks
    /// (declared lengths, signals, bound plans, communicators split off) is of the old communicator: make it
    /// again.
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
    /// [`Error::Excluded`]: the others go on without this rank. [`Error::Timeout`]: they do not come.
    /// [`Error::Abort`]: an abort handle. The communicator is poisoned then: it can be aborted, or
    /// recovered again.
    #[track_caller]
    pub fn recover(&mut self) -> Result<Recovery>
    where
        S: CanGoOn,
    {
        let site = Site::caller();
        S::held(&mut self.body).go_on(&[], "recover", site)
    }
}

/// The ranks that are left, while they look for each other.
pub(super) struct Survivors {
    /// What they were before, by their rank now.
    before: Vec<Rank>,
    lost: Vec<Lost>,
    rank_before: Rank,
}

impl Survivors {
    fn of<B: Backend>(core: &Core<B>) -> Self {
        let own = core.own();
        let before = (0..core.size).map(|rank| own.beside(rank)).collect();
        Self { before, lost: Vec::new(), rank_before: own }
    }

    /// These go on; each is a rank of this process's numbers.
    fn go_on_with(&mut self, decision: &Decision) {
        let before = |rank: &u32| self.before.get(*rank as usize).copied();
        let lost = decision.lost.iter();
        let lost =
            lost.filter_map(|(rank, why)| Some(Lost { rank: before(rank)?, why: why.clone() }));
        let (lost, left): (Vec<_>, Vec<_>) =
            (lost.collect(), decision.members.iter().filter_map(before).collect());
        self.lost.extend(lost);
        self.lost.sort_by_key(|lost| lost.rank);
        self.before = left;
    }

    /// Those who are lost, for people.
    fn names(&self) -> String {
        let lost: Vec<Rank> = self.lost.iter().map(|lost| lost.rank).collect();
        Ranks(&lost).to_string()
    }

    fn told(self, rank: Rank) -> Recovery {
        let Self { before, lost, rank_before } = self;
        let size_before = before.len() + lost.len();
        Recovery { lost, rank_before, size_before, rank, before }
    }
}

/// What a rank made for itself, made again.
pub(super) enum Again<B: Backend> {
    Operator(B::Operator),
    Buffer(Option<u64>),
}

impl<W: World> Live<W> {
    /// Revokes it, unless it is poisoned already.
    pub(super) fn revoke(&self, why: String) {
        revoke(&self.core.health, why);
    }

    /// Goes on with those who live, but for the ranks `without`.
    pub(super) fn go_on(
        &mut self,
        without: &[u32],
        operation: Topic,
        site: Site,
    ) -> Result<Recovery> {
        wait::allowed(operation, site)?;
        self.revoke(format!("`{operation}` was called (at {site})"));
        self.meet(without, operation, site)
    }

    /// Meets those who live, until all of a meeting have met.
    pub(super) fn meet(
        &mut self,
        without: &[u32],
        operation: Topic,
        site: Site,
    ) -> Result<Recovery> {
        let (mut comm, control) = self.core.take();
        let mut meetings = vec![control.ok_or_else(|| ended(&self.core.health))?];
        let mut going =
            self.core.going.take().unwrap_or_else(|| Box::new(Survivors::of(&self.core)));
        let (mut again, mut without) = (0, without);
        let mut last = None;
        let outcome = loop {
            let Some(meeting) = meetings.last() else { break Err(ended(&self.core.health)) };
            let divides = comm.as_ref().is_some_and(|comm| self.divides(comm, without));
            let decision = match self.agree(meeting, (without, divides), operation, site) {
                Ok(decision) => decision,
                Err(error) => break Err(error),
            };
            again = if decision.lost.is_empty() { again + 1 } else { 0 };
            if let Some(error) = last.take_if(|_| again > AGAIN) {
                break Err(error);
            }
            going.go_on_with(&decision);
            without = &[];
            let (old, names) = (self.core.health.clone(), going.names());
            log::info!("{}: agreed to go on without {names}", W::NAME);
            // Those who are left out hear of it, and what is in flight ends.
            let end = |comm: &mut Option<_>| {
                revoke(&old, format!("it goes on without {names} (at {site})"));
                if let Some(comm) = comm.take() {
                    let why = "it goes on without ranks that are gone";
                    old.cuts(why, true);
                    Back::<W>::abort(comm, why);
                }
            };
            let dividing = match &comm {
                Some(comm) if decision.divides => Back::<W>::divide(comm, &self.part(&decision)),
                _ => {
                    end(&mut comm);
                    Ok(None)
                }
            };
            let met = self.meet_once(meeting, &decision, dividing, site);
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
                // What it comes back to, or leaves.
                if let Some(meeting) = meetings.pop() {
                    let health = self.core.health.clone();
                    self.core.go_on_as(comm, meeting, health);
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
        let (health, limit) = (&*self.core.health, self.core.limit());
        let (needs_all, watch) = (false, &|_: &Exchange| None);
        let patience = Patience { health, limit, operation, site, needs_all, watch };
        let numbered = |error: Error| error.numbered(meeting.generation());
        let (late, why) = health.left_out();
        let without: Vec<u32> = without.iter().chain(late).copied().collect();
        meeting.survive(&without, why, divides, &patience).map_err(numbered)
    }

    /// Whether the backend can make the communicator of those who go on out of this one: it is well, its
    /// work is over, and somebody is left out.
    fn divides(&self, comm: &<Back<W> as Lifecycle>::Comm, without: &[u32]) -> bool {
        !without.is_empty() && self.core.health.is_well() && Back::<W>::leaves_out(comm)
    }

    /// This rank's part in that.
    fn part(&self, decision: &Decision) -> Part {
        let own = decision.members.binary_search(&self.core.rank.0);
        let place = ChildPlace {
            color: 0,
            rank: Rank::at(own.unwrap_or_default()).0,
            size: u32::try_from(decision.members.len()).unwrap_or(u32::MAX),
            name: W::NAME,
            config: self.core.config.clone(),
            deadline: self.core.limit().time,
        };
        let without = decision.lost.iter().map(|(rank, _)| *rank).collect();
        Part { place: Some(place), borrows: false, without }
    }

    /// Meets those who were agreed on, and puts their communicator into this one's place. The meeting
    /// where they look for each other next, if that fails.
    fn meet_once(
        &mut self,
        meeting: &Control,
        decision: &Decision,
        dividing: Result<Option<<Back<W> as Lifecycle>::Dividing>>,
        site: Site,
    ) -> Result<(), (Error, Option<Control>)> {
        let (config, limit) = (self.core.config.clone(), self.core.limit());
        let seat = meeting.successor(decision);
        let setup = Setup::new(seat, self.device.clone(), config);
        let mut starting = Starting::<W>::post(setup, site);
        starting.go_on_from(decision.next, &self.core.limits);
        // From here on an abort handle is the new one's.
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
                if let Some((comm, control)) = fresh.core.end() {
                    let health = fresh.core.health.clone();
                    self.core.go_on_as(Some(comm), control, health);
                    self.core.note(&self.stream.core);
                    self.finish.set(Finish::Not);
                }
                Ok(())
            }
            Err(error) => {
                // The others of this meeting are told, and look for each other there.
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

/// Revokes a communicator, unless it is poisoned already.
fn revoke(health: &Health, why: String) {
    if health.is_well() {
        let (name, by) = (health.name(), health.rank());
        health.fail(Revocation { name, by, why }.into());
    }
}

impl<B: Backend> Core<B> {
    /// Makes everything again that was made with this one, on the one that goes on from it.
    fn make_again(&mut self, fresh: &Self, site: Site) -> Result<()> {
        const TOPIC: Topic = "recover";

        let size = fresh.size;
        self.resources.goes_on_with(size, site);
        let why = format!("the communicator went on with {size} ranks (at {site})");
        self.resources.end_device_comms(&why);
        let own = self.resources.windows();
        let own: BTreeMap<WindowId, usize> =
            own.iter().map(|window| (window.id, window.len)).collect();
        let parts = fresh.gather(&own, TOPIC, site)?;
        let lens = |id| parts.iter().map(|part| part.get(&id).copied()).collect::<Option<Vec<_>>>();
        let why = format!("ranks died while it was made or closed, so not all have it (at {site})");
        self.resources.lose_windows(|id| lens(id).is_some(), &why);
        let mut has_signals = self.config.has_signals();
        for window in self.resources.windows() {
            let (id, flags) = (window.id, window.flags);
            let (allocation, comm) = (&window.allocation, fresh.comm()?);
            window.handle = B::register(comm, id, allocation, window.bytes, flags)?;
            has_signals |= flags & Symmetric::BITS != 0;
            if let (Some(shared), Some(lens)) = (&window.lens, lens(id)) {
                shared.set(fresh.generation, lens);
            }
        }
        // Only when every rank's part is registered may a peer's put come.
        fresh.barrier(TOPIC, site)?;
        let again = self.make_own_again(fresh.comm()?)?;
        self.install(again);
        self.has_signals = has_signals;
        Ok(())
    }

    /// What this rank made for itself, made again on `comm`: until that takes this one's place.
    pub(super) fn make_own_again(&mut self, comm: &B::Comm) -> Result<Vec<Again<B>>> {
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
        self.resources.own().map(make).collect()
    }

    /// Takes what was made again, in the order in which it was.
    pub(super) fn install(&mut self, again: Vec<Again<B>>) {
        for own in self.resources.own().zip(again) {
            match own {
                (Own::Operator(made), Again::Operator(operator)) => made.operator = operator,
                (Own::Buffer(held), Again::Buffer(handle)) => held.handle.set(handle),
                // They are of one order.
                _ => {}
            }
        }
    }

    /// Newcomers have no part in the windows that there are.
    pub(super) fn lose_windows_to_newcomers(&mut self, site: Site) {
        let why =
            format!("newcomers have no part in it, and the communicator has grown (at {site})");
        self.resources.lose_windows(|_| false, &why);
        self.resources.end_device_comms(&why);
    }
}

//! Growing: newcomers join, and the members keep their ranks.
//!
//! Members and newcomers meet and create a communicator of all of them beside the old one. The
//! members then tell each other over the old one whether they have it. If all do, it replaces the
//! old one; otherwise all of them keep the old one. This works the same on every backend and every
//! release of NCCL.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Change;
use super::builder::Setup;
use super::core::Terms;
use super::ready::Live;
use super::starting::Starting;
use super::{Back, CanGrow, CommConfig, Communicator, Core, Health, State, given_up};
use crate::backend::{Backend, Departure, Lifecycle};
use crate::control::{Invitation, Topic, UniqueId, bad_invitation};
use crate::error::{Deadline, Departed, Error, Failed, InitFailed, Site, Timeout};
use crate::{Rank, Result, Seat, World};

const INVITE: Topic = "invite";
const GROW: Topic = "grow";

/// How long to wait for messages that a dead rank sent to others before its death.
const LINGER: Duration = Duration::from_secs(1);

/// A rank's part of the invitation: the number of newcomers, and from rank 0 the address where they
/// join.
type Invites = (u32, Option<UniqueId>);

/// A member's part of the exchange before it meets the newcomers.
#[derive(Serialize, Deserialize)]
struct Comes {
    /// The invitation it accepts, or why it accepts none.
    by: Result<UniqueId, String>,
    /// A summary of its work on the old communicator.
    words: Vec<u8>,
}

/// The outcome of connecting the new communicator, for one member.
#[derive(Serialize, Deserialize)]
enum GrowOutcome {
    Well,
    /// Some ranks did not join in time; the text names them.
    Late(Duration, String),
    /// These ranks left.
    Lost(Vec<u32>, String),
    Failed(String),
}

/// ## With more ranks
impl<W: World, S: State> Communicator<W, S> {
    /// Invites newcomers, who join in [`grow`](Self::grow). All ranks must call it with the same
    /// number and get the same invitation; the host waits for them. Any rank may send the
    /// invitation to the newcomers, as [bytes](Invitation::to_bytes) or with `serde`.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Result, World};
    /// # fn send_to_newcomers(bytes: &[u8]) {}
    /// fn two_more<W: World>(comm: Communicator<W>) -> Result<Communicator<W>> {
    ///     let invitation = comm.invite(2)?;
    ///     if comm.rank().index() == 0 {
    ///         send_to_newcomers(&invitation.to_bytes());
    ///     }
    ///     comm.grow(invitation)
    /// }
    /// ```
    ///
    /// An invitation is good for one `grow` of this communicator. Newcomers connect to the process
    /// of rank 0, on the port where it listens for other ranks, and prove that they know the
    /// invitation's secret. On host devices, members that are threads of one process have newcomers
    /// of that process only. No NCCL function is called.
    ///
    /// # Errors
    /// [`Error::BadInvitation`]: no newcomers, or the ranks invite different numbers of them;
    /// [`Error::InitFailed`]: the process of rank 0 cannot listen; a lost peer; a passed deadline;
    /// ranks that make other host-side calls.
    #[track_caller]
    pub fn invite(&self, newcomers: usize) -> Result<Invitation>
    where
        S: CanGrow,
    {
        let site = Site::caller();
        let core = &S::live(&self.body).core;
        core.may_call(INVITE, site)?;
        let control = core.control()?;
        let members = Rank::at(core.size).0;
        let room = members.checked_add(1).and_then(|_| u32::try_from(newcomers).ok());
        let Some(newcomers) = room.filter(|n| *n > 0 && members.checked_add(*n).is_some()) else {
            control.refuse("an invitation of nobody, or of too many", site);
            let why =
                format!("it is for {newcomers} newcomers, beside {members} ranks: invite some");
            return Err(bad_invitation(why, site));
        };
        let open = || control.open_rendezvous(Back::<W>::IN_PROCESS);
        let place = (core.rank.index() == 0).then(open).transpose();
        let place = place.inspect_err(|_| control.refuse("an invitation to nowhere", site))?;
        let (ticket, parts) = core.exchange(&(newcomers, place), INVITE, site)?;
        let said: Vec<Invites> = core.read(&parts, INVITE)?;
        for (rank, &(theirs, _)) in said.iter().enumerate() {
            if theirs != newcomers {
                let why = format!(
                    "rank {rank} invites {theirs} newcomers and this rank {newcomers}: invite as many on all ranks"
                );
                return Err(bad_invitation(why, site));
            }
        }
        let place = said.into_iter().next().and_then(|(_, place)| place);
        let place =
            place.ok_or_else(|| bad_invitation("rank 0 says nowhere to come".into(), site))?;
        let invitation = Invitation::new(place, members, newcomers, core.generation);
        control.invited(ticket, &invitation);
        Ok(invitation)
    }

    /// Adds the [invited](Self::invite) newcomers. All ranks must call it with the same invitation,
    /// while the newcomers `connect` with [`Seat::invited`](crate::Seat::invited). The host waits
    /// for this rank's work, then for the other ranks and the newcomers, within the deadline.
    ///
    /// Members keep their ranks; newcomer `k` becomes rank `size + k`. Buffers, streams, operators,
    /// registrations and abort handles stay valid. Windows do not, because the newcomers have no
    /// memory in them, and neither do declared lengths, signals and bound plans: using them is
    /// [`Error::Stale`] or [`Error::BoundElsewhere`], and they must be created again. Split-off
    /// communicators are unaffected. The next host wait reports signals that were not awaited and
    /// sends that nobody received, as [`finish`](Self::finish) does.
    ///
    /// NCCL: `ncclGetUniqueId` and `ncclCommInitRankConfig`, on every release, then
    /// `ncclCommDestroy` of the old communicator.
    ///
    /// # Errors
    /// [`Error::Timeout`] names the newcomers that did not join; [`Error::BadInvitation`]: the
    /// invitation is another communicator's, from before the ranks changed, used already, or not
    /// the same on all ranks; [`Error::InitFailed`]: a newcomer with a different kind of device,
    /// release, configuration or label, or on a device in use; [`Error::PeerFailed`]: a newcomer or
    /// a member is lost. All of them end the communicator; [`try_grow`](Self::try_grow) returns it.
    #[track_caller]
    pub fn grow(self, invitation: Invitation) -> Result<Self>
    where
        S: CanGrow,
    {
        self.try_grow(invitation).map_err(given_up(Site::caller()))
    }

    /// [`grow`](Self::grow) that returns the communicator when it fails: intact, on all ranks,
    /// unless a member is lost. The invitation is used up once the members have begun to look for
    /// the newcomers.
    ///
    /// # Errors
    /// As [`grow`](Self::grow).
    #[track_caller]
    pub fn try_grow(self, invitation: Invitation) -> Result<Self, Failed<Self>>
    where
        S: CanGrow,
    {
        self.grow_at(&invitation, None, Site::caller())
    }

    /// [`grow`](Self::grow) with another configuration from then on. All ranks must pass the same,
    /// and the newcomers connect with the same, except for what each may choose. Of the old
    /// configuration only [`CommConfig::watch`] stays, which sees the communicator through.
    ///
    /// # Errors
    /// As [`grow`](Self::grow); [`Error::Unsupported`]: the loaded NCCL lacks an option.
    #[track_caller]
    pub fn grow_with(self, invitation: Invitation, config: CommConfig) -> Result<Self>
    where
        S: CanGrow,
    {
        self.try_grow_with(invitation, config).map_err(given_up(Site::caller()))
    }

    /// [`grow_with`](Self::grow_with) that returns the communicator when it fails, with the
    /// configuration that it had.
    ///
    /// # Errors
    /// As [`grow_with`](Self::grow_with).
    #[track_caller]
    pub fn try_grow_with(
        self,
        invitation: Invitation,
        config: CommConfig,
    ) -> Result<Self, Failed<Self>>
    where
        S: CanGrow,
    {
        self.grow_at(&invitation, Some(config), Site::caller())
    }

    fn grow_at(
        mut self,
        invitation: &Invitation,
        config: Option<CommConfig>,
        site: Site,
    ) -> Result<Self, Failed<Self>>
    where
        S: CanGrow,
    {
        match S::held(&mut self.body).grow_by(invitation, config, site) {
            Ok(()) => Ok(self),
            Err(error) => Err(Failed { error, value: self }),
        }
    }
}

impl<W: World> Live<W> {
    fn grow_by(
        &mut self,
        invitation: &Invitation,
        config: Option<CommConfig>,
        site: Site,
    ) -> Result<()> {
        let terms = self.core.terms(config).or_else(|error| {
            self.core.control()?.refuse("a grow that was refused", site);
            Err(error)
        })?;
        let leftovers = self.come(invitation, site)?;
        let core = &mut self.core;
        let old = core.health.clone();
        let seat = core.control()?.grown(invitation).map(Seat::from);
        let fresh = seat.and_then(|seat| {
            let setup = Setup::new(seat, self.device.clone(), terms.config.clone());
            let setup = setup.after(&core.health);
            meet::<W>(setup, (core, &terms), site)
        });
        let made = fresh.and_then(|mut fresh| {
            let again = fresh.core.comm().and_then(|comm| core.make_own_again(comm));
            again.map_err(|error| give_up(&mut fresh, &old, &error)).map(|again| (fresh, again))
        });
        let members = core.size;
        let told = tell_members(core, made.as_ref().err(), members, site);
        let (mut fresh, again) = match (made, told) {
            (Ok(made), Ok(())) => made,
            (Ok((mut fresh, _)), Err(error)) => return Err(give_up(&mut fresh, &old, &error)),
            (Err(own), told) => return Err(told.err().unwrap_or(own)),
        };
        core.resources.next_generation(format!(
            "it was made when the communicator had {members} ranks, before it grew to {} (at {site})",
            invitation.size()
        ));
        core.lose_windows_to_newcomers(site);
        core.install(again);
        let (comm, control) = core.end().ok_or_else(|| old.ended())?;
        self.becomes(&mut fresh.core, &terms);
        let core = &mut self.core;
        core.has_signals = core.config.has_signals();
        let pending = std::iter::from_fn(|| old.take_pending());
        let reports: Vec<Error> = pending.chain(leftovers).collect();
        old.is_replaced();
        let leave = Back::<W>::departer(&comm);
        leave(&format!("it grew (at {site})"), Departure::Finished);
        Back::<W>::finalize(comm);
        drop(control);
        reports.into_iter().for_each(|report| core.health.pend(report));
        let Core { health, changes, size, .. } = core;
        health.is_ready(changes, || Change::Grown { size_before: members, size: *size });
        Ok(())
    }

    /// Waits for this rank's work, and agrees with the other members on the invitation. Returns what
    /// that work left undone.
    fn come(&self, invitation: &Invitation, site: Site) -> Result<Vec<Error>> {
        let core = &self.core;
        core.may_call(GROW, site)?;
        let control = core.control()?;
        let may = control.may_grow(invitation);
        let report = self.idle(site)?;
        report.into_iter().for_each(|report| core.health.pend(report));
        let by = may.map(|()| invitation.place()).map_err(str::to_owned);
        let words = Back::<W>::last_words(core.comm()?);
        let all = core.gather(&Comes { by, words }, GROW, site)?;
        may.map_err(|why| bad_invitation(why.to_owned(), site))?;
        let words = one_invitation(all, invitation, site)?;
        self.leftovers(&words)
    }
}

/// Checks that all members accept one invitation; returns their summaries of work on the old
/// communicator.
fn one_invitation(all: Vec<Comes>, own: &Invitation, site: Site) -> Result<Vec<Arc<[u8]>>> {
    let read = |(rank, Comes { by, words }): (usize, Comes)| {
        let why = match by {
            Ok(by) if by == own.place() => return Ok(words.into()),
            Ok(_) => format!("rank {rank} comes by another one: give the same on all ranks"),
            Err(why) => format!("rank {rank} cannot take its own: {why}"),
        };
        Err(bad_invitation(why, site))
    };
    all.into_iter().enumerate().map(read).collect()
}

/// Connects with the other members and the newcomers. A fault of the old communicator ends the
/// attempt.
fn meet<W: World>(
    setup: Setup<W>,
    (was, terms): (&Core<Back<W>>, &Terms),
    site: Site,
) -> Result<Live<W>> {
    let (old, limit) = (&was.health, was.limit());
    let mut starting = Starting::<W>::post(setup, site);
    starting.grows(&terms.limits);
    let health = starting.health().clone();
    old.holds(&health);
    // An abort handle acts on the communicator that the rank waits for.
    health.goes_on_from(old);
    let outcome = starting.ready(limit, true);
    old.lets_go(&health);
    outcome.map_err(|Failed { error, mut value }| {
        value.fail(&error);
        old.takes_back(&health);
        error
    })
}

/// Abandons the new communicator and tells its ranks.
fn give_up<W: World>(fresh: &mut Live<W>, old: &Arc<Health>, error: &Error) -> Error {
    old.takes_back(&fresh.core.health);
    fresh.core.abort(&error.to_string());
    error.clone()
}

/// Exchanges the outcome of the attempt with the other members.
fn tell_members<B: Backend>(
    core: &Core<B>,
    own: Option<&Error>,
    members: usize,
    site: Site,
) -> Result<()> {
    let control = core.control()?;
    let came = own.map_or(GrowOutcome::Well, GrowOutcome::of);
    let ticket = core.post(&came, GROW, site)?;
    let parts = match core.collect(ticket, GROW, site) {
        // Only the others know whether a dead rank's part reached them, so wait for theirs.
        Err(error) if error.is_peer_failure() && control.is_remote() => {
            let since = Instant::now();
            loop {
                if let Ok(Some(parts)) = control.try_collect(ticket, &core.health) {
                    break parts;
                }
                if since.elapsed() >= LINGER {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        parts => parts?,
    };
    match GrowOutcome::verdict(core.read(&parts, GROW)?, core.health.name(), members, site) {
        None => Ok(()),
        // This rank's own error is more specific, unless it only says that others gave up.
        Some(verdict @ Error::InitFailed(_)) => {
            Err(own.filter(|own| !own.is_peer_failure()).cloned().unwrap_or(verdict))
        }
        Some(verdict) => Err(verdict),
    }
}

impl GrowOutcome {
    fn of(error: &Error) -> Self {
        match error {
            Error::Timeout(late) => Self::Late(late.waited, late.report.clone()),
            Error::PeerFailed(lost) => Self::Lost(
                lost.lost.iter().map(|rank| Rank::at(rank.index()).0).collect(),
                lost.why.clone(),
            ),
            error => Self::Failed(error.to_string()),
        }
    }

    /// The best reason why growing failed, or `None` if it succeeded on every member. A member that
    /// gave up is the last resort, because it did so for another member's reason.
    fn verdict(all: Vec<Self>, name: &'static str, members: usize, site: Site) -> Option<Error> {
        let (mut lost, mut failed, mut gave_up) = (None, None, None);
        for (rank, came) in all.into_iter().enumerate() {
            match came {
                Self::Well => {}
                Self::Late(waited, report) => {
                    let (operation, deadline) = (GROW, Deadline::Configured);
                    return Some(Timeout { operation, site, waited, deadline, report }.into());
                }
                Self::Lost(ranks, why) if ranks.iter().all(|rank| *rank as usize >= members) => {
                    let lost_ranks =
                        ranks.into_iter().map(|rank| Rank::at(rank as usize)).collect();
                    let departed = Departed::all(lost_ranks, why);
                    lost.get_or_insert_with(|| departed.error(name, GROW.to_owned()));
                }
                Self::Failed(why) => drop(failed.get_or_insert((rank, why))),
                Self::Lost(_, why) => drop(gave_up.get_or_insert((rank, why))),
            }
        }
        lost.or_else(|| {
            let (rank, why) = failed.or(gave_up)?;
            let why = format!("could not go on with the newcomers: {why}");
            let (size, ranks) = (members, vec![Rank::at(rank)]);
            Some(InitFailed { size, ranks, why }.into())
        })
    }
}

//! Host waits: the only loop in which the host waits for a device. A task that waits looks as often
//! as it is woken.
//!
//! A wait polls the points, the health of every communicator that used their streams (so that a
//! lost peer or an abort request ends the wait), and the deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::backend::{Backend, Blame, Culprit, HostWait, Streams, WaitsOn, Watcher};
use crate::error::{Deadline, Error, Site, Timeout, WaitInCapture, WaitInLaunch, reported};
use crate::health::{Health, Limit, Limits};
use crate::stream::{Awaited, StreamShared, User, capturing, launching};
use crate::{record, trace};

/// The deadline of waits on streams that no communicator used.
pub(crate) const DEFAULT_DEADLINE: Duration = Duration::from_secs(600);

/// The interval at which a wait checks health and deadline.
pub(crate) const REST: Duration = Duration::from_millis(5);

/// How long a wait for results that are known to be over goes on after a communicator of their
/// stream failed: its end drains the stream.
const SETTLES: Duration = Duration::from_millis(200);

/// The communicator whose call waits. No other call is made on it meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Within<'c> {
    pub(crate) health: &'c Health,
    pub(crate) limits: &'c Limits,
}

/// Waits for the operations that produce data about to be read. Fails every time if one of them did
/// not happen.
pub(crate) fn for_data<B: Backend>(
    points: &[Awaited<B>],
    operation: &'static str,
    site: Site,
) -> Result<()> {
    let begun = Begun { is_for_data: true, ..Begun::new(operation, site) };
    go_on(begun, points, None)?;
    undone(points).map_or(Ok(()), |error| Err(reported(error)))
}

/// Returns why an operation before these reached points did not happen, if one did not.
pub(crate) fn undone<B: Streams>(points: &[Awaited<B>]) -> Option<Error> {
    points.iter().find_map(Awaited::undone)
}

/// Waits for `points`. The deadline is that of `within`, or else the shortest of the communicators
/// involved.
pub(crate) fn until<B: Backend>(
    points: &[Awaited<B>],
    within: Option<Within<'_>>,
    operation: &'static str,
    site: Site,
) -> Result<()> {
    go_on(Begun::new(operation, site), points, within)
}

fn go_on<B: Backend>(
    mut begun: Begun,
    points: &[Awaited<B>],
    within: Option<Within<'_>>,
) -> Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    let (operation, site) = (begun.operation, begun.site);
    let _span = trace::wait(within.map(|within| within.health), operation, site);
    let first = || points[0].stream.users().into_iter().next().map(|user| user.health);
    let _wait = within.is_none().then(|| record::wait(first, operation, site));
    let (mut at, mut noted) = (0, Noted::No);
    while let Some(rest) = begun.look(points, within)? {
        if begun.at != at {
            (at, noted) = (begun.at, Noted::No);
        }
        let Awaited { stream, point, .. } = &points[at];
        if let Noted::Rested | Noted::Yes(_) = noted {
            stream.users().iter().for_each(|user| user.health.watch_who_is_late());
        }
        noted.rest(|| watch(stream, point, within, operation, site));
        B::pause(point, rest);
    }
    complete(points)
}

/// A wait that has begun, which a thread or a task goes on with.
pub(crate) struct Begun {
    operation: &'static str,
    site: Site,
    started: Instant,
    /// The first point that was not seen to be reached.
    at: usize,
    /// Work that nothing is to blame for may be about to complete, so it gets one more interval
    /// after the deadline.
    rested: bool,
    /// It waits for numbered operations. Other waits are for all that is before a point.
    is_for_data: bool,
    /// When a communicator was first seen to have failed.
    failed: Option<Instant>,
}

impl Begun {
    pub(crate) fn new(operation: &'static str, site: Site) -> Self {
        let (started, is_for_data, failed) = (Instant::now(), false, None);
        Self { operation, site, started, at: 0, rested: false, is_for_data, failed }
    }

    /// The first point that was not seen to be reached.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Looks once, without blocking. Returns how long to rest before the next look, or `None` once
    /// all points are reached.
    pub(crate) fn look<B: Backend>(
        &mut self,
        points: &[Awaited<B>],
        within: Option<Within<'_>>,
    ) -> Result<Option<Duration>> {
        allowed(self.operation, self.site)?;
        B::hear();
        while let Some(awaited) = points.get(self.at) {
            let Awaited { stream, point, .. } = awaited;
            let is_known = self.is_for_data && B::NUMBERS_ALL && awaited.was_over();
            if is_known || reached(stream, point)? {
                self.at += 1;
                continue;
            }
            let users = stream.users();
            if let Err(failed) = users_check(&users) {
                // A rank may complete the work and leave at once.
                if !B::ENDS_REACH_POINTS && reached(stream, point)? {
                    self.at += 1;
                    continue;
                }
                let since = self.failed.get_or_insert_with(Instant::now);
                let settles = self.is_for_data && awaited.was_over() && since.elapsed() < SETTLES;
                return if settles { Ok(Some(REST)) } else { Err(failed) };
            }
            let limit = limit(within, &users);
            let waited = self.started.elapsed();
            let left = limit.time.saturating_sub(waited);
            if !left.is_zero() {
                return Ok(Some(left.min(REST)));
            }
            let blame = B::blame(point);
            if blame.is_some() || self.rested {
                // Time passed since the look above, and the blame may be for later work.
                if reached(stream, point)? {
                    self.at += 1;
                    continue;
                }
                let waited = (waited, limit.of);
                return Err(expire(blame, &users, waited, self.operation, self.site));
            }
            self.rested = true;
            return Ok(Some(REST));
        }
        Ok(None)
    }
}

/// Returns the errors of work up to points that are reached, once.
pub(crate) fn complete<B: Backend>(points: &[Awaited<B>]) -> Result<()> {
    // Checked first, as errors that are taken are returned once.
    for awaited in points {
        // Data that was seen complete while all was well stays valid, even if its communicator
        // ends.
        let ends_matter = B::ENDS_REACH_POINTS && !awaited.was_over();
        for user in awaited.stream.users() {
            user.health.look();
            if ends_matter {
                user.health.check()?;
            }
        }
    }
    let mut first = None;
    for awaited in points {
        first = first.or_else(|| B::take_error(&awaited.point));
        for user in awaited.stream.users() {
            first = first.or_else(|| user.health.take_pending());
        }
        // A wait for data that was over has not looked at the point, which may be later.
        if !awaited.was_over() || !B::NUMBERS_ALL {
            awaited.note_over();
        }
    }
    first.map_or(Ok(()), |error| Err(reported(error)))
}

/// Fails if a communicator has.
fn users_check(users: &[User]) -> Result<()> {
    users.iter().try_for_each(|user| {
        user.health.look();
        user.health.check()
    })
}

/// The limit of a wait now.
fn limit(within: Option<Within<'_>>, users: &[User]) -> Limit {
    let of = |time, of| Limit { time, of };
    match (within, users.iter().map(|user| user.deadline).min()) {
        (Some(within), _) => within.limits.now(),
        (None, Some(least)) => of(least, Deadline::Configured),
        (None, None) => of(DEFAULT_DEADLINE, Deadline::Default),
    }
}

/// Whether a wait is registered with the backend's deadlock detection.
#[derive(Default)]
pub(crate) enum Noted {
    #[default]
    No,
    /// It slept once, which is enough for most waits.
    Rested,
    Yes(Option<Watcher>),
}

impl Noted {
    /// Registers a wait that has slept once before; looks for a deadlock if it is registered.
    pub(crate) fn rest(&mut self, watch: impl FnOnce() -> Option<Watcher>) {
        match self {
            Self::No => *self = Self::Rested,
            Self::Rested => *self = Self::Yes(watch()),
            Self::Yes(Some(watcher)) => watcher.look(),
            Self::Yes(None) => {}
        }
    }
}

#[cold]
fn watch<B: Backend>(
    stream: &Arc<StreamShared<B>>,
    point: &B::Point,
    within: Option<Within<'_>>,
    operation: &'static str,
    site: Site,
) -> Option<Watcher> {
    let shared = stream.clone();
    B::watch(HostWait {
        on: WaitsOn::Point(point),
        operation,
        site,
        users: Box::new(move || shared.users().into_iter().map(|user| user.health).collect()),
        within: within.map(|within| within.health.id()),
    })
}

/// Whether a point is reached. A device failure poisons every communicator that used the stream.
fn reached<B: Backend>(stream: &StreamShared<B>, point: &B::Point) -> Result<bool> {
    B::reached(point).inspect_err(|error| {
        for user in stream.users() {
            user.health.fail(error.clone());
        }
    })
}

/// Refuses a wait inside a launched closure, which would block its own stream, or inside a
/// capture's closure, whose operations have not run.
pub(crate) fn allowed(operation: &'static str, site: Site) -> Result<()> {
    if launching() {
        return Err(WaitInLaunch { operation, site }.into());
    }
    not_captured(operation, site)
}

/// Refuses what the host does with memory inside a capture's closure, even if there is nothing to
/// wait for: the memory may be that of operations which were only recorded.
pub(crate) fn not_captured(operation: &'static str, site: Site) -> Result<()> {
    match capturing() {
        true => Err(WaitInCapture { operation, site }.into()),
        false => Ok(()),
    }
}

/// Poisons the communicators to blame for a passed deadline.
#[cold]
fn expire(
    blame: Option<Blame>,
    users: &[User],
    (waited, deadline): (Duration, Deadline),
    operation: &'static str,
    site: Site,
) -> Error {
    let Blame { culprit, report } =
        blame.unwrap_or(Blame { culprit: Culprit::Unknown, report: String::new() });
    let error = Error::from(Timeout { operation, site, waited, deadline, report });
    for user in users {
        let is_it = match culprit {
            Culprit::Known(id) => id == user.health.id(),
            Culprit::Unknown => true,
            Culprit::Program => false,
        };
        if is_it {
            user.health.fail(user.health.told(error.clone()));
        }
    }
    reported(error)
}

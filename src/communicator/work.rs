//! Handles of work that a communicator has enqueued.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::{CanEnqueue, Communicator, Core, On, State};
use crate::backend::{Backend, Streams};
use crate::error::Site;
use crate::health::{Health, Limits};
use crate::reactor::Registration;
use crate::stream::Awaited;
use crate::wait::{self, Begun, Within};
use crate::{Device, Mark, Result, World};

/// Work that a communicator has enqueued, to be waited for without the communicator: by a thread
/// ([`wait`](Self::wait)), or by a task (`work.await?`). Returned by
/// [`submitted`](Communicator::submitted).
///
/// It borrows nothing and is `Send`, so one thread enqueues and others wait. As a future it needs
/// no runtime, and polling never blocks: one thread of the library wakes the tasks. Dropping it
/// cancels nothing.
///
/// ```
/// use typed_nccl::{Device, Host, Result, Sum, spmd};
///
/// # fn main() -> Result<()> {
/// spmd::<Host>(2, |place| {
///     let comm = place.init()?;
///     let mut x = comm.device().from_slice(&[1.0_f32, 2.0])?;
///     comm.all_reduce_in_place(&mut x, Sum)?;
///     let work = comm.submitted()?;
///     // Meanwhile, the host does something else.
///     work.wait()?;
///     assert_eq!(x.to_vec()?, [2.0, 4.0]);
///     comm.finish()
/// })
/// # }
/// ```
#[must_use = "nothing waits for the work"]
pub struct Work<D: Device> {
    points: Vec<Awaited<D::Backend>>,
    health: Arc<Health>,
    limits: Arc<Limits>,
    site: Site,
    /// The wait of a task, once it was polled.
    polled: Option<(Begun, Registration)>,
}

impl<D: Device> Work<D> {
    pub(crate) fn new(
        points: Vec<Awaited<D::Backend>>,
        core: &Core<D::Backend>,
        site: Site,
    ) -> Self {
        let (health, limits) = (core.health.clone(), core.limits.clone());
        Self { points, health, limits, site, polled: None }
    }

    /// Whether the work is over. Never blocks.
    ///
    /// # Errors
    /// As [`wait`](Self::wait), without a deadline.
    pub fn is_done(&self) -> Result<bool> {
        for Awaited { point, .. } in &self.points {
            if <D::Backend as Streams>::reached(point)? {
                continue;
            }
            self.health.look();
            let Err(failed) = self.health.check() else { return Ok(false) };
            // A rank may complete the work and leave at once.
            if D::Backend::ENDS_REACH_POINTS || !<D::Backend as Streams>::reached(point)? {
                return Err(failed);
            }
        }
        self.outcome().map(|()| true)
    }

    /// Waits on the host until the work is over, within the communicator's deadline.
    ///
    /// # Errors
    /// An error of the work, returned once; a lost peer; an abort; [`Error::Timeout`], which ends
    /// the communicator.
    ///
    /// [`Error::Timeout`]: crate::Error::Timeout
    pub fn wait(&self) -> Result<()> {
        self.health.check()?;
        wait::until(&self.points, Some(self.within()), "wait", self.site)?;
        self.health.take_pending().map_or(Ok(()), Err)
    }

    /// Waits on the host for at most this long. Returns whether the work is over; if it is not,
    /// nothing has happened to it, and it can be waited for again.
    ///
    /// # Errors
    /// As [`wait`](Self::wait). The communicator's deadline applies too, if it is shorter.
    pub fn wait_within(&self, time: Duration) -> Result<bool> {
        self.health.check()?;
        let started = Instant::now();
        let mut begun = Begun::new("wait_within", self.site);
        while let Some(rest) = begun.look(&self.points, Some(self.within()))? {
            let left = time.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            self.health.watch_who_is_late();
            if let Some(Awaited { point, .. }) = self.points.get(begun.at()) {
                <D::Backend as Streams>::pause(point, left.min(rest));
            }
        }
        self.outcome().map(|()| true)
    }

    fn within(&self) -> Within<'_> {
        Within { health: &self.health, limits: &self.limits }
    }

    /// How work that is over has ended.
    fn outcome(&self) -> Result<()> {
        wait::complete(&self.points)?;
        self.health.take_pending().map_or(Ok(()), Err)
    }
}

/// Says whether a task that waits should look again.
fn is_due<B: Backend>(
    points: Vec<Awaited<B>>,
    health: Arc<Health>,
    limits: Arc<Limits>,
) -> impl Fn() -> bool + Send + Sync + 'static {
    let since = Instant::now();
    let is_reached = |at: &Awaited<B>| {
        let is_well = at.stream.users_are_well();
        !is_well || B::reached(&at.point).unwrap_or(true)
    };
    move || {
        health.look();
        health.watch_who_is_late();
        let is_over = !health.is_well() || since.elapsed() >= limits.now().time;
        is_over || points.iter().all(is_reached)
    }
}

/// The communicator's deadline applies, counted from the first poll.
impl<D: Device> Future for Work<D> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.health.check()?;
        let (mut begun, waking) = match self.polled.take() {
            Some(polled) => polled,
            None => {
                let (points, health, limits) =
                    (self.points.clone(), self.health.clone(), self.limits.clone());
                let is_due = is_due::<D::Backend>(points, health, limits);
                (Begun::new("await", self.site), Registration::new(is_due))
            }
        };
        match begun.look(&self.points, Some(self.within()))? {
            None => Poll::Ready(self.outcome()),
            Some(_) => {
                waking.wakes(context.waker());
                self.polled = Some((begun, waking));
                Poll::Pending
            }
        }
    }
}

/// No field is pinned.
impl<D: Device> Unpin for Work<D> {}

impl<D: Device> fmt::Debug for Work<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("of", &self.health.name()).finish_non_exhaustive()
    }
}

/// ## Work in flight
impl<W: World, S: State> Communicator<W, S> {
    /// A handle of everything that was enqueued on the communicator's stream until now.
    ///
    /// # Errors
    /// A poisoned communicator; [`Stream::mark`](crate::Stream::mark)'s.
    #[track_caller]
    pub fn submitted(&self) -> Result<Work<W::Device>>
    where
        S: CanEnqueue,
    {
        self.here().submitted()
    }

    /// A handle of what is before `mark`.
    #[track_caller]
    pub fn work(&self, mark: &Mark<W::Device>) -> Work<W::Device>
    where
        S: CanEnqueue,
    {
        Work::new(vec![mark.awaited()], &S::live(&self.body).core, Site::caller())
    }
}

impl<'c, W: World, C> On<'c, W, C> {
    /// A handle of everything that was enqueued on the stream until now:
    /// `comm.on(&stream).submitted()`.
    ///
    /// # Errors
    /// As [`Communicator::submitted`].
    #[track_caller]
    pub fn submitted(&self) -> Result<Work<W::Device>> {
        self.core.health.check()?;
        self.stream.orders_others("submitted", Site::caller())?;
        let (stream, point) = (self.stream, self.stream.mark()?);
        let marked = Awaited::at(stream.shared(), point, stream.last_seq());
        Ok(Work::new(vec![marked], self.core, Site::caller()))
    }
}

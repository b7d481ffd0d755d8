//! One communicator for many threads: requests carry keys, and all ranks issue them in one order.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::leaving::leave;
use super::numbered::Numbered;
use super::{Communicator, Health};
use crate::backend::{HostWait, Lifecycle, WaitsOn, Watcher};
use crate::control::{Agenda, Request, Submission};
use crate::derived::debug;
use crate::error::{
    Abort, BadSubmission, Deadline, Departed, Error, Ranks, Site, SubmissionFault, Timeout,
    reported,
};
use crate::lock::Mutex;
use crate::wait::Noted;
use crate::{Device, Rank, Result, World, trace, unwind, wait};

/// The interval at which a wait checks health and deadline.
const REST: Duration = Duration::from_millis(5);

/// A communicator that several threads of a rank can use: it is `Sync`.
///
/// The ranks of a communicator must make the same calls in the same order. Threads that share it
/// through a `Mutex` take turns in an arbitrary order, which differs between ranks. Here each call
/// is a request with a key, and a key means the same call on every rank. A request is issued once
/// every rank has submitted its key, in an order that is decided in one place.
///
/// Code without a key at hand, such as a layer of a model, calls within
/// [`numbered`](Self::numbered) work.
///
/// [`submit`](Self::submit) blocks its thread until the request's turn and issues it there. So
/// every rank needs as many threads as it has requests in flight whose order may differ on other
/// ranks, or tasks that [`submit_async`](Self::submit_async).
///
/// # Failures
/// A request that fails ends the communicator for all requests of all ranks, also if only the
/// closure's own check failed: validate before [`submit`](Self::submit).
///
/// After a death, requests fail with [`Error::PeerFailed`], and so does `recover` inside of one.
/// Each survivor stops the threads that submit, takes the communicator out, recovers it and wraps
/// it again:
///
/// ```
/// # use std::sync::Arc;
/// # use typed_nccl::{Error, Ordered, Result, World};
/// fn go_on<W: World>(service: Arc<Ordered<W>>) -> Result<Arc<Ordered<W>>> {
///     // The threads are joined: this is the last `Arc`.
///     let ordered = Arc::into_inner(service).ok_or_else(|| Error::other("a thread has it"))?;
///     let mut comm = ordered.into_inner();
///     println!("{}", comm.recover()?);
///     Ordered::new(comm).map(Arc::new)
/// }
/// ```
///
/// # Example
/// A `Mutex<Communicator>` does if its calls come in one order on every rank anyway: one thread of
/// each rank makes them all, or the threads take turns that the ranks have agreed on. It saves the
/// agreement on each request, which between processes is a message to rank 0 and one back.
///
/// ```
/// use std::thread::scope;
/// use typed_nccl::{Communicator, Device, Ordered, Result, Sum, World, launch};
///
/// fn body<W: World>(comm: Communicator<W>) -> Result<()> {
///     let device = comm.device().clone();
///     let ordered = Ordered::new(comm)?;
///     // Each thread has a bucket of gradients; which of them is ready first is chance.
///     scope(|threads| {
///         let train = |bucket: u8| {
///             let (ordered, device) = (&ordered, &device);
///             threads.spawn(move || -> Result<()> {
///                 let mut x = device.from_slice(&[f32::from(bucket); 256])?;
///                 let key = format!("grads/{bucket}");
///                 ordered.submit(key, |comm| comm.all_reduce_in_place(&mut x, Sum))?;
///                 assert_eq!(x.to_vec()?[0], f32::from(bucket) * ordered.size() as f32);
///                 Ok(())
///             })
///         };
///         let all = [0, 1, 2, 3].map(train);
///         all.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
///     })?;
///     ordered.finish()
/// }
///
/// fn main() -> Result<()> {
///     launch!(body)
/// }
/// ```
pub struct Ordered<W: World> {
    comm: Mutex<Communicator<W>>,
    pub(super) here: Here,
    device: W::Device,
    size: usize,
    pub(super) deadline: Duration,
    pub(super) health: Arc<Health>,
    in_flight: Mutex<InFlight>,
}

/// This rank's membership in the order.
pub(super) struct Here {
    pub(super) agenda: Arc<Agenda>,
    pub(super) rank: Rank,
    /// The communicator's id.
    comm: u64,
}

impl Here {
    /// Withdraws this rank on purpose: it submits nothing more.
    fn end(&self) {
        self.agenda.leave(self.rank, "it takes no more requests: its `Ordered` has ended");
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let (agenda, rank) = (self.agenda.clone(), self.rank);
        if agenda.has_left(rank) {
            return;
        }
        leave("it takes no more requests: its `Ordered` was dropped", move |why| {
            agenda.leave(rank, why);
        });
    }
}

/// This rank's requests that have not been issued.
#[derive(Default)]
struct InFlight {
    sites: HashMap<String, Site>,
    /// The thread that is inside a request.
    inside: Option<ThreadId>,
}

impl<W: World> Ordered<W> {
    /// Wraps a communicator for use by many threads. All ranks must call it; the host waits for
    /// them.
    ///
    /// # Errors
    /// As [`barrier`](Communicator::barrier), and the communicator is dropped.
    #[track_caller]
    pub fn new(comm: Communicator<W>) -> Result<Self> {
        let (core, site, size) = (&comm.body.core, Site::caller(), comm.size());
        let own = core.rank;
        let agenda = core.share("Ordered::new", site, |wire| Agenda::new(size, own, wire))?;
        agenda.listen();
        let id = core.control()?.id();
        let (health, deadline, rank) = (core.health.clone(), core.config.deadline, core.rank);
        let (here, in_flight) = (Here { agenda, rank, comm: id }, Mutex::default());
        let device = comm.device().clone();
        Ok(Self { comm: Mutex::new(comm), here, device, size, deadline, health, in_flight })
    }

    /// Runs `call` when its turn has come: once every rank has submitted `key`, and this rank has
    /// issued all requests ordered before it. The host waits for the turn, but not for the work
    /// that `call` enqueues. Any thread of any rank may call it, in any order.
    ///
    /// `call` must make the same calls on every rank. Requests that may be in flight together need
    /// different keys, such as `"17/grads/3"` if the threads are not in step. A key can be reused
    /// after this returns.
    ///
    /// # Errors
    /// Whatever `call` returns. If it fails or panics, it is unknown how much of it was sent, so
    /// the communicator is aborted for all requests, and the other ranks get the reason. So check
    /// what can be wrong with a request before it is submitted, not in `call`. A closure that
    /// returns another error type is passed to [`try_submit`](Self::try_submit).
    ///
    /// [`Error::BadSubmission`]: `key` is in flight on this rank already, or this is inside another
    /// request; nothing is sent. [`Error::Timeout`] names the ranks that have not submitted `key`
    /// within the communicator's deadline. [`Error::PeerFailed`]: a rank can no longer submit it. A
    /// poisoned communicator.
    #[track_caller]
    pub fn submit<T>(
        &self,
        key: impl fmt::Display,
        call: impl FnOnce(&mut Communicator<W>) -> Result<T>,
    ) -> Result<T> {
        self.submit_at(Site::caller(), key.to_string(), call)
    }

    /// [`submit`](Self::submit), with a closure that returns an error type of the program's own.
    /// The other ranks get its text.
    ///
    /// ```
    /// # use typed_nccl::{Buffer, Ordered, Sum, World};
    /// # fn load(_: &str) -> std::io::Result<f32> { Ok(1.0) }
    /// fn serve<W: World>(
    ///     ordered: &Ordered<W>,
    ///     x: &mut Buffer<f32, W::Device>,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     let scale = load("scale")?; // what can fail on one rank alone comes before
    ///     ordered.try_submit("x", |comm| {
    ///         comm.all_reduce_in_place(&mut *x, Sum)?;
    ///         if x.to_vec()?.contains(&scale) { Err("it is used up".into()) } else { Ok(()) }
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    #[track_caller]
    pub fn try_submit<T, E: From<Error> + fmt::Display>(
        &self,
        key: impl fmt::Display,
        call: impl FnOnce(&mut Communicator<W>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.submit_at(Site::caller(), key.to_string(), call)
    }

    /// Numbers the calls that `work` makes by [`submit_next`](Self::submit_next) on this thread, so
    /// that code below it, such as a layer of a model, needs no key at hand. Local.
    ///
    /// `key` names the work on every rank, and `work` must make the same calls in the same order
    /// there; its threads may start in any order. Work that is under way at one time needs
    /// different keys. In `work` another one can be begun, whose calls have numbers of their own.
    ///
    /// ```
    /// use std::thread::scope;
    /// use typed_nccl::{Device, Host, Ordered, Result, Sum};
    ///
    /// /// Knows nothing of requests.
    /// fn layer<D: Device>(ordered: &Ordered<D>, device: &D) -> Result<f32> {
    ///     let mut x = device.from_slice(&[1.0_f32; 8])?;
    ///     ordered.submit_next(|comm| comm.all_reduce_in_place(&mut x, Sum))?;
    ///     Ok(x.to_vec()?[0])
    /// }
    ///
    /// fn main() -> Result<()> {
    ///     Host::spmd(2, |place| {
    ///         let comm = place.init()?;
    ///         let (size, device) = (comm.size() as f32, comm.device().clone());
    ///         let ordered = Ordered::new(comm)?;
    ///         scope(|threads| {
    ///             let serve = |request: u32| {
    ///                 let (ordered, device) = (&ordered, &device);
    ///                 threads.spawn(move || -> Result<()> {
    ///                     ordered.numbered(request, || {
    ///                         assert_eq!(layer(ordered, device)? + layer(ordered, device)?, 2.0 * size);
    ///                         Ok(())
    ///                     })
    ///                 })
    ///             };
    ///             let all = [0, 1, 2, 3, 4, 5].map(serve);
    ///             all.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    ///         })?;
    ///         ordered.finish()
    ///     })
    ///     .map(drop)
    /// }
    /// ```
    pub fn numbered<T>(&self, key: impl fmt::Display, work: impl FnOnce() -> T) -> T {
        let _entered = Numbered::enter(self.id(), key.to_string());
        work()
    }

    /// [`submit`](Self::submit)s the next call of the work that this thread is in, under the key
    /// `work/number`. Only within [`numbered`](Self::numbered).
    ///
    /// # Errors
    /// As [`submit`](Self::submit); [`Error::BadSubmission`]: this thread is in no numbered work.
    #[track_caller]
    pub fn submit_next<T>(
        &self,
        call: impl FnOnce(&mut Communicator<W>) -> Result<T>,
    ) -> Result<T> {
        self.submit_next_at(Site::caller(), call)
    }

    pub(crate) fn submit_next_at<T>(
        &self,
        site: Site,
        call: impl FnOnce(&mut Communicator<W>) -> Result<T>,
    ) -> Result<T> {
        match Numbered::next(self.id()) {
            Some(key) => self.submit_at(site, key, call),
            None => Err(Self::bad("the next one", SubmissionFault::Unnumbered, site)),
        }
    }

    /// Unique while this is borrowed.
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn submit_at<T, E: From<Error> + fmt::Display>(
        &self,
        site: Site,
        key: String,
        call: impl FnOnce(&mut Communicator<W>) -> Result<T, E>,
    ) -> Result<T, E> {
        wait::allowed("submit", site)?;
        self.health.check()?;
        let _in_flight = self.enter(&key, site)?;
        let request = self.here.agenda.submit(self.here.rank, &key, site);
        self.await_turn(request, site).inspect_err(|error| self.health.fail(error.clone()))?;
        Turn::of(self, &key, site).take(call)
    }

    /// This rank.
    pub fn rank(&self) -> Rank {
        self.here.rank
    }

    /// This rank's device.
    pub fn device(&self) -> &W::Device {
        &self.device
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the communicator for use by one thread. Requests of other ranks that this rank has
    /// not submitted fail.
    pub fn into_inner(self) -> Communicator<W> {
        self.here.end();
        self.comm.into_inner()
    }

    /// [Finishes](Communicator::finish) the communicator.
    ///
    /// # Errors
    /// As [`finish`](Communicator::finish).
    #[track_caller]
    pub fn finish(self) -> Result<()> {
        self.into_inner().finish()
    }

    /// Marks a key as in flight until the returned value is dropped.
    pub(super) fn enter<'a>(&'a self, key: &'a str, site: Site) -> Result<InFlightKey<'a, W>> {
        let mut in_flight = self.in_flight.lock();
        let why = match in_flight.sites.get(key) {
            _ if in_flight.inside == Some(std::thread::current().id()) => SubmissionFault::Inside,
            Some(&first) => SubmissionFault::Twice { first },
            None => {
                in_flight.sites.insert(key.to_owned(), site);
                return Ok(InFlightKey { ordered: self, key });
            }
        };
        Err(Self::bad(key, why, site))
    }

    fn bad(key: &str, why: SubmissionFault, site: Site) -> Error {
        BadSubmission { name: W::NAME, key: key.to_owned(), why, site }.into()
    }

    fn await_turn(&self, request: Arc<Request>, site: Site) -> Result<()> {
        let Here { agenda, rank, comm } = &self.here;
        let (agenda, rank, comm) = (agenda.clone(), *rank, *comm);
        let submission = Submission { agenda, request, rank, comm };
        let Submission { agenda, request, .. } = &submission;
        let _span = trace::wait(Some(&self.health), "submit", site);
        let (started, mut noted) = (Instant::now(), Noted::default());
        while let Some(left) = self.left_until_turn("submit", request, site, started)? {
            agenda.wait(rank, request, REST.min(left));
            self.health.watch_who_is_late();
            noted.rest(|| self.watch(&submission, site));
        }
        Ok(())
    }

    /// How long a request may still wait for its turn; `None` if it has come.
    pub(super) fn left_until_turn(
        &self,
        operation: &'static str,
        request: &Request,
        site: Site,
        started: Instant,
    ) -> Result<Option<Duration>> {
        let Here { agenda, rank, .. } = &self.here;
        if agenda.is_turn(*rank, request) {
            return self.health.check().map(|()| None);
        }
        self.health.look();
        self.health.check()?;
        let lost = agenda.lost(request);
        if !lost.is_empty() {
            return Err(reported(self.abandoned(request, site, &lost)));
        }
        let waited = started.elapsed();
        if waited < self.deadline {
            return Ok(Some(self.deadline - waited));
        }
        let (report, deadline) = (agenda.report(*rank, request), Deadline::Configured);
        Err(reported(Timeout { operation, site, waited, deadline, report }.into()))
    }

    /// A request that ranks which left did not submit. Those ranks may get this error as the reason
    /// why this rank leaves, so it names the request.
    #[cold]
    fn abandoned(&self, request: &Request, site: Site, lost: &[(Rank, String)]) -> Error {
        let ranks: Vec<Rank> = lost.iter().map(|(rank, _)| *rank).collect();
        let (own, key, ranks) = (self.rank(), request.key(), Ranks(&ranks));
        let during = format!(
            "the request `{key}`, which rank {own} submitted (at {site}) and {ranks} did not,"
        );
        let lost: Vec<_> = lost.iter().map(|(rank, why)| (*rank, &**why)).collect();
        Departed::each(&lost).error(W::NAME, during)
    }

    /// Registers a wait for a turn. Other threads may make calls meanwhile.
    #[cold]
    fn watch(&self, submission: &Submission, site: Site) -> Option<Watcher> {
        let (on, health) = (WaitsOn::Submission(submission), self.health.clone());
        let users = Box::new(move || vec![health.clone()]);
        let wait = HostWait { on, operation: "submit", site, users, within: None };
        <W::Device as Device>::Backend::watch(wait)
    }
}

debug!(
    [W: World] Ordered<W>,
    self => "Ordered communicator {}, rank {} of {}", W::NAME, self.rank(), self.size
);

/// A key that is in flight.
pub(super) struct InFlightKey<'a, W: World> {
    ordered: &'a Ordered<W>,
    key: &'a str,
}

impl<W: World> Drop for InFlightKey<'_, W> {
    fn drop(&mut self) {
        self.ordered.in_flight.lock().sites.remove(self.key);
    }
}

/// This rank's turn, which ends when the value is dropped.
pub(super) struct Turn<'a, W: World> {
    ordered: &'a Ordered<W>,
    key: &'a str,
    site: Site,
    /// Why the ranks' calls may no longer match.
    failed: Option<String>,
}

impl<'a, W: World> Turn<'a, W> {
    pub(super) fn of(ordered: &'a Ordered<W>, key: &'a str, site: Site) -> Self {
        Self { ordered, key, site, failed: None }
    }

    pub(super) fn take<T, E: fmt::Display>(
        mut self,
        call: impl FnOnce(&mut Communicator<W>) -> Result<T, E>,
    ) -> Result<T, E> {
        let ordered = self.ordered;
        ordered.here.agenda.begins(ordered.here.rank, self.key, self.site);
        ordered.in_flight.lock().inside = Some(std::thread::current().id());
        let mut comm = ordered.comm.lock();
        let outcome = unwind::catch(|| call(&mut comm));
        drop(comm);
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                // It counts as failed even if its text panics.
                self.failed = Some("with an error".to_owned());
                self.failed = Some(error.to_string());
                Err(error)
            }
            Err(panic) => {
                self.failed = Some(format!("it panicked: {}", panic.message()));
                drop(self);
                panic.resume()
            }
        }
    }
}

impl<W: World> Drop for Turn<'_, W> {
    fn drop(&mut self) {
        let Ordered { here: Here { agenda, rank, .. }, health, .. } = self.ordered;
        self.ordered.in_flight.lock().inside = None;
        if let Some(failed) = &self.failed {
            let why = format!("the request `{}` failed on rank {rank}: {failed}", self.key);
            let (by, at) = (*rank, self.site);
            health.fail(Abort { why, by, at }.into());
        }
        agenda.issued(*rank);
    }
}

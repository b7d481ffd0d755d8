//! Transitions: connect, start, ready, finish, abort.

use std::sync::Arc;
use std::time::Instant;

use super::Change;
use super::core::ENDED;
use super::ready::Live;
use super::starting::Starting;
use super::state::State;
use super::{
    Aborted, Back, Becoming, CanBecomeReady, CanConnect, CanEnqueue, Communicator, Finalized,
    Initializing,
};
use crate::backend::{Departure, Lifecycle, WaitsOn};
use crate::control::{Exchange, FINISH, Patience, Ticket};
use crate::error::{self, Error, Failed, Site, Unawaited};
use crate::{Rank, Result, World, wait};

/// # Life
///
/// From [`builder`](Self::builder) to its end. Transitions take the communicator; those that begin
/// with `try_` return it if they fail.
impl<W: World, S: State> Communicator<W, S> {
    /// Connects to the other ranks. All ranks must call it (or `start`); the host waits for them
    /// within the configured deadline. NCCL: `ncclCommInitRankConfig`.
    ///
    /// # Errors
    /// [`Error::Timeout`] and [`Error::PeerFailed`] name the ranks that did not join;
    /// [`Error::InitFailed`]: two ranks on one device, or ranks that disagree on the communicator's
    /// name or kind of device.
    #[track_caller]
    pub fn connect(self) -> Result<Communicator<W>>
    where
        S: CanConnect,
    {
        self.connect_at(Site::caller())
    }

    pub(crate) fn connect_at(self, site: Site) -> Result<Communicator<W>>
    where
        S: CanConnect,
    {
        let setup = S::set_up(self.body);
        if let Err(refused) = wait::allowed("connect", site) {
            setup.seat.take().depart(&refused.to_string());
            return Err(refused);
        }
        Starting::post(setup, site).connect().map(Communicator::of)
    }

    /// Starts to connect and returns immediately. All ranks must call it (or `connect`).
    ///
    /// # Errors
    /// The device cannot be used.
    #[track_caller]
    pub fn start(self) -> Result<Communicator<W, Initializing>>
    where
        S: CanConnect,
    {
        Ok(Communicator::of(Starting::post(S::set_up(self.body), Site::caller())))
    }

    /// Resolves to the communicator once all ranks have joined: `comm.start()?.ready().await?`, or,
    /// on a thread that may block, `.ready().wait()?`. See [`Becoming`]. A failure ends the
    /// communicator; [`try_ready`](Self::try_ready) returns it instead.
    ///
    /// The errors are those of [`connect`](Communicator::connect).
    pub fn ready(self) -> Becoming<W>
    where
        S: CanBecomeReady,
    {
        Becoming::new(S::starting(self.body))
    }

    /// Waits for the other ranks until `deadline`. If the deadline passes, the error returns the
    /// communicator, which can be waited for again or aborted.
    ///
    /// # Errors
    /// As [`connect`](Communicator::connect).
    pub fn try_ready(self, deadline: Instant) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanBecomeReady,
    {
        let limit = deadline.saturating_duration_since(Instant::now());
        match S::ready(self.body, limit) {
            Ok(live) => Ok(Communicator::of(live)),
            Err(Failed { error, value }) => Err(Failed { error, value: Self::of(value) }),
        }
    }

    /// Ends it normally. All ranks must call it; the host waits for this rank's work and for the
    /// other ranks, within the deadline. NCCL: `ncclCommDestroy`, after the ranks have agreed that
    /// all work is over; in the background where a GPU of this process still works for another
    /// communicator, or where another process is late.
    ///
    /// # Errors
    /// Errors of earlier operations that have not been returned yet; [`Error::Unawaited`]: signals
    /// reached this rank that it never awaited; [`Error::PeerFailed`]: a lost peer, one that
    /// dropped its communicator instead, or a send that nobody received; a passed deadline. The
    /// communicator has ended in every case. `PeerFailed` names a call of this rank that the lost
    /// peer did not complete, however the peer left; for a send, with its number and line, whether
    /// or not NCCL had completed it.
    #[track_caller]
    pub fn finish(self) -> Result<()>
    where
        S: CanEnqueue,
    {
        self.finish_at(Site::caller())
    }

    pub(crate) fn finish_at(self, site: Site) -> Result<()>
    where
        S: CanEnqueue,
    {
        match S::finish(self.body, site, true) {
            Ok(_) => Ok(()),
            Err(Failed { error, mut value }) => {
                // An error of an operation does not prevent the regular end.
                let live = S::live_mut(&mut value);
                match live.finish.get() {
                    Finish::Agreed => drop(live.end()),
                    _ => live.core.abort(&error.to_string()),
                }
                Err(error)
            }
        }
    }

    /// [`finish`](Self::finish) that returns the communicator when it fails.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    #[track_caller]
    pub fn try_finish(self) -> Result<Communicator<W, Finalized>, Failed<Self>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        match S::finish(self.body, site, false) {
            Ok(gone) => Ok(Communicator::of(gone)),
            Err(Failed { error, value }) => Err(Failed { error, value: Self::of(value) }),
        }
    }

    /// Ends it now, from every state. Operations in flight may or may not happen, and reading their
    /// results is an error. On a GPU this applies to everything that its streams have not
    /// completed, including your own work; call `stream.sync()` first to keep that. Local;
    /// the other ranks get [`Error::PeerFailed`]. On GPUs the host waits for the communicator's
    /// kernels to stop, usually less than a second, five at most. NCCL: `ncclCommAbort`.
    #[track_caller]
    pub fn abort(self) -> Communicator<W, Aborted> {
        self.abort_because("`abort()` was called")
    }

    /// [`abort`](Self::abort) with a reason for the other ranks.
    #[track_caller]
    pub fn abort_because(self, why: &str) -> Communicator<W, Aborted> {
        Communicator::of(S::abort(self.body, why, Site::caller()))
    }
}

/// ## After an abort
impl<W: World> Communicator<W, Aborted> {
    /// Which rank ended it, where and why.
    pub fn cause(&self) -> Option<&error::Abort> {
        self.body.cause.as_ref()
    }
}

/// What remains of a communicator that has ended.
#[doc(hidden)]
#[derive(Debug)]
pub struct Gone {
    pub(super) rank: Rank,
    pub(super) size: usize,
    pub(super) cause: Option<error::Abort>,
}

impl Gone {
    pub(super) fn place(&self) -> (Rank, usize) {
        (self.rank, self.size)
    }

    pub(super) fn abort(self, _: &str, _: Site) -> Self {
        self
    }
}

impl<W: World> Live<W> {
    pub(super) fn place(&self) -> (Rank, usize) {
        (self.core.own(), self.core.size)
    }

    pub(super) fn abort(mut self, why: &str, at: Site) -> Gone {
        let (rank, size) = self.place();
        self.core.abort(&format!("it was aborted (at {}): {why}", at));
        Gone { rank, size, cause: Some(error::Abort { why: why.to_owned(), by: rank, at }) }
    }

    #[expect(clippy::result_large_err, reason = "the communicator comes back in it")]
    pub(super) fn finish(mut self, site: Site, last: bool) -> Result<Gone, Failed<Self>> {
        match self.drain(site, last) {
            Ok(()) => Ok(self.end()),
            Err(error) => Err(Failed { error, value: self }),
        }
    }

    /// Ends it regularly, after every rank has agreed.
    fn end(&mut self) -> Gone {
        let (rank, size) = self.place();
        if let Some((comm, _)) = self.core.end() {
            Back::<W>::finalize(comm);
            self.core.health.end();
            self.core.changes.tell_of(|| Change::Finished);
        }
        Gone { rank, size, cause: None }
    }

    /// Waits for this rank's work, then for the other ranks. Errors of operations come last,
    /// because the other ranks need not wait for them.
    pub(super) fn drain(&self, site: Site, last: bool) -> Result<()> {
        self.announce(site)?;
        let core = &self.core;
        if let Finish::Posted(ticket) = self.finish.get() {
            let watch = |exchange: &Exchange| {
                // A `finish` that may be retried gives up by itself.
                last.then(|| core.watch(WaitsOn::Exchange(exchange), FINISH, site))?
            };
            let patience = Patience::new(&core.health, core.limit(), FINISH, site);
            let patience = Patience { watch: &watch, ..patience };
            let words = core.control()?.collect(ticket, &patience)?;
            self.finish.set(Finish::Agreed);
            core.is_agreed.set(true);
            self.leftovers(&words)?.into_iter().for_each(|report| core.health.pend(report));
            if let Some(error) = core.control()?.dropped(&core.health, FINISH) {
                core.health.pend(error);
            }
        }
        core.health.take_pending().map_or(Ok(()), Err)
    }

    /// Finds what completed work left undone, from this rank's state and every rank's last words.
    pub(super) fn leftovers(&self, words: &[Arc<[u8]>]) -> Result<Vec<Error>> {
        let core = &self.core;
        Back::<W>::conclude(core.comm()?, words)
            .inspect_err(|error| core.health.fail(error.clone()))?;
        let mut reports: Vec<Error> = Back::<W>::unmet(core.comm()?).into_iter().collect();
        let mut signals = Back::<W>::unawaited(core.comm()?);
        core.unconsumed.deduct(&mut signals);
        if !signals.is_empty() {
            let (name, rank) = (core.health.name(), core.rank);
            reports.push(Unawaited { name, rank, signals }.into());
        }
        Ok(reports)
    }

    /// Waits for this rank's work and tells the others that it has completed. Does so once.
    pub(crate) fn announce(&self, site: Site) -> Result<()> {
        let core = &self.core;
        wait::allowed(FINISH, site)?;
        if let Finish::Not = self.finish.get() {
            // Another thread may hold a device communicator and launch with it.
            core.resources.stop_device_comms(ENDED);
            if let Some(report) = self.idle(site)? {
                core.health.pend(report);
            }
            let leave = Back::<W>::departer(core.comm()?);
            leave(&format!("it called `finish` at {}", site), Departure::Finished);
            let words = Back::<W>::last_words(core.comm()?);
            let ticket = core.control()?.post(FINISH, site, words);
            self.finish.set(Finish::Posted(ticket));
        }
        Ok(())
    }

    /// Waits for this rank's work. Returns an error of an operation, which does not stop the
    /// communicator.
    pub(super) fn idle(&self, site: Site) -> Result<Option<Error>> {
        let (core, started) = (&self.core, Instant::now());
        let report = match self.stream.core.idle(core.within(), FINISH, site) {
            // If another communicator that used the stream is at fault, this one continues.
            Err(error) if error.is_fatal() && !core.health.is_well() => return Err(error),
            outcome => outcome.err(),
        };
        let left = "work on another stream of this rank is not over";
        core.until_idle(started, left, FINISH, site)?;
        Ok(report)
    }
}

/// The progress of `finish`.
#[derive(Clone, Copy)]
pub(super) enum Finish {
    Not,
    /// This rank has announced it; a retry waits for the same answer.
    Posted(Ticket),
    /// All ranks have announced it.
    Agreed,
}

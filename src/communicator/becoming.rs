//! A communicator that becomes ready, as a future. It needs no runtime: whoever polls it finds out, and a
//! thread of ours has whoever waits poll it again.
//!
//! Nothing tells that the others have come or that NCCL has connected, so there is nobody to wake a waker
//! but a clock. One thread is that for all futures of the process, while any is pending.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::starting::Starting;
use super::{Communicator, Limit};
use crate::error::{Deadline, Error, Failed};
use crate::lock::Mutex;
use crate::{Result, World};

/// What [`ready`](Communicator::ready) gives: a communicator when all ranks have come.
///
/// A future, which is `Send` and runs on every executor; or [`wait`](Self::wait) for it. Several of one
/// thread may be polled in any order: each takes what has come and never blocks. Dropped, it ends what
/// it has started, and the other ranks get [`PeerFailed`](crate::Error::PeerFailed).
#[must_use = "it becomes a communicator when it is awaited, or by `wait()`"]
pub struct Becoming<W: World> {
    /// None when it is over.
    starting: Option<Starting<W>>,
    since: Instant,
}

impl<W: World> Becoming<W> {
    pub(super) fn new(starting: Starting<W>) -> Self {
        Self { starting: Some(starting), since: Instant::now() }
    }

    /// Waits for the other ranks within the configured deadline. A failure ends the communicator.
    ///
    /// # Errors
    /// As [`connect`](Communicator::connect).
    pub fn wait(mut self) -> Result<Communicator<W>> {
        let starting = self.starting.take().ok_or_else(was_given)?;
        starting.connect().map(Communicator::of)
    }

    /// The same until `deadline`.
    ///
    /// # Errors
    /// As there.
    pub fn wait_until(mut self, deadline: Instant) -> Result<Communicator<W>> {
        let time = deadline.saturating_duration_since(Instant::now());
        let starting = self.starting.take().ok_or_else(was_given)?;
        let live = starting.ready(Limit { time, of: Deadline::Call }, true);
        live.map(Communicator::of).map_err(ends)
    }
}

/// The others hear of it at once.
fn ends<W: World>(Failed { error, mut value }: Failed<Starting<W>>) -> Error {
    value.fail(&error);
    error
}

/// The deadline is the configured one, from when [`ready`](Communicator::ready) was called.
impl<W: World> Future for Becoming<W> {
    type Output = Result<Communicator<W>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { starting, since } = self.get_mut();
        let Some(mut own) = starting.take() else { return Poll::Ready(Err(was_given())) };
        match own.poll(*since) {
            Ok(Some(live)) => Poll::Ready(Ok(Communicator::of(live))),
            Ok(None) => {
                *starting = Some(own);
                wake_soon(context.waker().clone());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(ends(Failed { error, value: own }))),
        }
    }
}

/// Nothing in it is pinned.
impl<W: World> Unpin for Becoming<W> {}

impl<W: World> fmt::Debug for Becoming<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.starting.as_ref().map(Starting::place);
        f.debug_struct("Becoming").field("place", &place).finish_non_exhaustive()
    }
}

#[cold]
fn was_given() -> Error {
    Error::other("a communicator that has become ready, or has failed, was awaited once more")
}

/// How long those that are pending rest.
const REST: Duration = Duration::from_millis(1);

/// Who is pending; none while there is no thread.
static PENDING: Mutex<Option<Vec<Waker>>> = Mutex::new(None);

/// Has it polled again.
fn wake_soon(waker: Waker) {
    let mut pending = PENDING.lock();
    if let Some(pending) = &mut *pending {
        return pending.push(waker);
    }
    let thread = std::thread::Builder::new().name("typed-nccl ready".to_owned());
    match thread.spawn(wake_all) {
        Ok(_) => *pending = Some(vec![waker]),
        Err(_) => {
            drop(pending);
            // Without a rest, then.
            waker.wake();
        }
    }
}

/// Until nobody is pending. Wakers are a runtime's code: not under the lock.
fn wake_all() {
    loop {
        std::thread::sleep(REST);
        let mut pending = PENDING.lock();
        let wakers = pending.as_mut().map(std::mem::take).unwrap_or_default();
        if wakers.is_empty() {
            *pending = None;
            return;
        }
        drop(pending);
        wakers.into_iter().for_each(Waker::wake);
    }
}

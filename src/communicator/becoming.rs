//! A future for a communicator that is connecting. It needs no runtime.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::starting::Starting;
use super::{Communicator, Limit};
use crate::error::{Deadline, Error, Failed};
use crate::reactor::Registration;
use crate::{Result, World};

/// The interval between two polls.
const REST: Duration = Duration::from_millis(1);

/// Resolves to a communicator once all ranks have joined; returned by
/// [`ready`](Communicator::ready).
///
/// It is `Send` and runs on every executor; without one, call [`wait`](Self::wait). A thread may
/// poll several in any order, as polling never blocks. Dropping it ends the connection attempt, and
/// the other ranks get [`PeerFailed`](crate::Error::PeerFailed).
///
/// ```
/// # use typed_nccl::{Becoming, Host, Seat};
/// let starting = Seat::local(1).remove(0).start(Host::local()?)?;
/// let becoming: Becoming<Host> = starting.ready();
/// let comm = becoming.wait()?; // or `.await`
/// comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[must_use = "it becomes a communicator when it is awaited, or by `wait()`"]
pub struct Becoming<W: World> {
    /// `None` once it has completed.
    starting: Option<Starting<W>>,
    since: Instant,
    waking: Option<Registration>,
}

impl<W: World> Becoming<W> {
    pub(super) fn new(starting: Starting<W>) -> Self {
        Self { starting: Some(starting), since: Instant::now(), waking: None }
    }

    /// Waits for the other ranks within the configured deadline. A failure ends the communicator.
    ///
    /// # Errors
    /// As [`connect`](Communicator::connect).
    pub fn wait(mut self) -> Result<Communicator<W>> {
        let starting = self.starting.take().ok_or_else(was_given)?;
        starting.connect().map(Communicator::of)
    }

    /// Waits for the other ranks until `deadline`. A failure ends the communicator.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_until(mut self, deadline: Instant) -> Result<Communicator<W>> {
        let time = deadline.saturating_duration_since(Instant::now());
        let starting = self.starting.take().ok_or_else(was_given)?;
        let live = starting.ready(Limit { time, of: Deadline::Call }, true);
        live.map(Communicator::of).map_err(ends)
    }
}

/// Reports the failure to the other ranks right away.
fn ends<W: World>(Failed { error, mut value }: Failed<Starting<W>>) -> Error {
    value.fail(&error);
    error
}

/// The configured deadline applies, counted from the call to [`ready`](Communicator::ready).
impl<W: World> Future for Becoming<W> {
    type Output = Result<Communicator<W>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { starting, since, waking } = self.get_mut();
        let Some(mut own) = starting.take() else { return Poll::Ready(Err(was_given())) };
        match own.poll(*since) {
            Ok(Some(live)) => Poll::Ready(Ok(Communicator::of(live))),
            Ok(None) => {
                *starting = Some(own);
                let next = Instant::now() + REST;
                let waking = waking.insert(Registration::new(move || Instant::now() >= next));
                waking.wakes(context.waker());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(ends(Failed { error, value: own }))),
        }
    }
}

/// No field is pinned.
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

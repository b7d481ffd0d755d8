//! A communicator whose state is known at run time: for a field behind `&mut self`.

use std::fmt;
use std::time::Instant;

use crate::error::{Abort, Error, Failed, Site};
use crate::{Communicator, Initializing, Rank, Result, World};

/// A communicator in one of its states.
///
/// ```
/// # use typed_nccl::{Host, Lifecycle, Result, Seat};
/// struct Server {
///     comm: Lifecycle<Host>,
/// }
///
/// # fn main() -> Result<()> {
/// let seat = Seat::local(1).remove(0);
/// let mut server = Server { comm: seat.start(Host::local()?)?.into() };
/// server.comm.wait_ready(std::time::Instant::now() + std::time::Duration::from_secs(5))?;
/// server.comm.ready()?.barrier()?;
/// server.comm.abort();
/// assert!(server.comm.ready().is_err());
/// # Ok(())
/// # }
/// ```
pub enum Lifecycle<W: World> {
    /// Connecting.
    Starting(Communicator<W, Initializing>),
    /// In use.
    InUse(Communicator<W>),
    /// Ended, with the reason.
    Gone(Error),
}

impl<W: World> Lifecycle<W> {
    /// The communicator, if it is in use.
    ///
    /// # Errors
    /// It is connecting, or has ended: the reason.
    pub fn ready(&self) -> Result<&Communicator<W>> {
        match self {
            Self::InUse(comm) => Ok(comm),
            Self::Starting(comm) => {
                Err(over("it is not ready yet: `wait_ready(deadline)` first", comm.rank()))
            }
            Self::Gone(error) => Err(error.clone()),
        }
    }

    /// [`ready`](Self::ready), mutably.
    ///
    /// # Errors
    /// As there.
    pub fn ready_mut(&mut self) -> Result<&mut Communicator<W>> {
        match self {
            Self::InUse(comm) => Ok(comm),
            other => Err(other.ready().err().unwrap_or_else(|| over("it is over", Rank::at(0)))),
        }
    }

    /// Waits for a connecting communicator; one in use stays unchanged.
    ///
    /// # Errors
    /// As [`Communicator::try_ready`]; it goes on connecting.
    pub fn wait_ready(&mut self, deadline: Instant) -> Result<()> {
        self.step(|state| match state {
            Self::Starting(comm) => match comm.try_ready(deadline) {
                Ok(comm) => (Self::InUse(comm), Ok(())),
                Err(Failed { error, value }) => (Self::Starting(value), Err(error)),
            },
            Self::InUse(comm) => (Self::InUse(comm), Ok(())),
            Self::Gone(error) => (Self::Gone(error.clone()), Err(error)),
        })
    }

    /// Ends it now, from every state.
    #[track_caller]
    pub fn abort(&mut self) {
        let reason = |rank| over("it was aborted", rank);
        self.step(|state| match state {
            Self::Starting(comm) => (Self::Gone(reason(comm.abort().rank())), ()),
            Self::InUse(comm) => (Self::Gone(reason(comm.abort().rank())), ()),
            Self::Gone(error) => (Self::Gone(error), ()),
        });
    }

    /// The communicator, if it is in use; else the value comes back.
    ///
    /// # Errors
    /// As [`ready`](Self::ready).
    pub fn try_into_ready(self) -> Result<Communicator<W>, Failed<Self>> {
        match self {
            Self::InUse(comm) => Ok(comm),
            other => {
                let error = other.ready().err();
                let error = error.unwrap_or_else(|| over("it is over", Rank::at(0)));
                Err(Failed { error, value: other })
            }
        }
    }

    /// Applies any transition by value to a field.
    pub fn step<R>(&mut self, step: impl FnOnce(Self) -> (Self, R)) -> R {
        let between = Self::Gone(over("a transition of it panicked", Rank::at(0)));
        let (state, value) = step(std::mem::replace(self, between));
        *self = state;
        value
    }
}

#[track_caller]
fn over(why: &str, by: Rank) -> Error {
    let at = Site::caller();
    Abort { why: format!("the communicator: {why}"), by, at }.into()
}

impl<W: World> From<Communicator<W>> for Lifecycle<W> {
    fn from(comm: Communicator<W>) -> Self {
        Self::InUse(comm)
    }
}

impl<W: World> From<Communicator<W, Initializing>> for Lifecycle<W> {
    fn from(comm: Communicator<W, Initializing>) -> Self {
        Self::Starting(comm)
    }
}

impl<W: World> fmt::Debug for Lifecycle<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting(comm) => comm.fmt(f),
            Self::InUse(comm) => comm.fmt(f),
            Self::Gone(error) => write!(f, "Gone: {error}"),
        }
    }
}

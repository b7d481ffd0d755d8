//! The same closure on n ranks.

use std::any::Any;
use std::fmt::Display;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use super::Place;
use crate::error::{Error, InitFailed, LaunchFault, was_told};
use crate::launcher::{self, Variables};
use crate::{AnyDevice, DeviceFamily, Host, Rank, Result, Seat, communicator, seat};

/// Runs `body` as `n` ranks, one thread and one device each, and waits for all of them.
///
/// Each rank's device has a type of its own, so a buffer cannot wander from one rank to another.
/// The first cause is returned: a rank that fails because another one did is not it. A panic in a
/// rank is resumed here. The other ranks are told of the error that a rank returns, or of its panic.
/// [`Host::spmd`] is the same with a value from each rank.
///
/// ```
/// use typed_nccl::{Host, Result, Sum, spmd};
///
/// # fn main() -> Result<()> {
/// spmd::<Host>(4, |place| {
///     let comm = place.init()?;
///     let mut x = comm.device().from_slice(&[comm.rank().index() as f32])?;
///     comm.all_reduce_in_place(&mut x, Sum)?;
///     assert_eq!(x.to_vec()?, [6.0]);
///     comm.finish()
/// })
/// # }
/// ```
///
/// # Errors
/// The first cause; [`Error::BadLaunch`] in a process that a launcher started as one rank of several:
/// there, use [`launch!`](crate::launch) or [`Seat::from_env`].
pub fn spmd<F: DeviceFamily>(
    n: usize,
    body: impl for<'id> Fn(Place<F::Scoped<'id>>) -> Result<()> + Sync,
) -> Result<()> {
    alone("spmd")?;
    run(n, F::ordinals, |seat, ordinal| body(Place::new(seat, F::scoped(ordinal)))).map(drop)
}

impl Host {
    /// [`spmd`] on host devices, with a value from each rank, by rank, and an error type of your
    /// own.
    ///
    /// ```
    /// use typed_nccl::{Host, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let squares = Host::spmd(3, |place| -> Result<usize> {
    ///     Ok(place.rank().index() * place.rank().index())
    /// })?;
    /// assert_eq!(squares, [0, 1, 4]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first cause.
    pub fn spmd<R: Send, E: From<Error> + Display + Send + 'static>(
        n: usize,
        body: impl for<'id> Fn(Place<<Self as DeviceFamily>::Scoped<'id>>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        alone("Host::spmd")?;
        run(n, Self::ordinals, |seat, ordinal| body(Place::new(seat, Self::scoped(ordinal))))
    }
}

#[cfg(feature = "cuda")]
impl crate::Cuda {
    /// [`spmd`] on GPUs 0 to `n` - 1, with a value from each rank, by rank, and an error type of your
    /// own. Where `NCCL_MULTI_RANK_GPU_ENABLE=1` is set (NCCL 2.30.3 and later) there may be more ranks than
    /// GPUs: they take them in turn.
    ///
    /// # Errors
    /// The first cause; [`Error::NoDriver`], [`Error::NoSuchDevice`].
    pub fn spmd<R: Send, E: From<Error> + Display + Send + 'static>(
        n: usize,
        body: impl for<'id> Fn(Place<<Self as DeviceFamily>::Scoped<'id>>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        alone("Cuda::spmd")?;
        run(n, Self::ordinals, |seat, ordinal| body(Place::new(seat, Self::scoped(ordinal))))
    }
}

#[cfg(feature = "cuda")]
impl crate::Cuda<AnyDevice> {
    /// Ranks on GPUs 0 to `n` - 1 whose device type is `'static`, for `launch!`.
    pub(super) fn ranks<R: Send, E: From<Error> + Display + Send + 'static>(
        n: usize,
        body: impl Fn(Place<Self>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        run(n, Self::ordinals, |seat, ordinal| body(Place::new(seat, Self::any(ordinal)?)))
    }
}

impl Host<AnyDevice> {
    /// Ranks whose device type is `'static`, for `launch!`.
    pub(super) fn ranks<R: Send, E: From<Error> + Display + Send + 'static>(
        n: usize,
        body: impl Fn(Place<Self>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        run(n, Self::ordinals, |seat, ordinal| body(Place::new(seat, Self::any(ordinal)?)))
    }
}

/// Refuses to run all ranks in a process that a launcher started as one rank of several: each of those
/// would run all of them.
fn alone(what: &str) -> Result<()> {
    // Variables that do not read are for who asks for a rank.
    match launcher::find(&Variables::here()) {
        Ok(Some(found)) if found.launched.size > 1 => {
            let asked = format!("`{what}`");
            Err(LaunchFault::Copies { launched: found.launched, asked }.into())
        }
        _ => Ok(()),
    }
}

/// Why the ranks did not all succeed: the most telling, then the first.
enum Cause<E> {
    Panic(Box<dyn Any + Send>),
    /// And whether its rank was told of a lost peer.
    Error(E, bool),
}

impl<E: 'static> Cause<E> {
    /// Lower tells more: a rank that lost a peer only repeats what the peer knows. An error of the
    /// caller's own type may stand for that too.
    fn weight(&self) -> u8 {
        match self {
            Self::Panic(_) => 0,
            Self::Error(error, told) => match (error as &dyn Any).downcast_ref::<Error>() {
                Some(error) if error.is_peer_failure() => 2,
                None if *told => 2,
                _ => 1,
            },
        }
    }
}

fn run<R: Send, E: From<Error> + Display + Send + 'static>(
    n: usize,
    ordinals: fn(usize) -> Result<Vec<u32>>,
    body: impl Fn(Seat, u32) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    seat::fits(n)?;
    let ordinals = ordinals(n)?;
    let cause: Mutex<Option<Cause<E>>> = Mutex::new(None);
    let blame = |new: Cause<E>| {
        let mut cause = cause.lock().unwrap_or_else(PoisonError::into_inner);
        let other = match cause.as_ref().is_none_or(|old| new.weight() < old.weight()) {
            true => cause.replace(new),
            false => Some(new),
        };
        drop(cause);
        // The program's own error, or what it panicked with: its drop may do anything.
        drop(other);
    };
    let values: Vec<Option<R>> = std::thread::scope(|scope| {
        let (body, blame) = (&body, &blame);
        let spawn = |(seat, ordinal): (Seat, u32)| {
            let rank = seat.rank();
            let thread = std::thread::Builder::new().name(format!("rank {rank}"));
            let spawned = thread.spawn_scoped(scope, move || {
                match communicator::body(|| body(seat, ordinal)) {
                    Ok(Ok(value)) => return Some(value),
                    Ok(Err(error)) => blame(Cause::Error(error, was_told())),
                    Err(panic) => blame(Cause::Panic(panic)),
                }
                None
            });
            if let Err(error) = &spawned {
                blame(Cause::Error(no_thread(n, rank, error).into(), false));
            }
            spawned.ok()
        };
        let threads: Vec<_> = Seat::local(n).into_iter().zip(ordinals).map(spawn).collect();
        threads.into_iter().map(|thread| thread?.join().ok().flatten()).collect()
    });
    match cause.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Cause::Panic(panic)) => resume_unwind(panic),
        Some(Cause::Error(error, _)) => Err(error),
        None => Ok(values.into_iter().flatten().collect()),
    }
}

fn no_thread(size: usize, rank: Rank, error: &std::io::Error) -> Error {
    let why = format!("got no thread ({error})");
    Error::InitFailed(Box::new(InitFailed { size, ranks: vec![rank], why }))
}

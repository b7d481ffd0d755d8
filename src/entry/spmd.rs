//! The same closure on n ranks.

use std::any::Any;
use std::fmt::Display;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::Place;
use super::cause::Origin;
use crate::communicator::{self, Failure};
use crate::error::{Error, Heard, InitFailed, LaunchFault, WorstReport};
use crate::launcher::{self, Variables};
use crate::lock::Mutex;
use crate::{DeviceFamily, Host, Rank, Result, Seat, seat};

/// Runs `body` as `n` ranks, one thread and one device each, and waits for all of them.
///
/// Each rank's device has a unique type, so a buffer cannot move from one rank to another. Returns
/// the first cause of a failure, not an error that another rank's failure caused, whichever rank
/// ends first. A panic in a rank is resumed here, unless it only repeats an error that another rank
/// caused, as `unwrap` does. The other ranks get the error or panic as the reason. [`Host::spmd`]
/// also returns a value from each rank; in a function generic over the device it is `D::spmd`, with
/// `D: DeviceFamily`.
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
/// The first cause; [`Error::BadLaunch`] in a process that a launcher started as one rank of
/// several: use [`launch!`](crate::launch) or [`Seat::from_env`] there.
pub fn spmd<F: DeviceFamily>(
    n: usize,
    body: impl for<'id> Fn(Place<F::Scoped<'id>>) -> Result<()> + Sync,
) -> Result<()> {
    each::<F, _, _>("spmd", n, body).map(drop)
}

/// Runs the ranks for the method called `asked`.
pub(crate) fn each<F: DeviceFamily, R: Send, E: From<Error> + Display + Send + 'static>(
    asked: &str,
    n: usize,
    body: impl for<'id> Fn(Place<F::Scoped<'id>>) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    alone(asked)?;
    run(n, F::ordinals, &|seat, ordinal| body(Place::new(seat, F::scoped(ordinal))))?.all()
}

/// Runs one rank of a test's [`spmd`] in a process of its own.
#[cfg(any(test, feature = "models"))]
pub fn one_rank<F: DeviceFamily>(
    seat: Seat,
    body: impl for<'id> Fn(Place<F::Scoped<'id>>) -> Result<()>,
) -> Result<()> {
    one(seat, &|seat, ordinal| body(Place::new(seat, F::scoped(ordinal))))
}

#[cfg(any(test, feature = "models"))]
fn one(seat: Seat, body: &dyn Fn(Seat, u32) -> Result<()>) -> Result<()> {
    let ordinal = seat.rank().0;
    communicator::body(|| body(seat, ordinal), |_: Failure<'_, Error>| {})
        .unwrap_or_else(|panic| resume_unwind(panic))
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
        each::<Self, _, _>("Host::spmd", n, body)
    }
}

#[cfg(feature = "cuda")]
impl crate::Cuda {
    /// [`spmd`] on GPUs 0 to `n` - 1, with a value from each rank, by rank, and an error type of
    /// your own. If `NCCL_MULTI_RANK_GPU_ENABLE=1` is set (NCCL 2.30.3 and later) there may be more
    /// ranks than GPUs, which are then assigned in turn.
    ///
    /// # Errors
    /// The first cause; [`Error::NoDriver`], [`Error::NoSuchDevice`].
    pub fn spmd<R: Send, E: From<Error> + Display + Send + 'static>(
        n: usize,
        body: impl for<'id> Fn(Place<<Self as DeviceFamily>::Scoped<'id>>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        each::<Self, _, _>("Cuda::spmd", n, body)
    }
}

/// Ranks whose device type is `'static`, for `launch!`: on devices that `any` opens.
pub(super) fn ranks<D: DeviceFamily, R: Send, E: From<Error> + Display + Send + 'static>(
    n: usize,
    any: fn(u32) -> Result<D>,
    body: impl Fn(Place<D>) -> Result<R, E> + Sync,
) -> Result<Outcome<R, E>> {
    run(n, D::ordinals, &|seat, ordinal| body(Place::new(seat, any(ordinal)?)))
}

/// Refuses to run all ranks in a process that a launcher started as one rank of several, since each
/// process would run all of them.
fn alone(what: &str) -> Result<()> {
    // Unreadable variables matter only to code that asks for a rank.
    match launcher::find(&Variables::here()) {
        Ok(Some(found)) if found.launched.size > 1 => {
            let asked = format!("`{what}`");
            Err(LaunchFault::Copies { launched: found.launched, asked }.into())
        }
        _ => Ok(()),
    }
}

/// The failure of a rank.
enum Cause<E> {
    Panic(Box<dyn Any + Send>),
    Error(E),
}

/// Orders several failures: the least is the best evidence. A panic is a bug that an error must not
/// hide.
type Weight = (Origin, bool, usize);

/// The failures of the ranks.
struct Failures<E> {
    /// The best evidence so far.
    first: Mutex<Option<(Weight, Cause<E>)>>,
    /// How many there are.
    count: AtomicUsize,
}

impl<E> Failures<E> {
    fn new() -> Self {
        Self { first: Mutex::new(None), count: AtomicUsize::new(0) }
    }

    /// Weighs a failure now, before other ranks can fail because of it.
    fn weigh(&self, origin: Origin, is_error: bool) -> Weight {
        (origin, is_error, self.count.fetch_add(1, Relaxed))
    }

    fn add(&self, weight: Weight, cause: Cause<E>) {
        let mut first = self.first.lock();
        let other = match first.as_ref().is_none_or(|(known, _)| weight < *known) {
            true => first.replace((weight, cause)),
            false => Some((weight, cause)),
        };
        drop(first);
        // Dropping the program's error or panic payload may run any code.
        drop(other);
    }

    fn first(self) -> Option<Cause<E>> {
        self.first.into_inner().map(|(_, cause)| cause)
    }
}

/// The results of the ranks of one process.
pub(super) struct Outcome<R, E> {
    /// Values of the ranks that succeeded, by rank.
    values: Vec<R>,
    first: Option<Cause<E>>,
}

impl<R, E> Outcome<R, E> {
    /// The values of all ranks, or the first cause.
    pub(super) fn all(self) -> Result<Vec<R>, E> {
        match self.first {
            Some(Cause::Panic(panic)) => resume_unwind(panic),
            Some(Cause::Error(error)) => Err(error),
            None => Ok(self.values),
        }
    }

    /// The values of the ranks that succeeded, or, if none did, the first cause.
    pub(super) fn any(self) -> Result<Vec<R>, E> {
        if self.values.is_empty() { self.all() } else { Ok(self.values) }
    }
}

/// Runs the ranks on threads. `body` is not generic, so that threads and their ends are compiled once
/// for all of a program's bodies.
fn run<R: Send, E: From<Error> + Display + Send + 'static>(
    n: usize,
    ordinals: fn(usize) -> Result<Vec<u32>>,
    body: &(dyn Fn(Seat, u32) -> Result<R, E> + Sync),
) -> Result<Outcome<R, E>> {
    seat::fits(n)?;
    let ordinals = ordinals(n)?;
    let failures = Failures::new();
    let values: Vec<Option<R>> = std::thread::scope(|scope| {
        let failures = &failures;
        let spawn = |(seat, ordinal): (Seat, u32)| {
            let rank = seat.rank();
            let thread = std::thread::Builder::new().name(format!("rank {rank}"));
            let spawned = thread.spawn_scoped(scope, move || {
                let mut weight = failures.weigh(Origin::Own, true);
                let weigh = |failure: Failure<'_, E>| weight = weighed(failures, &failure, rank);
                match communicator::body(|| body(seat, ordinal), weigh) {
                    Ok(Ok(value)) => return Some(value),
                    Ok(Err(error)) => failures.add(weight, Cause::Error(error)),
                    Err(panic) => failures.add(weight, Cause::Panic(panic)),
                }
                None
            });
            if let Err(error) = &spawned {
                let cause = Cause::Error(no_thread(n, rank, error).into());
                failures.add(failures.weigh(Origin::Own, true), cause);
            }
            spawned.ok()
        };
        let threads: Vec<_> = Seat::local(n).into_iter().zip(ordinals).map(spawn).collect();
        threads.into_iter().map(|thread| thread?.join().ok().flatten()).collect()
    });
    Ok(Outcome { values: values.into_iter().flatten().collect(), first: failures.first() })
}

/// Weighs the failure of a rank, on its thread.
fn weighed<E: 'static>(failures: &Failures<E>, failure: &Failure<'_, E>, rank: Rank) -> Weight {
    let told = WorstReport::here().worst();
    let heard = told.as_ref().map_or(Heard::Nothing, Error::heard);
    match failure {
        Failure::Error(error) => {
            failures.weigh(Origin::of_error(*error, rank.index(), heard), true)
        }
        Failure::Panic(panic) => failures.weigh(Origin::of_panic(*panic, told.as_ref()), false),
    }
}

fn no_thread(size: usize, rank: Rank, error: &std::io::Error) -> Error {
    let why = format!("got no thread ({error})");
    InitFailed { size, ranks: vec![rank], why }.into()
}

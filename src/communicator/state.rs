//! Lifecycle states as types, and the data of each.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::builder::Setup;
use super::lifecycle::Gone;
use super::ready::Live;
use super::split::Child;
use super::starting::Starting;
use super::{Communicator, Health, Limit};
use crate::error::{Deadline, Failed, Site};
use crate::{Rank, World};

/// Built, not connected: holds its seat, its device and its configuration.
///
/// See the example of [`State`].
#[derive(Debug)]
pub enum Uninit {}

/// Connecting in the background.
///
/// See the example of [`State`].
#[derive(Debug)]
pub enum Initializing {}

/// In use.
///
/// See the example of [`State`].
#[derive(Debug)]
pub enum Ready {}

/// Its device memory is released until it is resumed.
///
/// See the example of [`CanResume`].
#[derive(Debug)]
pub enum Suspended {}

/// Stopped on all ranks, to be shrunk to the survivors.
///
/// See the example of [`CanShrink`].
#[derive(Debug)]
pub enum Revoked {}

/// Ended by `finish`.
///
/// See the example of [`State`].
#[derive(Debug)]
pub enum Finalized {}

/// Ended by `abort`.
///
/// See the example of [`State`].
#[derive(Debug)]
pub enum Aborted {}

/// In use, and borrowing its parent for `'p`, whose fate it shares: see
/// [`SharedChild`](super::SharedChild).
///
/// See the example of [`CanEnqueue`].
#[derive(Debug)]
pub struct Shared<'p>(PhantomData<&'p mut ()>);

/// A lifecycle state of a [`Communicator`](super::Communicator). Sealed.
///
/// ```
/// use typed_nccl::{Aborted, Communicator, Finalized, Host, Initializing, Ready, State, Uninit};
/// # use typed_nccl::{Result, Seat};
///
/// /// In every state.
/// fn describe<S: State>(comm: &Communicator<Host, S>) -> String {
///     format!("{}: rank {} of {}", S::NAME, comm.rank(), comm.size())
/// }
///
/// # fn main() -> Result<()> {
/// # let seat = || Seat::local(1).remove(0);
/// # let builder = Communicator::builder().seat(seat()).device(Host::local()?);
/// let built: Communicator<Host, Uninit> = builder.build();
/// let starting: Communicator<Host, Initializing> = built.start()?;
/// let comm: Communicator<Host, Ready> = starting.ready().wait()?;
/// assert_eq!(describe(&comm), "Ready: rank 0 of 1");
/// let over: Communicator<Host, Finalized> = comm.try_finish()?;
/// # let comm = seat().init(Host::local()?)?;
/// let ended: Communicator<Host, Aborted> = comm.abort(); // from any state
/// # Ok(())
/// # }
/// ```
pub trait State: sealed::Sealed + Sized {
    /// The state's name.
    const NAME: &'static str;

    /// The communicator's data.
    #[doc(hidden)]
    type Body<W: World>;

    /// Rank and size.
    #[doc(hidden)]
    fn place<W: World>(body: &Self::Body<W>) -> (Rank, usize);

    /// Ends it.
    #[doc(hidden)]
    fn abort<W: World>(body: Self::Body<W>, why: &str, site: Site) -> Gone;
}

/// A state in which a communicator takes operations: [`Ready`] and [`Shared`].
///
/// ```
/// # use typed_nccl::{CanEnqueue, Communicator, Device, Host, Ready};
/// # use typed_nccl::{Result, Seat, Shared, Sum, World, tag};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// tag!(Node);
///
/// /// `Communicator<W, Ready>`, and `Communicator<W, Shared>`, which `split_shared` gives.
/// fn ranks<W: World, S: CanEnqueue>(comm: &Communicator<W, S>) -> Result<Vec<u32>> {
///     let mut one = comm.device().from_slice(&[1_u32])?;
///     comm.all_reduce_in_place(&mut one, Sum)?;
///     one.to_vec()
/// }
/// assert_eq!(ranks(&comm)?, [1]);
/// let child: Communicator<Node<Host>, Shared<'_>> = comm.split_shared::<Node>(0, 0)?;
/// assert_eq!(ranks(&child)?, [1]);
/// child.finish()?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` cannot be used in this state",
    label = "this needs a `Ready` communicator",
    note = "`Uninit`: `connect()` it first; `Initializing`: `ready().wait()?`, or `ready().await?`, gives the ready one",
    note = "`Revoked`: `let comm = comm.shrink(&[])?` is one of the surviving ranks; `Suspended`: `let comm = comm.resume()?`",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanEnqueue: State {
    /// The live communicator.
    #[doc(hidden)]
    fn live<W: World>(body: &Self::Body<W>) -> &Live<W>;

    /// The live communicator, for management.
    #[doc(hidden)]
    fn live_mut<W: World>(body: &mut Self::Body<W>) -> &mut Live<W>;

    /// Ends it regularly, or returns it. With `last`, there is no retry.
    #[doc(hidden)]
    fn finish<W: World>(
        body: Self::Body<W>,
        site: Site,
        last: bool,
    ) -> Result<Gone, Failed<Self::Body<W>>>;
}

#[diagnostic::do_not_recommend]
impl CanEnqueue for Ready {
    #[inline]
    fn live<W: World>(body: &Live<W>) -> &Live<W> {
        body
    }

    #[inline]
    fn live_mut<W: World>(body: &mut Live<W>) -> &mut Live<W> {
        body
    }

    fn finish<W: World>(body: Live<W>, site: Site, last: bool) -> Result<Gone, Failed<Live<W>>> {
        body.finish(site, last)
    }
}

#[diagnostic::do_not_recommend]
impl CanEnqueue for Shared<'_> {
    #[inline]
    fn live<W: World>(body: &Self::Body<W>) -> &Live<W> {
        &body.comm.body
    }

    #[inline]
    fn live_mut<W: World>(body: &mut Self::Body<W>) -> &mut Live<W> {
        &mut body.comm.body
    }

    fn finish<W: World>(
        body: Self::Body<W>,
        site: Site,
        last: bool,
    ) -> Result<Gone, Failed<Self::Body<W>>> {
        let Child { comm, parent } = body;
        let again = |live| Child { comm: Communicator::of(live), parent };
        comm.body
            .finish(site, last)
            .map_err(|Failed { error, value }| Failed { error, value: again(value) })
    }
}

/// A state from which a communicator is connected: [`Uninit`].
///
/// ```
/// # use typed_nccl::{CanConnect, Communicator, Host, Result, Seat};
/// fn connect<S: CanConnect>(comm: Communicator<Host, S>) -> Result<Communicator<Host>> {
///     comm.connect()
/// }
/// let builder = Communicator::builder().seat(Seat::local(1).remove(0)).device(Host::local()?);
/// connect(builder.build())?.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "only an `Uninit` communicator, as `build()` gives it, can be connected",
    label = "this communicator is `{Self}`",
    note = "`Initializing`: it is connecting: wait by `ready().wait()?`, or `ready().await?`",
    note = "`Ready`, `Suspended` and `Revoked` ones are already connected: a `Suspended` one becomes ready by `resume()`, a `Revoked` one by `shrink(&[])`",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanConnect: State {
    /// The parameters it was built with.
    #[doc(hidden)]
    fn set_up<W: World>(body: Self::Body<W>) -> Setup<W>;
}

#[diagnostic::do_not_recommend]
impl CanConnect for Uninit {
    fn set_up<W: World>(body: Setup<W>) -> Setup<W> {
        body
    }
}

/// A state in which a communicator waits for the other ranks: [`Initializing`].
///
/// ```
/// # use typed_nccl::{CanBecomeReady, Communicator, Host, Result, Seat};
/// fn wait<S: CanBecomeReady>(comm: Communicator<Host, S>) -> Result<Communicator<Host>> {
///     comm.ready().wait()
/// }
/// wait(Seat::local(1).remove(0).start(Host::local()?)?)?.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "only an `Initializing` communicator, as `start()` gives it, can be waited for",
    label = "this communicator is `{Self}`",
    note = "`Uninit`: `start()` it first, or `connect()` it, which waits",
    note = "`Ready`, `Suspended` and `Revoked` ones are already connected: a `Suspended` one becomes ready by `resume()`, a `Revoked` one by `shrink(&[])`",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanBecomeReady: State {
    /// Waits, or returns it.
    #[doc(hidden)]
    fn ready<W: World>(
        body: Self::Body<W>,
        limit: Duration,
    ) -> Result<Live<W>, Failed<Self::Body<W>>>;

    /// The connection attempt.
    #[doc(hidden)]
    fn starting<W: World>(body: Self::Body<W>) -> Starting<W>;
}

#[diagnostic::do_not_recommend]
impl CanBecomeReady for Initializing {
    fn ready<W: World>(body: Starting<W>, limit: Duration) -> Result<Live<W>, Failed<Starting<W>>> {
        body.ready(Limit { time: limit, of: Deadline::Call }, false)
    }

    fn starting<W: World>(body: Starting<W>) -> Starting<W> {
        body
    }
}

/// A state in which a communicator can continue without ranks that died: [`Ready`].
///
/// ```
/// # use typed_nccl::{CanGoOn, Communicator, Host, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn go_on<S: CanGoOn>(comm: &mut Communicator<Host, S>) -> Result<usize> {
///     Ok(comm.recover()?.lost.len())
/// }
/// assert_eq!(go_on(&mut comm)?, 0);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` cannot go on without some of its ranks",
    label = "this needs a `Ready` communicator",
    note = "`Revoked` and `Suspended`: `shrink(&[])` gives the communicator of the surviving ranks",
    note = "`Shared`: it uses its parent's resources: `abort()` it, and `recover()` the parent",
    note = "`Uninit` and `Initializing`: the others have not come yet; `abort()` it, and take a new seat",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanGoOn: HoldsLive {}

#[diagnostic::do_not_recommend]
impl CanGoOn for Ready {}

/// A state in which a communicator can shrink: [`Ready`], [`Revoked`] and [`Suspended`].
///
/// ```
/// # use typed_nccl::{CanShrink, Communicator, Host, Result, Revoked, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn survivors<S: CanShrink>(comm: Communicator<Host, S>) -> Result<Communicator<Host>> {
///     comm.shrink(&[])
/// }
/// let revoked: Communicator<Host, Revoked> = comm.revoke();
/// let comm = survivors(revoked)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` cannot be shrunk",
    label = "this needs a `Ready`, a `Revoked` or a `Suspended` communicator",
    note = "`Shared`: it uses its parent's resources: `finish()` it, and shrink the parent",
    note = "`Uninit` and `Initializing`: take seats of a communicator without those ranks",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanShrink: HoldsLive {}

#[diagnostic::do_not_recommend]
impl CanShrink for Ready {}

#[diagnostic::do_not_recommend]
impl CanShrink for Revoked {}

#[diagnostic::do_not_recommend]
impl CanShrink for Suspended {}

/// A state in which newcomers can join a communicator: [`Ready`].
///
/// ```
/// # use typed_nccl::{CanGrow, Communicator, Host, Invitation, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn two_more<S: CanGrow>(comm: &Communicator<Host, S>) -> Result<Invitation> {
///     comm.invite(2)
/// }
/// assert_eq!(two_more(&comm)?.size(), 3);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` cannot grow",
    label = "this needs a `Ready` communicator",
    note = "`Revoked`: `shrink(&[])` it to the surviving ranks, then invite newcomers",
    note = "`Suspended`: `resume()` it first",
    note = "`Shared`: it uses its parent's resources: `finish()` it, and grow the parent",
    note = "`Uninit` and `Initializing`: take seats of a larger communicator",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanGrow: HoldsLive + CanEnqueue {}

#[diagnostic::do_not_recommend]
impl CanGrow for Ready {}

/// A state in which a communicator can release its device memory: [`Ready`].
///
/// ```
/// # use typed_nccl::{CanSuspend, Communicator, Host, Result, Seat, Suspended};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn sleep<S: CanSuspend>(
///     comm: Communicator<Host, S>,
/// ) -> Result<Communicator<Host, Suspended>> {
///     comm.suspend()
/// }
/// let comm = sleep(comm)?.resume()?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` cannot be suspended",
    label = "this needs a `Ready` communicator",
    note = "`Suspended`: it is; `resume()` takes its memory again",
    note = "`Revoked`: `shrink(&[])` it to the surviving ranks, then suspend",
    note = "`Shared`: it uses its parent's resources: `finish()` it, and suspend the parent",
    note = "`Uninit` and `Initializing` have no memory to give back: connect it first",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanSuspend: HoldsLive + CanEnqueue {}

#[diagnostic::do_not_recommend]
impl CanSuspend for Ready {}

/// A state in which a communicator can allocate its device memory again: [`Suspended`].
///
/// ```
/// # use typed_nccl::{CanResume, Communicator, Host, Result, Seat, Suspended};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn wake<S: CanResume>(comm: Communicator<Host, S>) -> Result<Communicator<Host>> {
///     comm.resume()
/// }
/// let asleep: Communicator<Host, Suspended> = comm.suspend()?;
/// let comm = wake(asleep)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "only a `Suspended` communicator, as `suspend()` gives it, is resumed",
    label = "this communicator is `{Self}`",
    note = "`Ready` and `Shared` ones have their memory",
    note = "`Revoked`: `shrink(&[])` it to the surviving ranks",
    note = "`Uninit` and `Initializing`: connect it first",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait CanResume: HoldsLive {}

#[diagnostic::do_not_recommend]
impl CanResume for Suspended {}

/// A state in which a communicator has memory statistics: [`Ready`] and [`Suspended`].
///
/// ```
/// # use typed_nccl::{Communicator, HasMemory, Host, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn held<S: HasMemory>(comm: &Communicator<Host, S>) -> Result<u64> {
///     Ok(comm.memory_stats()?.held)
/// }
/// assert_eq!(held(&comm)?, 0); // none on the host
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` has no memory to tell of",
    label = "this needs a `Ready` or a `Suspended` communicator",
    note = "`Shared`: it uses its parent's, of which the parent tells",
    note = "`Revoked`: `shrink(&[])` it to the surviving ranks",
    note = "`Uninit` and `Initializing`: connect it first",
    note = "`Finalized` and `Aborted` communicators have ended: start a new one from a new seat"
)]
pub trait HasMemory: HoldsLive {
    /// The live communicator.
    #[doc(hidden)]
    fn with_memory<W: World>(body: &Self::Body<W>) -> &Live<W>;
}

#[diagnostic::do_not_recommend]
impl HasMemory for Ready {
    fn with_memory<W: World>(body: &Live<W>) -> &Live<W> {
        body
    }
}

#[diagnostic::do_not_recommend]
impl HasMemory for Suspended {
    fn with_memory<W: World>(body: &Live<W>) -> &Live<W> {
        body
    }
}

/// A state whose communicator can be replaced: the common part of [`CanGoOn`], [`CanShrink`],
/// [`CanGrow`] and [`CanSuspend`], which differ in their messages.
#[doc(hidden)]
pub trait HoldsLive: State {
    /// Whether operations in flight complete first.
    const DRAINS: bool;

    /// The live communicator, to be replaced.
    fn held<W: World>(body: &mut Self::Body<W>) -> &mut Live<W>;

    /// The live communicator, for its next state.
    fn into_live<W: World>(body: Self::Body<W>) -> Live<W>;
}

macro_rules! hold_live {
    ($($state:ident drains: $drains:literal),+ $(,)?) => { $(
        #[diagnostic::do_not_recommend]
        impl HoldsLive for $state {
            const DRAINS: bool = $drains;

            fn held<W: World>(body: &mut Live<W>) -> &mut Live<W> {
                body
            }

            fn into_live<W: World>(body: Live<W>) -> Live<W> {
                body
            }
        }
    )+ };
}

hold_live! {
    Ready drains: true,
    Suspended drains: false,
    Revoked drains: false,
}

/// A state in which a communicator may wait, so that another thread may need to end the wait:
/// [`Initializing`], [`Ready`] and [`Suspended`].
///
/// ```
/// # use typed_nccl::{AbortHandle, Communicator, HasAbortHandle, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn handle<S: HasAbortHandle>(comm: &Communicator<Host, S>) -> AbortHandle {
///     comm.abort_handle()
/// }
/// let handle = handle(&comm);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` has no abort handle",
    label = "this needs an `Initializing`, a `Ready` or a `Suspended` communicator",
    note = "another thread ends a wait with it, and this communicator waits for nobody",
    note = "`abort()` ends a communicator in every state"
)]
pub trait HasAbortHandle: State {
    /// The health that the handle trips.
    #[doc(hidden)]
    fn health<W: World>(body: &Self::Body<W>) -> &Arc<Health>;
}

#[diagnostic::do_not_recommend]
impl HasAbortHandle for Initializing {
    fn health<W: World>(body: &Starting<W>) -> &Arc<Health> {
        body.health()
    }
}

#[diagnostic::do_not_recommend]
impl HasAbortHandle for Ready {
    fn health<W: World>(body: &Live<W>) -> &Arc<Health> {
        &body.core.health
    }
}

#[diagnostic::do_not_recommend]
impl HasAbortHandle for Suspended {
    fn health<W: World>(body: &Live<W>) -> &Arc<Health> {
        &body.core.health
    }
}

#[diagnostic::do_not_recommend]
impl HasAbortHandle for Shared<'_> {
    fn health<W: World>(body: &Self::Body<W>) -> &Arc<Health> {
        &body.comm.body.core.health
    }
}

impl sealed::Sealed for Shared<'_> {}

impl<'p> State for Shared<'p> {
    const NAME: &'static str = "Shared";
    type Body<W: World> = Child<'p, W>;

    #[inline]
    fn place<W: World>(body: &Self::Body<W>) -> (Rank, usize) {
        body.comm.body.place()
    }

    fn abort<W: World>(body: Self::Body<W>, why: &str, site: Site) -> Gone {
        body.abort(why, site)
    }
}

macro_rules! states {
    ($($state:ident holds $body:ident<$($world:ident)?>),+ $(,)?) => { $(
        impl sealed::Sealed for $state {}

        impl State for $state {
            const NAME: &'static str = stringify!($state);
            type Body<W: World> = $body<$($world)?>;

            #[inline]
            fn place<W: World>(body: &Self::Body<W>) -> (Rank, usize) {
                body.place()
            }

            fn abort<W: World>(body: Self::Body<W>, why: &str, site: Site) -> Gone {
                body.abort(why, site)
            }
        }
    )+ };
}

states! {
    Uninit holds Setup<W>,
    Initializing holds Starting<W>,
    Ready holds Live<W>,
    Suspended holds Live<W>,
    Revoked holds Live<W>,
    Finalized holds Gone<>,
    Aborted holds Gone<>,
}

mod sealed {
    pub trait Sealed {}
}

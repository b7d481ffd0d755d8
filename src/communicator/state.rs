//! Lifecycle states, as types, and what a communicator holds in each.

use super::builder::Setup;
use super::lifecycle::{Gone, Starting};
use super::ready::Live;
use crate::error::Site;
use crate::{Rank, World};

/// Built, not connected: holds its seat, its device and its configuration.
#[derive(Debug)]
pub enum Uninit {}

/// Connecting in the background.
#[derive(Debug)]
pub enum Initializing {}

/// In use.
#[derive(Debug)]
pub enum Ready {}

/// Its device memory released, to be resumed.
#[derive(Debug)]
pub enum Suspended {}

/// Stopped on all ranks after a failure, to be shrunk.
#[derive(Debug)]
pub enum Revoked {}

/// Ended by `finish`.
#[derive(Debug)]
pub enum Finalized {}

/// Ended by `abort`.
#[derive(Debug)]
pub enum Aborted {}

/// A lifecycle state of a [`Communicator`](super::Communicator). Sealed.
pub trait State: sealed::Sealed + Sized {
    /// The state's name.
    const NAME: &'static str;

    /// What the communicator holds.
    #[doc(hidden)]
    type Body<W: World>;

    /// Rank and size.
    #[doc(hidden)]
    fn place<W: World>(body: &Self::Body<W>) -> (Rank, usize);

    /// Ends it.
    #[doc(hidden)]
    fn abort<W: World>(body: Self::Body<W>, why: &str, site: Site) -> Gone;
}

/// A state in which a communicator takes operations: [`Ready`].
#[diagnostic::on_unimplemented(
    message = "a communicator that is `{Self}` cannot communicate",
    label = "this needs a `Ready` communicator",
    note = "`Uninit`: `connect()` it first; `Initializing`: `ready(deadline)` gives the ready one",
    note = "`Suspended`: `resume()` it first; `Revoked`: `shrink()` it",
    note = "`Finalized` and `Aborted` are over: take a new seat"
)]
pub trait CanEnqueue: State {
    /// The live communicator.
    #[doc(hidden)]
    fn live<W: World>(body: &Self::Body<W>) -> &Live<W>;

    /// The live communicator, for management.
    #[doc(hidden)]
    fn live_mut<W: World>(body: &mut Self::Body<W>) -> &mut Live<W>;
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

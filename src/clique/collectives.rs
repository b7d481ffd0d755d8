//! Collectives of a clique: every rank's call, as one group. Record other operations lane by lane
//! ([`Clique::group`]).

use super::{Clique, PerRank};
use crate::error::Site;
use crate::group::{Group, Refuse, issue_all};
use crate::memory::SameDtype;
use crate::{AsRank, CallConfig, Readable, ReduceOp, Result, World, Writable};

impl<W: World> Clique<W> {
    /// Configures collectives of the clique for one or several calls. In a [`group`](Self::group),
    /// use each lane's own [`with`](Group::with).
    ///
    /// ```
    /// # use typed_nccl::{CallConfig, Clique, Ctas, Host, Result, Sum};
    /// # fn main() -> Result<()> {
    /// let clique = Clique::init(Host::open_each(&[0, 1])?)?;
    /// let mut x = clique.alloc::<f32>(8)?;
    /// let quietly = CallConfig::builder().ctas(Ctas::at_most(2)).build();
    /// clique.with(&quietly).all_reduce_in_place(&mut x, Sum)?;
    /// clique.finish()
    /// # }
    /// ```
    pub fn with<'q>(&'q self, config: &'q CallConfig) -> ConfiguredClique<'q, W> {
        ConfiguredClique { clique: self, config }
    }

    /// One group per rank.
    fn all(&self, cliques: &[u64], site: Site) -> Result<Vec<Group<'_, W>>> {
        cliques.iter().try_for_each(|&clique| self.same_clique(Some(clique), site))?;
        Ok(self.members.iter().map(|member| Group::new(member.here())).collect())
    }
}

/// A clique whose collectives are configured per call, returned by [`Clique::with`].
///
/// See the example of [`Clique::with`].
#[must_use = "the configuration is that of the collectives that are called through this"]
#[derive(Clone, Copy, Debug)]
pub struct ConfiguredClique<'q, W: World> {
    clique: &'q Clique<W>,
    config: &'q CallConfig,
}

fn issue<W: World>(all: Vec<Group<'_, W>>) -> Result<()> {
    let parts: Vec<_> = all.into_iter().map(Group::into_part).collect();
    issue_all(parts, Refuse::EveryRank)
}

/// Collectives of every rank, with the communicators' configuration or one for the call. Loops
/// instead of closures, since a closure would become the call site that a refusal reports.
macro_rules! collectives {
    ($(
        $(#[$doc:meta])*
        $name:ident[$($generic:tt)+]($(&$send:ident: $From:ident,)? mut $recv:ident: $To:ident $(, $arg:ident: $Arg:ty)*);
    )+) => {
        impl<W: World> Clique<W> { $(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<$($generic)+>(
                &self,
                $($send: &PerRank<$From>,)?
                $recv: &mut PerRank<$To>,
                $($arg: $Arg,)*
            ) -> Result<()> {
                let mut all = self.all(&[$($send.clique(),)? $recv.clique()], Site::caller())?;
                $(let mut $send = $send.items().iter();)?
                for (g, $recv) in all.iter_mut().zip($recv.items_mut()) {
                    $(let Some($send) = $send.next() else { break };)?
                    g.$name($($send,)? $recv, $($arg),*)?;
                }
                issue(all)
            }
        )+ }

        impl<W: World> ConfiguredClique<'_, W> { $(
            #[doc = concat!("See [`Clique::", stringify!($name), "`].")]
            ///
            /// # Errors
            /// As the clique's method; a configuration that NCCL would reject.
            #[track_caller]
            pub fn $name<$($generic)+>(
                &self,
                $($send: &PerRank<$From>,)?
                $recv: &mut PerRank<$To>,
                $($arg: $Arg,)*
            ) -> Result<()> {
                let Self { clique, config } = self;
                let mut all = clique.all(&[$($send.clique(),)? $recv.clique()], Site::caller())?;
                $(let mut $send = $send.items().iter();)?
                for (g, $recv) in all.iter_mut().zip($recv.items_mut()) {
                    $(let Some($send) = $send.next() else { break };)?
                    g.with(config).$name($($send,)? $recv, $($arg),*)?;
                }
                issue(all)
            }
        )+ }
    };
}

collectives! {
    /// [`Communicator::all_reduce`](crate::Communicator::all_reduce) on every rank.
    ///
    /// # Errors
    /// As the communicator's, from any rank; a [`PerRank`] of another clique. Nothing is sent then.
    all_reduce[A: Readable<W::Device, Elem = E>, B: Writable<W::Device, Elem: SameDtype<E>>, E](
        &send: A,
        mut recv: B,
        op: impl ReduceOp<E, W> + Copy
    );

    /// [`Communicator::all_reduce_in_place`](crate::Communicator::all_reduce_in_place) on every
    /// rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    all_reduce_in_place[B: Writable<W::Device, Elem = E>, E](
        mut buf: B,
        op: impl ReduceOp<E, W> + Copy
    );

    /// [`Communicator::broadcast_in_place`](crate::Communicator::broadcast_in_place) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    broadcast_in_place[B: Writable<W::Device>](mut buf: B, root: impl AsRank);

    /// [`Communicator::reduce_in_place`](crate::Communicator::reduce_in_place) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    reduce_in_place[B: Writable<W::Device, Elem = E>, E](
        mut buf: B,
        op: impl ReduceOp<E, W> + Copy,
        root: impl AsRank
    );

    /// [`Communicator::all_gather`](crate::Communicator::all_gather) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    all_gather[A: Readable<W::Device, Elem = E>, B: Writable<W::Device, Elem: SameDtype<E>>, E](
        &send: A,
        mut recv: B
    );

    /// [`Communicator::all_gather_in_place`](crate::Communicator::all_gather_in_place) on every
    /// rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    all_gather_in_place[B: Writable<W::Device>](mut buf: B);

    /// [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    reduce_scatter[A: Readable<W::Device, Elem = E>, B: Writable<W::Device, Elem: SameDtype<E>>, E](
        &send: A,
        mut recv: B,
        op: impl ReduceOp<E, W> + Copy
    );

    /// [`Communicator::reduce_scatter_in_place`](crate::Communicator::reduce_scatter_in_place) on
    /// every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    reduce_scatter_in_place[B: Writable<W::Device, Elem = E>, E](
        mut buf: B,
        op: impl ReduceOp<E, W> + Copy
    );

    /// [`Communicator::all_to_all`](crate::Communicator::all_to_all) on every rank.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    all_to_all[A: Readable<W::Device, Elem = E>, B: Writable<W::Device, Elem: SameDtype<E>>, E](
        &send: A,
        mut recv: B
    );
}

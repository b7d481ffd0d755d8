//! Groups of several communicators: recorded together, and issued or refused as one.

use super::{Group, Lists, recorded};
use crate::backend::{Backend, Op};
use crate::communicator::{CanEnqueue, Core, State, Together};
use crate::error::{Error, Site};
use crate::stream::StreamCore;
use crate::{Communicator, Device, Health, Result, Stream, World};

/// Issues operations of several communicators as one: they proceed together, and cost one launch.
/// For each communicator, every rank records the same operations in one group. The host does not
/// wait. NCCL: `ncclGroupStart` and `ncclGroupEnd`, 2.3.
///
/// The communicators can be on one device or on several. Each uses its own stream, or another one
/// with `(&mut comm, &stream)` in place of `&mut comm`. The order of operations of communicators
/// that share a stream is unspecified, but the same on all ranks, so they cannot deadlock; the
/// order of the arguments does not matter.
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Result, Sum, World, group};
/// fn reduce<Tp: World, Dp: World<Device = Tp::Device>>(
///     tp: &mut Communicator<Tp>,
///     dp: &mut Communicator<Dp>,
///     activations: &mut Buffer<f32, Tp::Device>,
///     gradients: &mut Buffer<f32, Tp::Device>,
/// ) -> Result<()> {
///     group((tp, dp), |(tp, dp)| {
///         tp.all_reduce_in_place(activations, Sum)?;
///         dp.all_reduce_in_place(gradients, Sum)
///     })
/// }
/// ```
///
/// A closure that returns an error or panics poisons all of the communicators, since what it would
/// have recorded is unknown. A closure that returns another error type is passed to [`try_group`].
///
/// # Errors
/// The closure's own; the first refusal of an operation in it, or the error that poisoned one of
/// the communicators. In these cases nothing is issued on any of them, and the other ranks of all
/// of them are told. [`Error::Unsupported`]: communicators that another library made cannot be
/// grouped with others.
#[track_caller]
pub fn group<'e, C: Grouped<'e, Groups = G>, G, R>(
    comms: C,
    record: impl FnOnce(&mut G) -> Result<R>,
) -> Result<R> {
    try_group(comms, record)
}

/// [`group`], with a closure that returns an error type of the program's own. For one communicator
/// it is called as `try_group(&mut comm, |g| ..)`.
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Error, World, try_group};
/// #[derive(Debug)]
/// enum Stop {
///     Comm(Error),
///     NoPeer,
/// }
///
/// impl From<Error> for Stop {
///     fn from(error: Error) -> Self {
///         Self::Comm(error)
///     }
/// }
///
/// fn pass<W: World>(
///     comm: &mut Communicator<W>,
///     to: Option<usize>,
///     x: &Buffer<f32, W::Device>,
/// ) -> Result<(), Stop> {
///     try_group(comm, |g| {
///         g.send(x, to.ok_or(Stop::NoPeer)?)?;
///         Ok(())
///     })
/// }
/// ```
///
/// # Errors
/// As [`group`].
#[track_caller]
pub fn try_group<'e, C: Grouped<'e, Groups = G>, G, R, E: From<Error>>(
    comms: C,
    record: impl FnOnce(&mut G) -> Result<R, E>,
) -> Result<R, E> {
    let (site, mut groups) = (Site::caller(), comms.groups());
    let mut opened = Vec::new();
    C::healths(&groups, &mut opened);
    let value = recorded(&mut groups, record, site, |groups| {
        let mut healths = opened.clone();
        C::healths(groups, &mut healths);
        healths
    })?;
    let mut parts = Vec::new();
    C::parts(groups, &mut parts);
    issue_all(parts, Refuse::ThisRankAlone)?;
    Ok(value)
}

/// An argument of [`group`]: `&mut comm`, `(&mut comm, &stream)`, tuples of up to four of these,
/// and vectors. Sealed.
///
/// See the example of [`group`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be grouped",
    label = "expected `&mut` borrows of communicators, all on GPUs or all on the host",
    note = "name them by `&mut comm`, or `(&mut comm, &stream)` for another stream than its own, in a tuple of up to four or in a vector: `group((&mut tp, &mut dp), |(tp, dp)| ..)`"
)]
pub trait Grouped<'e>: sealed::Sealed {
    /// The recorders: a [`Group`] for each communicator, in the same places.
    type Groups;

    #[doc(hidden)]
    type Backend: Backend;

    #[doc(hidden)]
    fn groups(self) -> Self::Groups;

    #[doc(hidden)]
    fn healths(groups: &Self::Groups, healths: &mut Vec<&'e Health>);

    #[doc(hidden)]
    fn parts(groups: Self::Groups, parts: &mut Vec<CommOps<'e, Self::Backend>>);
}

/// One communicator's part of a joint group.
#[doc(hidden)]
pub struct CommOps<'e, B: Backend> {
    pub(super) core: &'e Core<B>,
    pub(super) stream: &'e StreamCore<B>,
    pub(super) lists: Lists<'e, B>,
    pub(super) error: Option<Error>,
}

/// Who depends on refused operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuse {
    /// Ranks on other threads, which are told.
    ThisRankAlone,
    /// Nobody: this thread drives all ranks.
    EveryRank,
}

/// Issues all parts as one, or refuses all of them.
pub(crate) fn issue_all<B: Backend>(mut parts: Vec<CommOps<'_, B>>, refuse: Refuse) -> Result<()> {
    // One order on all ranks, regardless of the program's.
    parts.sort_by_key(|part| part.core.order());
    let wrong = parts.iter_mut().enumerate().find_map(|(at, part)| Some((at, part.check().err()?)));
    let outcome = match wrong {
        Some((at, error)) if refuse == Refuse::ThisRankAlone => Err(refuse_all(&parts, at, error)),
        Some((_, error)) => Err(error),
        None => {
            let filled = parts.iter_mut().filter(|part| !part.lists.ops.is_empty());
            let mut together: Vec<_> = filled.map(CommOps::together).collect();
            Core::issue_together(&mut together)
        }
    };
    for CommOps { core, lists, .. } in parts {
        core.keep_lists(lists);
    }
    outcome
}

/// Records everything as refused because of an error in one of the parts.
#[cold]
fn refuse_all<B: Backend>(parts: &[CommOps<'_, B>], wrong: usize, error: Error) -> Error {
    let refuse = |part: &CommOps<'_, B>| part.core.refuse(&part.lists.refusals, error.clone());
    let mut told: Vec<Error> = parts.iter().map(refuse).collect();
    told.swap_remove(wrong)
}

impl<'e, B: Backend> CommOps<'e, B> {
    /// Fails if it cannot be issued.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None if self.lists.ops.is_empty() => Ok(()),
            None => self.together().check(),
        }
    }

    /// Whether an error was found already.
    pub(crate) fn is_refused(&self) -> bool {
        self.error.is_some()
    }

    /// The operations to issue.
    pub(crate) fn ops(&self) -> &[Op<'e, B>] {
        &self.lists.ops
    }

    fn together(&mut self) -> Together<'_, 'e, B> {
        Together { core: self.core, stream: self.stream, ops: &mut self.lists.ops }
    }
}

#[diagnostic::do_not_recommend]
impl<'e, W: World, S: State + CanEnqueue> Grouped<'e> for &'e mut Communicator<W, S> {
    type Groups = Group<'e, W>;
    type Backend = <W::Device as Device>::Backend;

    fn groups(self) -> Group<'e, W> {
        Group::new(self.here())
    }

    fn healths(group: &Group<'e, W>, healths: &mut Vec<&'e Health>) {
        healths.push(&group.on.core.health);
    }

    fn parts(group: Group<'e, W>, parts: &mut Vec<CommOps<'e, Self::Backend>>) {
        parts.push(group.into_part());
    }
}

#[diagnostic::do_not_recommend]
impl<'e, W: World, S: State + CanEnqueue> Grouped<'e>
    for (&'e mut Communicator<W, S>, &'e Stream<W::Device>)
{
    type Groups = Group<'e, W>;
    type Backend = <W::Device as Device>::Backend;

    fn groups(self) -> Group<'e, W> {
        Group::new(self.0.on(self.1))
    }

    fn healths(group: &Group<'e, W>, healths: &mut Vec<&'e Health>) {
        healths.push(&group.on.core.health);
    }

    fn parts(group: Group<'e, W>, parts: &mut Vec<CommOps<'e, Self::Backend>>) {
        parts.push(group.into_part());
    }
}

#[diagnostic::do_not_recommend]
impl<'e, C: Grouped<'e>> Grouped<'e> for Vec<C> {
    type Groups = Vec<C::Groups>;
    type Backend = C::Backend;

    fn groups(self) -> Self::Groups {
        self.into_iter().map(C::groups).collect()
    }

    fn healths(groups: &Self::Groups, healths: &mut Vec<&'e Health>) {
        groups.iter().for_each(|group| C::healths(group, healths));
    }

    fn parts(groups: Self::Groups, parts: &mut Vec<CommOps<'e, Self::Backend>>) {
        groups.into_iter().for_each(|group| C::parts(group, parts));
    }
}

macro_rules! tuples {
    ($(($($comm:ident $index:tt),+)),+ $(,)?) => { $(
        #[diagnostic::do_not_recommend]
        impl<'e, B: Backend, $($comm: Grouped<'e, Backend = B>),+> Grouped<'e> for ($($comm,)+) {
            type Groups = ($($comm::Groups,)+);
            type Backend = B;

            fn groups(self) -> Self::Groups {
                ($(self.$index.groups(),)+)
            }

            fn healths(groups: &Self::Groups, healths: &mut Vec<&'e Health>) {
                $($comm::healths(&groups.$index, healths);)+
            }

            fn parts(groups: Self::Groups, parts: &mut Vec<CommOps<'e, B>>) {
                $($comm::parts(groups.$index, parts);)+
            }
        }

        impl<$($comm: sealed::Sealed),+> sealed::Sealed for ($($comm,)+) {}
    )+ };
}

tuples!((X 0, Y 1), (X 0, Y 1, Z 2), (X 0, Y 1, Z 2, V 3));

mod sealed {
    use crate::{Communicator, State, Stream, World};

    pub trait Sealed {}
    impl<W: World, S: State> Sealed for &mut Communicator<W, S> {}
    impl<D: crate::Device> Sealed for &Stream<D> {}
    impl<C: Sealed> Sealed for Vec<C> {}
}

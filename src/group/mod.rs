//! Groups: record, then issue.
//!
//! The closure records operations; nothing is sent while it runs. After it returns, all of them are
//! validated and then issued in one stretch without running code of the program. One bad argument
//! refuses the whole group. A closure that returns an error or panics issues nothing, and also
//! poisons the communicator: what it would have recorded is unknown, so the ranks cannot stay in
//! step.
//!
//! A group is a bag, not a sequence. One-sided operations come first, in program order, then the
//! collectives, then the transfers, which all proceed together. An operation must not depend on
//! another of its own group; for buffers the borrows ensure it.

mod estimate;
mod several;

pub use several::{Grouped, group, try_group};

pub(crate) use estimate::estimate_all;
pub(crate) use several::{CommOps, Refuse, issue_all};

use std::ops::{Deref, DerefMut};

use crate::backend::{Backend, Op, Refusal};
use crate::communicator::{AsConfigured, CallConfig, CanEnqueue, Health, On, PerCall, State};
use crate::error::{Abort, Error, Site};
use crate::{Communicator, Device, Rank, Result, Stream, World, unwind};

/// Records the operations of a group. `comm.group(|g| ..)` passes it to the closure; helper
/// functions take `&mut Group<'_, W>`.
///
/// Operands are `&buffer` and `&mut buffer`, or views by value ([`RecordRead`](crate::RecordRead),
/// [`RecordWrite`](crate::RecordWrite)). They stay borrowed until the group is issued, so one
/// buffer cannot be both sent and received in one group.
///
/// `C` says whether its collectives are [configured](Self::with) per call.
pub struct Group<'e, W: World, C = AsConfigured> {
    pub(crate) on: On<'e, W>,
    lists: Lists<'e, <W::Device as Device>::Backend>,
    error: Option<Error>,
    config: C,
}

/// A group's operations, and the refusals to send instead.
pub(crate) struct Lists<'e, B: Backend> {
    pub(crate) ops: Vec<Op<'e, B>>,
    pub(crate) refusals: Vec<Refusal>,
}

impl<B: Backend> Lists<'_, B> {
    pub(crate) const fn new() -> Self {
        Self { ops: Vec::new(), refusals: Vec::new() }
    }

    /// The same lists, empty, for other operands; keeps their memory.
    pub(crate) fn recycle<'f>(mut self) -> Lists<'f, B> {
        self.ops.clear();
        self.refusals.clear();
        // Nothing is left to map, so the standard library reuses the allocation.
        let ops = self.ops.into_iter().map_while(|_| None).collect();
        Lists { ops, refusals: self.refusals }
    }
}

impl<'e, W: World, C: PerCall<'e>> Group<'e, W, C> {
    /// This process's rank.
    pub fn rank(&self) -> Rank {
        self.on.core.own()
    }

    /// This process's rank, as a number.
    pub fn index(&self) -> usize {
        self.on.core.rank.index()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.on.core.size
    }

    /// The rank `offset` places ahead on the ring of ranks.
    pub fn ring(&self, offset: isize) -> Rank {
        self.rank().ring(offset, self.size())
    }

    /// Records a draft, valid or not: the other ranks expect every operation.
    pub(crate) fn record(
        &mut self,
        refusal: impl Into<Option<Refusal>>,
        draft: Result<Op<'e, <W::Device as Device>::Backend>>,
    ) -> Result<()> {
        self.lists.refusals.extend(refusal.into());
        let configured = match self.config.config() {
            Some(config) => draft.and_then(|op| config.apply(op)),
            None => draft,
        };
        match configured {
            Ok(op) => self.lists.ops.push(op),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
        Ok(())
    }

    /// Records that operations are refused, all for one reason.
    pub(crate) fn refuses(
        &mut self,
        refusals: impl IntoIterator<Item = Refusal>,
        wrong: Error,
    ) -> Result<()> {
        self.lists.refusals.extend(refusals);
        self.error.get_or_insert(wrong);
        Ok(())
    }
}

impl<'e, W: World> Group<'e, W> {
    pub(crate) fn new(on: On<'e, W>) -> Self {
        let lists = on.core.lists();
        Self { on, lists, error: None, config: AsConfigured }
    }

    /// Configures collectives of the group: see [`Communicator::with`].
    ///
    /// ```
    /// # use typed_nccl::{Buffer, CallConfig, Communicator, Ctas, Result, Sum, World};
    /// fn both<W: World>(
    ///     comm: &mut Communicator<W>,
    ///     bulk: &mut Buffer<f32, W::Device>,
    ///     loss: &mut Buffer<f32, W::Device>,
    /// ) -> Result<()> {
    ///     let config = CallConfig::builder().ctas(Ctas::at_most(8)).profiler_tag(7).build();
    ///     comm.group(|g| {
    ///         g.with(&config).all_reduce_in_place(bulk, Sum)?;
    ///         g.all_reduce_in_place(loss, Sum)
    ///     })
    /// }
    /// ```
    pub fn with<'g>(&'g mut self, config: &'e CallConfig) -> WithConfig<'g, 'e, W> {
        let lists = std::mem::replace(&mut self.lists, Lists::new());
        let configured = Group { on: self.on, lists, error: self.error.take(), config };
        WithConfig { group: self, configured }
    }

    /// Fails if it cannot be issued.
    fn check(&mut self) -> Result<()> {
        self.error.take().map_or_else(|| self.on.core.can_be_one(&self.lists.ops), Err)
    }

    /// Records all of it as refused.
    fn refuse(self, error: Error) -> Error {
        let Self { on, lists, .. } = self;
        let error = on.core.refuse(&lists.refusals, error);
        on.core.keep_lists(lists);
        error
    }

    /// Issues operations that were checked.
    fn issue_checked(self) -> Result<()> {
        let Self { on, mut lists, .. } = self;
        let issued = match lists.ops.is_empty() {
            true => Ok(()),
            false => on.issue(&mut lists.ops, &lists.refusals),
        };
        on.core.keep_lists(lists);
        issued
    }

    /// Validates and issues.
    pub(crate) fn issue(mut self) -> Result<()> {
        match self.check() {
            Ok(()) => self.issue_checked(),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Erases the world's type.
    pub(crate) fn into_part(self) -> CommOps<'e, <W::Device as Device>::Backend> {
        let Self { on, lists, error, config: AsConfigured } = self;
        CommOps { core: on.core, stream: on.stream, lists, error }
    }
}

/// Records configured collectives of a group, from [`Group::with`].
///
/// See the example of [`Group::with`].
#[must_use = "the configuration is that of the calls that are recorded through this"]
pub struct WithConfig<'g, 'e, W: World> {
    group: &'g mut Group<'e, W>,
    /// Holds the group's lists in the meantime.
    configured: Group<'e, W, &'e CallConfig>,
}

impl<'e, W: World> Deref for WithConfig<'_, 'e, W> {
    type Target = Group<'e, W, &'e CallConfig>;

    fn deref(&self) -> &Self::Target {
        &self.configured
    }
}

impl<W: World> DerefMut for WithConfig<'_, '_, W> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.configured
    }
}

impl<W: World> Drop for WithConfig<'_, '_, W> {
    fn drop(&mut self) {
        // Another group may have been swapped in, whose operations were checked for its ranks.
        self.group.on = self.configured.on;
        self.group.lists = std::mem::replace(&mut self.configured.lists, Lists::new());
        self.group.error = self.configured.error.take();
    }
}

/// Required by a group of a communicator that others may use meanwhile.
#[diagnostic::on_unimplemented(
    message = "a group has its communicator to itself, and `comm.on(&stream)` shares it",
    label = "write `comm.group_on(&stream, |g| ..)`",
    note = "a call of the communicator inside the closure would not be in the group"
)]
pub trait HasCommunicatorToItself {
    #[doc(hidden)]
    fn never(&self) -> !;
}

impl<'c, W: World, C> On<'c, W, C> {
    /// Not available here: a group on another stream is [`Communicator::group_on`].
    ///
    /// # Errors
    /// It cannot be called.
    pub fn group<R>(&self, _record: impl FnOnce(&mut Group<'c, W>) -> Result<R>) -> Result<R>
    where
        Self: HasCommunicatorToItself,
    {
        self.never()
    }
}

/// # Groups
///
/// Several operations that are issued as one; of several communicators: [`group`](crate::group()).
impl<W: World, S: State> Communicator<W, S> {
    /// Issues several operations as one: they proceed together, and cost one launch. NCCL:
    /// `ncclGroupStart` and `ncclGroupEnd`, 2.3.
    ///
    /// ```
    /// # use typed_nccl::{Buffer, Communicator, Result, World};
    /// fn shift<W: World>(
    ///     comm: &mut Communicator<W>,
    ///     mine: &Buffer<f32, W::Device>,
    ///     from_left: &mut Buffer<f32, W::Device>,
    /// ) -> Result<()> {
    ///     let (left, right) = (comm.ring(-1), comm.ring(1));
    ///     comm.group(|g| {
    ///         g.send(mine, right)?;
    ///         g.recv(from_left, left)
    ///     })
    /// }
    /// ```
    ///
    /// A closure that returns an error or panics poisons the communicator, since what it would have
    /// recorded is unknown; do fallible work before. An operation with bad arguments is not such an
    /// error: it is recorded, and refused after the closure returns. A closure that returns another
    /// error type is passed to [`try_group`].
    ///
    /// # Errors
    /// The closure's own; the first refusal of an operation in it, in which case nothing is issued.
    #[track_caller]
    pub fn group<'e, R>(
        &'e mut self,
        record: impl FnOnce(&mut Group<'e, W>) -> Result<R>,
    ) -> Result<R>
    where
        S: CanEnqueue,
    {
        run(self.here(), record, Site::caller())
    }

    /// [`group`](Self::group) on another stream.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn group_on<'e, R>(
        &'e mut self,
        stream: &'e Stream<W::Device>,
        record: impl FnOnce(&mut Group<'e, W>) -> Result<R>,
    ) -> Result<R>
    where
        S: CanEnqueue,
    {
        run(self.on(stream), record, Site::caller())
    }
}

pub(crate) fn run<'e, W: World, R>(
    on: On<'e, W>,
    record: impl FnOnce(&mut Group<'e, W>) -> Result<R>,
    site: Site,
) -> Result<R> {
    let (core, records, mut group) = (on.core, on.stream.records(), Group::new(on));
    let value = match records {
        // Nothing is called yet: the capture fails, and the communicator is unharmed.
        true => record(&mut group).inspect_err(|_| core.fail_capture(site)),
        // The closure may have swapped in another group, whose communicator is then poisoned too.
        false => recorded(&mut group, record, site, |group| [&*core.health, &group.on.core.health]),
    }?;
    group.issue()?;
    Ok(value)
}

/// Runs the closure. If it fails, what it would have recorded is unknown and the ranks cannot stay
/// in step, so its communicators are poisoned.
fn recorded<'e, G, R, E, C: IntoIterator<Item = &'e Health>>(
    groups: &mut G,
    record: impl FnOnce(&mut G) -> Result<R, E>,
    site: Site,
    healths: impl Fn(&G) -> C,
) -> Result<R, E> {
    let give_up = |groups: &G, why: String| {
        for health in healths(groups) {
            let by = health.generation().of(health.rank());
            health.fail(Abort { why: why.clone(), by, at: site }.into());
        }
    };
    let outcome = unwind::catch(|| record(groups)).unwrap_or_else(|panic| {
        give_up(groups, format!("the closure of a group panicked: {}", panic.message()));
        panic.resume()
    });
    outcome.inspect_err(|_| {
        let why = "the closure of a group returned an error, and nothing of the group was sent";
        give_up(groups, why.to_owned());
    })
}

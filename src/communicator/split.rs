//! Splitting: communicators of some of a communicator's ranks.

use std::marker::PhantomData;
use std::ops::Deref;

use super::builder::Setup;
use super::lifecycle::Gone;
use super::split_number::{SplitNumber, color as color_of};
use super::split_request::{Child as Wanted, SplitRequest, SplitRequests};
use super::starting::Starting;
use super::{Back, CanEnqueue, CommConfig, Communicator, Shared, State};
use crate::backend::{ChildPlace, Lifecycle, Part};
use crate::derived::debug;
use crate::error::{Abort, BadGroups, Error, Site};
use crate::{Label, Rank, Result, Seat, World, unwind};

/// The call that other ranks see when this rank refuses to split.
const REFUSED: &str = "a split that was refused";

/// A rank's request.
struct Ask {
    color: Option<u64>,
    key: i128,
    /// Whether the child borrows its parent.
    borrows: bool,
}

/// # Children
///
/// Communicators of some of the ranks, made by all of them. The parent stays as it is.
impl<W: World, S: State> Communicator<W, S> {
    /// Divides the ranks: those of one `color` form a communicator named `L`, ordered by `key`,
    /// then by their rank here. All ranks must call it; the host waits for this rank's work on the
    /// communicator, then for the other ranks. The children own their resources and may outlive the
    /// parent. They inherit its configuration, except for [`CommConfig::watch`];
    /// [`split_with`](Self::split_with) sets another.
    ///
    /// NCCL: `ncclCommSplit`, 2.18, with the parent's ranks in child order as colours and keys.
    /// With [`CommConfig::split_share`], where NCCL's children always share,
    /// `ncclCommInitRankConfig` with a new id. If a rank is lost or fails meanwhile, this
    /// communicator is poisoned, because NCCL waits for all of its ranks.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Device, Result, tag};
    /// tag!(pub Node);
    ///
    /// fn per_node<D: Device>(world: &mut Communicator<D>) -> Result<Communicator<Node<D>>> {
    ///     world.split::<Node>(world.rank().index() / 8, 0)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::BadColor`]: a colour below 0. [`Error::InitFailed`] on every rank: ranks of one
    /// colour that request children with different names or configurations; nothing is divided
    /// then. A lost peer; a passed deadline; ranks that make other host-side calls.
    #[track_caller]
    pub fn split<L: Label>(
        &mut self,
        color: impl SplitNumber,
        key: impl SplitNumber,
    ) -> Result<Communicator<L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        self.split_by::<L>(color, key, None, Site::caller())
    }

    /// [`split`](Self::split) with a configuration for the children. The ranks of one colour must
    /// pass the same, except for the deadline.
    ///
    /// # Errors
    /// As [`split`](Self::split); [`Error::Unsupported`]: the loaded NCCL lacks an option.
    #[track_caller]
    pub fn split_with<L: Label>(
        &mut self,
        color: impl SplitNumber,
        key: impl SplitNumber,
        config: CommConfig,
    ) -> Result<Communicator<L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        self.split_by::<L>(color, key, Some(config), Site::caller())
    }

    fn split_by<L: Label>(
        &mut self,
        color: impl SplitNumber,
        key: impl SplitNumber,
        config: Option<CommConfig>,
        site: Site,
    ) -> Result<Communicator<L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        let color = self.colored(color, site)?;
        self.split_at::<L>(color, key.number(), config, site)
    }

    /// [`split`](Self::split), or [`split_with`](Self::split_with).
    pub(crate) fn split_at<L: Label>(
        &mut self,
        color: u64,
        key: i128,
        config: Option<CommConfig>,
        site: Site,
    ) -> Result<Communicator<L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        let ask = Ask { color: Some(color), key, borrows: false };
        let child = self.divide::<L>(ask, config, site)?;
        // A rank with a colour is a member of that colour.
        child.ok_or_else(|| S::live(&self.body).core.health.ended())
    }

    /// [`split`](Self::split) in which a rank may stay out: a rank without a colour gets `None`.
    /// NCCL: `NCCL_SPLIT_NOCOLOR`.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    #[track_caller]
    pub fn split_some<L: Label>(
        &mut self,
        color: Option<usize>,
        key: impl SplitNumber,
    ) -> Result<Option<Communicator<L::On<W::Device>>>>
    where
        S: CanEnqueue,
    {
        let (color, key) = (color.map(|color| color as u64), key.number());
        self.divide::<L>(Ask { color, key, borrows: false }, None, Site::caller())
    }

    /// [`split`](Self::split) by lists of ranks, each in the child's order. A rank in none of them
    /// gets `None`. All ranks must pass the same lists.
    ///
    /// # Errors
    /// As [`split`](Self::split); [`Error::BadGroups`]: a rank is listed twice or does not exist.
    #[track_caller]
    pub fn split_into<L: Label>(
        &mut self,
        groups: &[impl AsRef<[usize]>],
    ) -> Result<Option<Communicator<L::On<W::Device>>>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let lists = || groups.iter().map(AsRef::as_ref).collect::<Vec<_>>();
        let lists = unwind::catch(lists).unwrap_or_else(|panic| {
            self.refuse_split(panic.message(), site);
            panic.resume()
        });
        let mut place = vec![None; self.size()];
        for (group, ranks) in lists.into_iter().enumerate() {
            for (at, &rank) in ranks.iter().enumerate() {
                match place.get_mut(rank) {
                    Some(free @ None) => *free = Some((group, at)),
                    Some(Some(_)) => return Err(self.bad_groups(rank, true, site)),
                    None => return Err(self.bad_groups(rank, false, site)),
                }
            }
        }
        let own = place[self.rank().index()];
        let color = own.map(|(group, _)| group as u64);
        let key = own.map_or(0, |(_, at)| at as i128);
        self.divide::<L>(Ask { color, key, borrows: false }, None, site)
    }

    /// Splits a grid of `rows` x `cols` ranks, where rank = row * cols + col, into one communicator
    /// per column (along the rows) and one per row (along the columns). All ranks must call it; the
    /// host waits for them.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Device, Mesh, Result, tag};
    /// tag!(pub TensorParallel, pub DataParallel);
    ///
    /// # fn f<D: Device>(world: &mut Communicator<D>) -> Result<()> {
    /// // 2 replicas of a model that is spread over 4 ranks each.
    /// let Mesh { along_rows: dp, along_cols: tp } =
    ///     world.mesh::<DataParallel, TensorParallel>(2, 4)?;
    /// assert_eq!((dp.size(), tp.size()), (2, 4));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`split`](Self::split); [`Error::BadGroups`]: `rows` x `cols` is not the communicator's
    /// size.
    #[track_caller]
    pub fn mesh<R: Label, C: Label>(
        &mut self,
        rows: usize,
        cols: usize,
    ) -> Result<Mesh<R::On<W::Device>, C::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        if rows.checked_mul(cols) != Some(self.size()) {
            let why = format!("a mesh of {rows} x {cols} does not have {} ranks", self.size());
            return Err(self.refuse_split(why, site));
        }
        let rank = self.rank().index();
        let along_rows = self.split_by::<R>(rank % cols, rank, None, site)?;
        let along_cols = self.split_by::<C>(rank / cols, rank, None, site)?;
        Ok(Mesh { along_rows, along_cols })
    }

    /// [`split`](Self::split) whose children borrow this communicator and share its fate: a fault
    /// of one poisons all of them. See [`SharedChild`]. If the communicator was created with
    /// [`CommConfig::split_share`], children also share its resources, which makes them faster to
    /// create and smaller; otherwise they have their own. NCCL: `ncclCommSplit`, 2.18, of a parent
    /// with `splitShare`.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    #[track_caller]
    pub fn split_shared<L: Label>(
        &mut self,
        color: impl SplitNumber,
        key: impl SplitNumber,
    ) -> Result<SharedChild<'_, L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let color = self.colored(color, site)?;
        let ask = Ask { color: Some(color), key: key.number(), borrows: true };
        let child = self.divide::<L>(ask, None, site)?;
        let parent = &S::live(&self.body).core.health;
        let comm = child.ok_or_else(|| parent.ended())?;
        parent.share_fate(&comm.body.core.health);
        Ok(SharedChild::borrowing(comm))
    }

    fn divide<L: Label>(
        &mut self,
        ask: Ask,
        config: Option<CommConfig>,
        site: Site,
    ) -> Result<Option<Communicator<L::On<W::Device>>>>
    where
        S: CanEnqueue,
    {
        let live = S::live_mut(&mut self.body);
        let core = &live.core;
        core.may_wait("split", site)?;
        let control = core.control()?;
        if let Some(config) = &config {
            let fits = config.check(core.own(), core.size);
            let fits = fits.and_then(|()| Back::<W>::offers(config));
            fits.inspect_err(|_| control.refuse(REFUSED, site))?;
        }
        let (config, limit) = core.child_terms(config);
        // NCCL divides only an idle communicator.
        core.drained("split", site)?;
        let Ask { color, key, borrows } = ask;
        let child = Wanted::new(<L::On<W::Device>>::NAME, &config, borrows);
        let request = SplitRequest { color, key, child };
        let (ticket, parts) = core.exchange(&request, "split", site)?;
        let name = core.health.name();
        let read = |_| core.read(&parts, "split").and_then(|all| SplitRequests::agree(all, name));
        let requests = control.shared(ticket, read);
        let requests =
            Result::as_ref(&requests).map_err(|error| error.clone().numbered(core.generation))?;
        let members = requests.members(color);
        let own = members.iter().position(|&rank| rank == core.rank.0);
        let place = own.zip(members.first()).map(|(rank, &first)| ChildPlace {
            color: first,
            rank: Rank::at(rank).0,
            size: u32::try_from(members.len()).unwrap_or(u32::MAX),
            name: <L::On<W::Device>>::NAME,
            config: config.clone(),
            deadline: limit.time,
        });
        let dividing =
            Back::<W>::divide(core.comm()?, &Part { place, borrows, without: Vec::new() })
                .inspect_err(|error| core.health.fail(error.clone()))?;
        // A child's number is its first rank: colours are of any size.
        let (Some(own), Some(&first)) = (own, members.first()) else {
            return core.stand_by(dividing, "split", site).map(|()| None);
        };
        let seat = Seat::from(control.child(ticket, first, own, &members));
        let setup = Setup::<L::On<W::Device>>::new(seat, live.device.clone(), config);
        let setup = setup.after(&core.health);
        let child = Starting::post(setup, site).connect_child(&core.health, dividing, limit)?;
        Ok(Some(Communicator::of(child)))
    }

    #[cold]
    fn bad_groups(&self, rank: usize, twice: bool, site: Site) -> Error
    where
        S: CanEnqueue,
    {
        let why = match twice {
            true => format!("rank {rank} stands in the lists twice"),
            false => format!("there is no rank {rank} in a communicator of {}", self.size()),
        };
        self.refuse_split(why, site)
    }

    fn colored(&self, color: impl SplitNumber, site: Site) -> Result<u64>
    where
        S: CanEnqueue,
    {
        color_of(color, site).map_err(|bad| self.refuse_as(bad.into(), site))
    }

    #[cold]
    fn refuse_split(&self, why: String, site: Site) -> Error
    where
        S: CanEnqueue,
    {
        self.refuse_as(BadGroups { why, site }.into(), site)
    }

    /// Tells the other ranks, which may be waiting to split.
    #[cold]
    fn refuse_as(&self, error: Error, site: Site) -> Error
    where
        S: CanEnqueue,
    {
        match S::live(&self.body).core.control() {
            Ok(control) => control.refuse(REFUSED, site),
            Err(error) => return error,
        }
        error
    }
}

/// The two communicators of a rank in a grid.
///
/// See the example of [`Communicator::mesh`](super::Communicator::mesh).
pub struct Mesh<R: World, C: World> {
    /// With the ranks of the same column, one for each row.
    pub along_rows: Communicator<R>,
    /// With the ranks of the same row, one for each column.
    pub along_cols: Communicator<C>,
}

/// A child that borrows its parent and shares its resources and its fate.
///
/// It works like any communicator, and can be passed as `&Communicator<W>`. A function that takes
/// `&mut Communicator<W>` does not accept it, because it could move the child out past the parent's
/// end; write `&mut Communicator<W, S>` with `S: CanEnqueue` to accept both. Its `abort` ends the
/// whole family: the child, its siblings and its parent.
///
/// ```
/// # use typed_nccl::{CanEnqueue, Communicator, Result, State, Sum, World, tag};
/// tag!(pub Node);
///
/// fn halves<W: World, S: State + CanEnqueue>(world: &mut Communicator<W, S>) -> Result<()> {
///     let node = world.split_shared::<Node>(world.rank() % 2, 0)?;
///     node.barrier()?;
///     node.finish()
/// }
/// ```
pub type SharedChild<'p, W> = Communicator<W, Shared<'p>>;

/// The state of a child that borrows its parent.
#[doc(hidden)]
pub struct Child<'p, W: World> {
    pub(super) comm: Communicator<W>,
    pub(in crate::communicator) parent: Until<'p>,
}

/// Holds the parent's borrow.
pub(in crate::communicator) struct Until<'p>(PhantomData<&'p mut ()>);

/// Empty on purpose: a `Drop` impl keeps the parent borrowed until the child is dropped.
impl Drop for Until<'_> {
    fn drop(&mut self) {}
}

impl<W: World> SharedChild<'_, W> {
    /// The child, for as long as its parent is borrowed.
    pub(super) fn borrowing(comm: Communicator<W>) -> Self {
        Self::of(Child { comm, parent: Until(PhantomData) })
    }
}

impl<W: World> Child<'_, W> {
    pub(super) fn abort(self, why: &str, at: Site) -> Gone {
        let health = &self.comm.body.core.health;
        let (why, by) = (why.to_owned(), health.rank());
        health.fail(Abort { why: why.clone(), by, at }.into());
        self.comm.body.abort(&why, at)
    }
}

debug!(
    [R: World, C: World] Mesh<R, C>,
    self => "Mesh of {:?} and {:?}", self.along_rows, self.along_cols
);

impl<W: World> Deref for SharedChild<'_, W> {
    type Target = Communicator<W>;

    fn deref(&self) -> &Communicator<W> {
        &self.body.comm
    }
}

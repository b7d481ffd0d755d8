//! Children of some of a communicator's ranks, made without a call of the others.

use super::builder::Setup;
use super::starting::Starting;
use super::{Back, CanEnqueue, CommConfig, Communicator, SharedChild, State};
#[cfg(doc)]
use crate::Error;
use crate::backend::{ChildPlace, Lifecycle, Part};
use crate::control::Patience;
use crate::error::Site;
use crate::{Label, Rank, Result, Seat, World, wait};

const OPERATION: &str = "shrink_child";

/// ## Of the ranks that remain
impl<W: World, S: State> Communicator<W, S> {
    /// Makes a communicator named `L` of all ranks but these, in their order; this one stays as it
    /// is. All other ranks must call it with the same list, and the ranks in the list do not call
    /// it. The host waits for this rank's work on the communicator, then for the other members. The
    /// child owns its resources and may outlive the parent. It inherits the parent's configuration,
    /// except for [`CommConfig::watch`]; [`shrink_child_with`](Self::shrink_child_with) sets another.
    ///
    /// [`split`](Self::split) makes children too, by a call of all ranks.
    /// [`shrink`](Self::shrink) ends this communicator, and recreates on the new one what was made
    /// with it.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Device, Result, Sum, tag};
    /// tag!(pub Workers);
    ///
    /// fn count<D: Device>(world: &mut Communicator<D>, jobs: u64) -> Result<()> {
    ///     // Rank 0 keeps handing out work meanwhile.
    ///     if world.rank().index() > 0 {
    ///         let workers = world.shrink_child::<Workers>(&[0])?;
    ///         let mut done = workers.device().from_slice(&[jobs])?;
    ///         workers.all_reduce_in_place(&mut done, Sum)?;
    ///         workers.finish()?;
    ///     }
    ///     world.barrier()
    /// }
    /// ```
    ///
    /// NCCL: `ncclCommShrink` with `NCCL_SHRINK_DEFAULT`, 2.27; before, and with
    /// [`CommConfig::shrink_share`], where NCCL's children always share, `ncclCommInitRankConfig`
    /// with a new id. If a member is lost or fails meanwhile, this communicator is poisoned,
    /// because NCCL waits for all members; so it is if a rank of another process does not come
    /// before the deadline.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Excluded`]: this rank is in its own list.
    /// [`Error::InitFailed`] on every member: different names or configurations.
    /// [`Error::Timeout`] and [`Error::PeerFailed`] name members that did not call it, or not with
    /// the same list.
    #[track_caller]
    pub fn shrink_child<L: Label>(
        &mut self,
        without: &[usize],
    ) -> Result<Communicator<L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        self.leave_out::<L>(without, (None, false), Site::caller())
    }

    /// [`shrink_child`](Self::shrink_child) with a configuration for the child. All members must
    /// pass the same, except for the deadline.
    ///
    /// # Errors
    /// As [`shrink_child`](Self::shrink_child); [`Error::Unsupported`]: the loaded NCCL lacks an
    /// option.
    #[track_caller]
    pub fn shrink_child_with<L: Label>(
        &mut self,
        without: &[usize],
        config: CommConfig,
    ) -> Result<Communicator<L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        self.leave_out::<L>(without, (Some(config), false), Site::caller())
    }

    /// [`shrink_child`](Self::shrink_child) whose child borrows this communicator and shares its
    /// fate: a fault of one poisons the other. See [`SharedChild`]. If the communicator was created
    /// with [`CommConfig::shrink_share`], the child also shares its resources, which makes it
    /// faster to create and smaller. NCCL: `ncclCommShrink`, 2.27, of a parent with `shrinkShare`.
    ///
    /// # Errors
    /// As [`shrink_child`](Self::shrink_child).
    #[track_caller]
    pub fn shrink_shared<L: Label>(
        &mut self,
        without: &[usize],
    ) -> Result<SharedChild<'_, L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        let comm = self.leave_out::<L>(without, (None, true), Site::caller())?;
        S::live(&self.body).core.health.share_fate(&comm.body.core.health);
        Ok(SharedChild::borrowing(comm))
    }

    fn leave_out<L: Label>(
        &mut self,
        without: &[usize],
        (config, borrows): (Option<CommConfig>, bool),
        site: Site,
    ) -> Result<Communicator<L::On<W::Device>>>
    where
        S: CanEnqueue,
    {
        let live = S::live_mut(&mut self.body);
        let core = &live.core;
        core.health.check()?;
        wait::allowed(OPERATION, site)?;
        let (members, without) = core.divided(without, OPERATION, site)?;
        let (config, limit) = core.child_terms(config);
        // NCCL divides only an idle communicator.
        core.drained(OPERATION, site)?;
        let patience = Patience::new(&core.health, limit, OPERATION, site);
        let control = core.control()?;
        let attendee = control.gather(&members, &patience).inspect_err(|error| {
            // Members of other processes may take this rank for one that comes.
            if control.is_remote() {
                core.health.fail(error.clone());
            }
        })?;
        let place = ChildPlace {
            color: 0,
            rank: Rank::at(attendee.rank).0,
            size: Rank::at(members.len()).0,
            name: <L::On<W::Device>>::NAME,
            config: config.clone(),
            deadline: limit.time,
        };
        let divide = || {
            Back::<W>::offers(&config)?;
            Back::<W>::divide(core.comm()?, &Part { place: Some(place), borrows, without })
        };
        let setup = Setup::new(Seat::from(attendee), live.device.clone(), config.clone());
        let child = Starting::<L::On<W::Device>>::post(setup, site);
        child.connect_gathered(&core.health, divide, limit).map(Communicator::of)
    }
}

//! The limit of host waits: the communicator's deadline, or a different one for some calls.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use super::{CanEnqueue, Communicator, Limit, Limits, State};
use crate::World;
use crate::derived::debug;
use crate::error::{Deadline, Site};

/// A communicator with a different deadline for host waits, from [`Communicator::within`].
///
/// Use it like the communicator. Dropping it restores the communicator's own deadline.
///
/// See the example of [`Communicator::within`].
#[must_use = "the deadline is that of the calls that are made through this"]
pub struct Within<'c, W: World, S: State + CanEnqueue> {
    comm: &'c mut Communicator<W, S>,
    /// Belongs to the original communicator, even if another one replaces it.
    limits: Arc<Limits>,
    before: Option<Limit>,
}

/// ## Time limits
impl<W: World, S: State> Communicator<W, S> {
    /// Sets a different deadline, shorter or longer, for calls through the returned value:
    /// everything that waits on the host, such as [`sync`](Self::sync), `wait`, `barrier`, `agree`,
    /// `register_window`, `split` or `recover`. A wait that exceeds it poisons the communicator
    /// with [`Error::Timeout`](crate::Error::Timeout), which says whose deadline it was. Local;
    /// each rank may choose its own, or none.
    ///
    /// A communicator that is split off connects within this deadline and then has the parent's
    /// own. Waits that do not go through the communicator, such as `buffer.to_vec()`, have the
    /// communicator's own deadline. So do `finish` and `shrink`, which consume it; call
    /// [`barrier`](Self::barrier) within a deadline before them to learn whether the others come.
    ///
    /// ```
    /// use std::time::Duration;
    /// # use typed_nccl::{Communicator, Result, World};
    ///
    /// fn catch_up<W: World>(comm: &mut Communicator<W>, step: u64) -> Result<u64> {
    ///     // The first step compiles kernels, on some ranks for minutes.
    ///     comm.within(Duration::from_secs(1200)).barrier()?;
    ///     // From here on a rank that is silent for half a minute is lost.
    ///     let comm = comm.within(Duration::from_secs(30));
    ///     comm.sync(comm.stream())?;
    ///     Ok(*comm.agree(step)?.max())
    /// }
    /// # fn main() -> Result<()> {
    /// # let mut comm = typed_nccl::Seat::local(1).remove(0).init(typed_nccl::Host::local()?)?;
    /// # assert_eq!(catch_up(&mut comm, 7)?, 7);
    /// # comm.finish()
    /// # }
    /// ```
    #[track_caller]
    pub fn within(&mut self, time: Duration) -> Within<'_, W, S>
    where
        S: CanEnqueue,
    {
        let limits = S::live(&self.body).core.limits.clone();
        let limit = Limit { time, of: Deadline::Within(Site::caller()) };
        let before = limits.replace(Some(limit));
        Within { comm: self, limits, before }
    }
}

impl<W: World, S: State + CanEnqueue> Drop for Within<'_, W, S> {
    fn drop(&mut self) {
        self.limits.replace(self.before);
    }
}

impl<W: World, S: State + CanEnqueue> Deref for Within<'_, W, S> {
    type Target = Communicator<W, S>;

    fn deref(&self) -> &Communicator<W, S> {
        self.comm
    }
}

impl<W: World, S: State + CanEnqueue> DerefMut for Within<'_, W, S> {
    fn deref_mut(&mut self) -> &mut Communicator<W, S> {
        self.comm
    }
}

debug!(
    [W: World, S: State + CanEnqueue] Within<'_, W, S>,
    self => "{:?} within {:?}", self.comm, self.limits.now().time
);

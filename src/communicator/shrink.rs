//! Revoking, and continuing with some of the ranks.

use super::{CanGoOn, CanShrink, CommConfig, Communicator, Core, Live, Revoked, State, given_up};
use crate::backend::Backend;
use crate::control::Topic;
use crate::error::{Error, Excluded, Failed, NoSuchRank, Site};
use crate::{Rank, Result, World, wait};

/// ## Without some of its ranks
impl<W: World, S: State> Communicator<W, S> {
    /// Stops it on all ranks so that some of them can continue. Operations in flight end without a
    /// result, and calls of the other ranks fail with [`Error::Revocation`]. Local; never waits.
    /// Call [`shrink`](Self::shrink) next; the other ranks call `shrink` too, or
    /// [`recover`](Self::recover), which does both.
    ///
    /// Revoking does not end the communicator: the other ranks wait for this one to shrink or to
    /// [`abort`](Self::abort) it. NCCL: `ncclCommAbort` once it continues; `ncclCommRevoke`,
    /// 2.28.7, frees a thread that is inside NCCL.
    #[track_caller]
    pub fn revoke(self) -> Communicator<W, Revoked>
    where
        S: CanGoOn,
    {
        self.revoke_because("`revoke()` was called")
    }

    /// [`revoke`](Self::revoke) with a reason for the other ranks.
    #[track_caller]
    pub fn revoke_because(self, why: &str) -> Communicator<W, Revoked>
    where
        S: CanGoOn,
    {
        let live = S::into_live(self.body);
        live.revoke(format!("{why} (at {})", Site::caller()));
        Communicator::of(live)
    }

    /// Continues without these ranks and without those that died. All other ranks must call it with
    /// the same list; the host waits for them within the deadline. The ranks that are left out do
    /// not call it: their calls fail with [`Error::Revocation`] once the others have agreed, and
    /// they should end their communicator then. A rank that drops its communicator before that
    /// counts as dead to ranks that have not called this yet. A child beside this communicator,
    /// which then stays, is [`shrink_child`](Self::shrink_child).
    ///
    /// For a `Ready` communicator, this rank's work completes first. The work of a rank that is
    /// left out may not, so that rank should wait for its results and confirm them with a
    /// [`barrier`](Self::barrier) before. For what stays valid, see [`recover`](Self::recover).
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Error, Result, World};
    /// fn without_the_last<W: World>(comm: Communicator<W>) -> Result<()> {
    ///     let last = comm.size() - 1;
    ///     if comm.rank().index() == last {
    ///         // The others do not come to this barrier: it ends when they have agreed.
    ///         return match comm.barrier() {
    ///             Err(Error::Revocation(_)) => {
    ///                 comm.abort();
    ///                 Ok(())
    ///             }
    ///             other => other,
    ///         };
    ///     }
    ///     let comm = comm.shrink(&[last])?;
    ///     comm.finish()
    /// }
    /// ```
    ///
    /// NCCL: for a `Ready` communicator without deaths, `ncclCommShrink`, 2.27, whose child shares
    /// no resources; otherwise `ncclCommInitRankConfig` with a new id, on every release.
    /// `ncclCommAbort` of the old communicator.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Excluded`]: this rank is left out; all errors of
    /// [`recover`](Self::recover). All of them end the communicator;
    /// [`try_shrink`](Self::try_shrink) returns it.
    #[track_caller]
    pub fn shrink(self, without: &[usize]) -> Result<Communicator<W>>
    where
        S: CanShrink,
    {
        self.try_shrink(without).map_err(given_up(Site::caller()))
    }

    /// [`shrink`](Self::shrink) with another configuration from then on. All remaining ranks must
    /// pass the same, except for what each may choose. Of the old configuration only
    /// [`CommConfig::watch`] stays, which sees the communicator through.
    ///
    /// # Errors
    /// As [`shrink`](Self::shrink); [`Error::Unsupported`]: the loaded NCCL lacks an option.
    #[track_caller]
    pub fn shrink_with(self, without: &[usize], config: CommConfig) -> Result<Communicator<W>>
    where
        S: CanShrink,
    {
        self.try_shrink_with(without, config).map_err(given_up(Site::caller()))
    }

    /// [`shrink`](Self::shrink) that returns the communicator when it fails.
    ///
    /// # Errors
    /// As [`shrink`](Self::shrink).
    #[track_caller]
    pub fn try_shrink(self, without: &[usize]) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanShrink,
    {
        self.shrink_to(without, None, Site::caller())
    }

    /// [`shrink_with`](Self::shrink_with) that returns the communicator when it fails, with the
    /// configuration that it had.
    ///
    /// # Errors
    /// As [`shrink_with`](Self::shrink_with).
    #[track_caller]
    pub fn try_shrink_with(
        self,
        without: &[usize],
        config: CommConfig,
    ) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanShrink,
    {
        self.shrink_to(without, Some(config), Site::caller())
    }

    fn shrink_to(
        self,
        without: &[usize],
        config: Option<CommConfig>,
        site: Site,
    ) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanShrink,
    {
        self.changed(|live| live.shrink_to(without, config, S::DRAINS, site)).map(Communicator::of)
    }
}

impl<W: World> Live<W> {
    /// Continues without some ranks. If it `drains`, operations in flight complete first.
    fn shrink_to(
        &mut self,
        without: &[usize],
        config: Option<CommConfig>,
        drains: bool,
        site: Site,
    ) -> Result<()> {
        const OPERATION: &str = "shrink";

        let (_, without) = self.core.divided(without, OPERATION, site)?;
        let terms = self.core.terms(config)?;
        if !drains {
            return self.go_on(&without, terms, OPERATION, site).map(drop);
        }
        self.core.health.check()?;
        wait::allowed(OPERATION, site)?;
        let report = self.idle(site)?;
        let pending = std::iter::from_fn(|| self.core.health.take_pending());
        let reports: Vec<Error> = report.into_iter().chain(pending).collect();
        let met = self.meet(&without, terms, OPERATION, site);
        // Of the new communicator, or of this one if it stays.
        reports.into_iter().for_each(|report| self.core.health.pend(report));
        met.map(drop)
    }
}

impl<B: Backend> Core<B> {
    /// The ranks that stay and those that are left out, each in order and once.
    pub(super) fn divided(
        &self,
        without: &[usize],
        operation: Topic,
        site: Site,
    ) -> Result<(Vec<u32>, Vec<u32>)> {
        let (rank, size, name) = (self.own(), self.size, self.health.name());
        if let Some(&asked) = without.iter().find(|&&rank| rank >= size) {
            return Err(NoSuchRank { operation, asked, size, site, collective: false }.into());
        }
        if without.contains(&rank.index()) {
            let why = "it is in its own list of those that are left out".to_owned();
            return Err(Excluded { name, rank, why, site: Some(site) }.into());
        }
        let ranks = (0..size).map(|rank| (Rank::at(rank).0, without.contains(&rank)));
        let (out, stay): (Vec<_>, Vec<_>) = ranks.partition(|(_, is_out)| *is_out);
        let numbers = |ranks: Vec<(u32, bool)>| ranks.into_iter().map(|(rank, _)| rank).collect();
        Ok((numbers(stay), numbers(out)))
    }
}

//! Revoking, and going on with some of the ranks.

use super::{CanGoOn, CanShrink, Communicator, Revoked, State};
use crate::error::{Error, Excluded, Failed, NoSuchRank, Site};
use crate::{Rank, Result, World, wait};

impl<W: World, S: State> Communicator<W, S> {
    /// Stops it on all ranks, to go on with some of them: what is in flight ends without a result, and
    /// what the other ranks do with it fails with [`Error::Revocation`]. Local; never waits. What follows
    /// is [`shrink`](Self::shrink) here, and there too or [`recover`](Self::recover), which is both.
    ///
    /// It is no end: the other ranks wait for this one to go on with them, or to
    /// [`abort`](Self::abort) it. NCCL: `ncclCommAbort` when it goes on; a thread that is inside NCCL
    /// is freed by `ncclCommRevoke`, 2.28.7.
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

    /// Goes on without these ranks, and without those that died. All others call it, with the same list;
    /// the host waits for them within the deadline. Those that are left out do not: what they do with
    /// theirs fails with [`Error::Revocation`] as soon as the others have agreed, and they end it then. One
    /// that ends it earlier is a rank that died, to those that have not called this yet.
    ///
    /// Of a `Ready` communicator, this rank's work comes to its end first; that of a rank which is left
    /// out may not: it sees its results, and says so with a [`barrier`](Self::barrier), before. What
    /// stays valid is said at [`recover`](Self::recover).
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
    /// NCCL: of a `Ready` communicator of which nobody has died, `ncclCommShrink`, 2.27, whose child shares
    /// nothing with it; else `ncclCommInitRankConfig` with a new id, on every release. `ncclCommAbort` of
    /// what was before.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Excluded`]: this rank is left out; what
    /// [`recover`](Self::recover) fails with. The communicator has ended then;
    /// [`try_shrink`](Self::try_shrink) gives it back.
    #[track_caller]
    pub fn shrink(self, without: &[usize]) -> Result<Communicator<W>>
    where
        S: CanShrink,
    {
        self.try_shrink(without).map_err(|Failed { error, value }| {
            value.abort_because(&error.to_string());
            error
        })
    }

    /// [`shrink`](Self::shrink) that gives the communicator back when it fails.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_shrink(mut self, without: &[usize]) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanShrink,
    {
        let site = Site::caller();
        match self.shrink_to(without, site) {
            Ok(()) => Ok(Communicator::of(S::into_live(self.body))),
            Err(error) => Err(Failed { error, value: self }),
        }
    }

    fn shrink_to(&mut self, without: &[usize], site: Site) -> Result<()>
    where
        S: CanShrink,
    {
        const OPERATION: &str = "shrink";

        let (own, size) = (self.rank(), self.size());
        if let Some(&asked) = without.iter().find(|&&rank| rank >= size) {
            let (operation, collective) = (OPERATION, false);
            return Err(NoSuchRank { operation, asked, size, site, collective }.into());
        }
        if without.contains(&own.index()) {
            let why = "it is in its own list of those that are left out".to_owned();
            return Err(Excluded { name: W::NAME, rank: own, why, site: Some(site) }.into());
        }
        let live = S::held(&mut self.body);
        let without: Vec<u32> = without.iter().map(|&rank| Rank::at(rank).0).collect();
        if S::DRAINS {
            live.core.health.check()?;
            wait::allowed(OPERATION, site)?;
            let report = live.idle(site)?;
            let pending = std::iter::from_fn(|| live.core.health.take_pending());
            let reports: Vec<Error> = report.into_iter().chain(pending).collect();
            live.meet(&without, OPERATION, site)?;
            reports.into_iter().for_each(|report| live.core.health.pend(report));
            return Ok(());
        }
        live.go_on(&without, OPERATION, site).map(drop)
    }
}

//! Releasing device memory for a while, and statistics of it.

use super::Change;
use super::ready::Live;
use super::{Back, CanResume, CanSuspend, Communicator, HasMemory, MemoryStats, State, Suspended};
use crate::backend::Lifecycle;
use crate::control::Topic;
use crate::error::{Error, Failed, Site};
use crate::{Result, World};

/// ## Suspended
///
/// Its memory is given back, and the communicator comes back later.
impl<W: World, S: State> Communicator<W, S> {
    /// Releases the device memory that NCCL holds for this communicator and need not keep, until
    /// [`resume`](Self::resume). All ranks must call it; the host waits for this rank's work, on
    /// GPUs for all other work of the device too, then for the other ranks, within the deadline.
    ///
    /// Windows, buffers, operators and registrations keep their contents and can be used again
    /// after `resume`. [`memory_stats`](Self::memory_stats) tells how much would be released. NCCL
    /// moves some of it to host memory meanwhile.
    ///
    /// ```
    /// # use typed_nccl::{Communicator, Result, World};
    /// # fn generate() {}
    /// /// Training pauses while another model has the memory.
    /// fn make_room<W: World>(comm: Communicator<W>) -> Result<Communicator<W>> {
    ///     let comm = comm.suspend()?;
    ///     generate();
    ///     comm.resume()
    /// }
    /// ```
    ///
    /// NCCL: `ncclCommSuspend`, 2.29.7. The host has no such memory, so only the state changes,
    /// with all of its checks.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: an older NCCL, one with `NCCL_DISABLE_MEM_MANAGER`, or a
    /// communicator created with [`CommConfig::split_share`](super::CommConfig::split_share);
    /// nothing has happened then. [`Error::PeerFailed`]: a lost peer; a passed deadline; an NCCL
    /// failure. All of them end the communicator; [`try_suspend`](Self::try_suspend) returns it.
    #[track_caller]
    pub fn suspend(self) -> Result<Communicator<W, Suspended>>
    where
        S: CanSuspend,
    {
        self.try_suspend().map_err(given_up(Site::caller()))
    }

    /// [`suspend`](Self::suspend) that returns the communicator when it fails: unchanged after
    /// [`Error::Unsupported`], else poisoned, to be [`recover`](Self::recover)ed or aborted.
    ///
    /// # Errors
    /// As [`suspend`](Self::suspend).
    #[track_caller]
    pub fn try_suspend(self) -> Result<Communicator<W, Suspended>, Failed<Self>>
    where
        S: CanSuspend,
    {
        self.suspend_at(Site::caller())
    }

    pub(crate) fn suspend_at(self, site: Site) -> Result<Communicator<W, Suspended>, Failed<Self>>
    where
        S: CanSuspend,
    {
        self.changed(|live| live.suspend(site)).map(Communicator::of)
    }

    /// Allocates the device memory again that [`suspend`](Self::suspend) released. All ranks must
    /// call it; the host waits for them within the deadline. NCCL: `ncclCommResume`, 2.29.7.
    ///
    /// # Errors
    /// [`Error::PeerFailed`]: a lost peer; a passed deadline; an NCCL failure, such as too little
    /// free memory. All of them end the communicator; [`try_resume`](Self::try_resume) returns it.
    #[track_caller]
    pub fn resume(self) -> Result<Communicator<W>>
    where
        S: CanResume,
    {
        self.try_resume().map_err(given_up(Site::caller()))
    }

    /// [`resume`](Self::resume) that returns the communicator when it fails, still suspended:
    /// [`shrink`](Self::shrink)`(&[])` then continues with the surviving ranks, not suspended.
    ///
    /// # Errors
    /// As [`resume`](Self::resume).
    #[track_caller]
    pub fn try_resume(self) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanResume,
    {
        self.resume_at(Site::caller())
    }

    pub(crate) fn resume_at(self, site: Site) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanResume,
    {
        self.changed(|live| live.resume(site)).map(Communicator::of)
    }

    /// Returns its use of device memory. Local; never waits. NCCL: `ncclCommMemStats`, 2.29.7.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: an older NCCL; an NCCL failure; a poisoned communicator.
    pub fn memory_stats(&self) -> Result<MemoryStats>
    where
        S: HasMemory,
    {
        Back::<W>::memory(S::with_memory(&self.body).core.comm()?)
    }
}

/// Aborts a communicator that its caller does not get back.
pub(crate) fn given_up<W: World, S: State>(
    site: Site,
) -> impl FnOnce(Failed<Communicator<W, S>>) -> Error {
    move |Failed { error, value }| {
        drop(S::abort(value.body, &error.to_string(), site));
        error
    }
}

impl<W: World> Live<W> {
    fn suspend(&self, site: Site) -> Result<()> {
        const OPERATION: Topic = "suspend";

        let core = &self.core;
        core.may_call(OPERATION, site)?;
        // All ranks get the same answer: they have one release and one configuration.
        Back::<W>::can_suspend(core.comm()?)?;
        let report = self.idle(site)?;
        report.into_iter().for_each(|report| core.health.pend(report));
        // Memory may be released once no rank uses it any more.
        core.barrier(OPERATION, site)?;
        core.graphs.lose_all(|| format!("the communicator was suspended (at {site})"));
        self.shift(Back::<W>::suspend, OPERATION, site)?;
        core.changes.tell_of(|| Change::Suspension);
        Ok(())
    }

    fn resume(&self, site: Site) -> Result<()> {
        const OPERATION: Topic = "resume";

        let core = &self.core;
        core.may_call(OPERATION, site)?;
        core.barrier(OPERATION, site)?;
        self.shift(Back::<W>::resume, OPERATION, site)?;
        core.changes.tell_of(|| Change::Resumed);
        Ok(())
    }

    /// Releases memory, or allocates it again, on all ranks.
    fn shift(&self, start: Start<Back<W>>, operation: Topic, site: Site) -> Result<()> {
        let core = &self.core;
        let shifting = start(core.comm()?).inspect_err(|error| core.health.fail(error.clone()))?;
        core.stand_by(shifting, operation, site)
    }
}

/// The backend's function that starts to release memory or to allocate it.
type Start<B> = fn(&<B as Lifecycle>::Comm) -> Result<Option<<B as Lifecycle>::Dividing>>;

//! Device memory that is given back for a while, and statistics of it.

use std::fmt;

use super::change::Change;
use super::ready::Live;
use super::{CanResume, CanSuspend, Communicator, HasMemory, State, Suspended};
use crate::backend::Lifecycle;
use crate::control::Topic;
use crate::error::{Error, Failed, Site};
use crate::{Device, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// What a communicator's rank has of its device's memory for itself, in bytes: what NCCL has for
/// connections and the like, not the program's buffers and windows. All zero on the host, where a
/// communicator has no memory of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// What it holds now: the total, less what is suspended.
    pub held: u64,
    /// What it has while it is in use.
    pub total: u64,
    /// What [`suspend`](Communicator::suspend) gives back of it.
    pub suspendable: u64,
    /// What stays.
    pub persistent: u64,
}

impl fmt::Display for MemoryStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { held, total, suspendable, persistent } = self;
        write!(
            f,
            "{held} of {total} bytes of device memory are held: {suspendable} can be suspended, {persistent} stay"
        )
    }
}

impl<W: World, S: State> Communicator<W, S> {
    /// Gives back the device memory that NCCL has for this communicator and need not keep, so that
    /// others can have it. [`resume`](Self::resume) takes it again. All ranks call it; the host waits for
    /// this rank's work, on GPUs for all other work of the device too, then for the others, within the
    /// deadline.
    ///
    /// Windows, buffers, operators and registrations stay as they are, with their contents, and are used
    /// again when it is resumed. [`memory_stats`](Self::memory_stats) tells how much it gives back. NCCL
    /// keeps some of it in host memory meanwhile.
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
    /// NCCL: `ncclCommSuspend`, 2.29.7. On the host, which has no such memory, it is the state alone, with
    /// all of its checks.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: an older NCCL, one with `NCCL_DISABLE_MEM_MANAGER`, or a communicator made with
    /// [`CommConfig::split_share`](super::CommConfig::split_share); nothing has happened then.
    /// [`Error::PeerFailed`]: a lost peer; a passed deadline; a failure of NCCL's. The communicator has ended then;
    /// [`try_suspend`](Self::try_suspend) gives it back.
    #[track_caller]
    pub fn suspend(self) -> Result<Communicator<W, Suspended>>
    where
        S: CanSuspend,
    {
        self.try_suspend().map_err(given_up)
    }

    /// [`suspend`](Self::suspend) that gives the communicator back when it fails: as it was if it is
    /// [`Error::Unsupported`], else poisoned, to be [`recover`](Self::recover)ed or aborted.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_suspend(self) -> Result<Communicator<W, Suspended>, Failed<Self>>
    where
        S: CanSuspend,
    {
        self.suspend_at(Site::caller())
    }

    pub(crate) fn suspend_at(
        mut self,
        site: Site,
    ) -> Result<Communicator<W, Suspended>, Failed<Self>>
    where
        S: CanSuspend,
    {
        match S::held(&mut self.body).suspend(site) {
            Ok(()) => Ok(Communicator::of(S::into_live(self.body))),
            Err(error) => Err(Failed { error, value: self }),
        }
    }

    /// Takes the device memory again that [`suspend`](Self::suspend) gave back. All ranks call it; the
    /// host waits for them within the deadline. NCCL: `ncclCommResume`, 2.29.7.
    ///
    /// # Errors
    /// [`Error::PeerFailed`]: a lost peer; a passed deadline; a failure of NCCL's, such as memory that
    /// somebody else has now. The communicator has ended then; [`try_resume`](Self::try_resume) gives it
    /// back.
    #[track_caller]
    pub fn resume(self) -> Result<Communicator<W>>
    where
        S: CanResume,
    {
        self.try_resume().map_err(given_up)
    }

    /// [`resume`](Self::resume) that gives the communicator back when it fails, still suspended:
    /// [`shrink`](Self::shrink)`(&[])` goes on with those who live, in use.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_resume(self) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanResume,
    {
        self.resume_at(Site::caller())
    }

    pub(crate) fn resume_at(mut self, site: Site) -> Result<Communicator<W>, Failed<Self>>
    where
        S: CanResume,
    {
        match S::held(&mut self.body).resume(site) {
            Ok(()) => Ok(Communicator::of(S::into_live(self.body))),
            Err(error) => Err(Failed { error, value: self }),
        }
    }

    /// What it has of the device's memory. Local; never waits. NCCL: `ncclCommMemStats`, 2.29.7.
    ///
    /// # Errors
    /// [`Error::Unsupported`]: an older NCCL; a failure of NCCL's; a poisoned communicator.
    pub fn memory_stats(&self) -> Result<MemoryStats>
    where
        S: HasMemory,
    {
        Back::<W>::memory(S::with_memory(&self.body).core.comm()?)
    }
}

pub(crate) fn given_up<W: World, S: State>(failed: Failed<Communicator<W, S>>) -> Error {
    let Failed { error, value } = failed;
    value.abort_because(&error.to_string());
    error
}

impl<W: World> Live<W> {
    fn suspend(&self, site: Site) -> Result<()> {
        const OPERATION: Topic = "suspend";

        let core = &self.core;
        core.health.check()?;
        core.may_wait(OPERATION, site)?;
        // The same on all ranks: they have one release and one configuration.
        Back::<W>::can_suspend(core.comm()?)?;
        let report = self.idle(site)?;
        // The memory may go when no rank uses it any more.
        core.barrier(OPERATION, site)?;
        core.graphs.lose_all(|| format!("the communicator was suspended (at {site})"));
        self.shift(Back::<W>::suspend, OPERATION, site)?;
        report.into_iter().for_each(|report| core.health.pend(report));
        core.changes.tell_of(|| Change::Suspension);
        Ok(())
    }

    fn resume(&self, site: Site) -> Result<()> {
        const OPERATION: Topic = "resume";

        let core = &self.core;
        core.health.check()?;
        core.may_wait(OPERATION, site)?;
        core.barrier(OPERATION, site)?;
        self.shift(Back::<W>::resume, OPERATION, site)?;
        core.changes.tell_of(|| Change::Resumed);
        Ok(())
    }

    /// Has the backend give memory back, or take it, on all ranks.
    fn shift(&self, start: Start<Back<W>>, operation: Topic, site: Site) -> Result<()> {
        let core = &self.core;
        let shifting = start(core.comm()?).inspect_err(|error| core.health.fail(error.clone()))?;
        core.stand_by(shifting, operation, site)
    }
}

/// What starts to give memory back, or to take it.
type Start<B> = fn(&<B as Lifecycle>::Comm) -> Result<Option<<B as Lifecycle>::Dividing>>;

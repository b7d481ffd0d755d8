//! Cliques that have released device memory temporarily.

use super::management::at_once;
use super::{Clique, PerRank};
use crate::communicator::{HasAbortHandle, HasMemory, Suspended, given_up};
use crate::error::Site;
use crate::{AbortHandle, Communicator, MemoryStats, Rank, Result, State, World};

/// A clique that has released device memory, returned by [`Clique::suspend`].
/// [`resume`](Self::resume) allocates the memory again.
///
/// ```
/// # use typed_nccl::{Clique, Host, SuspendedClique};
/// let clique = Clique::init(Host::open_each(&[0, 1])?)?;
/// let asleep: SuspendedClique<_> = clique.suspend()?;
/// // Meanwhile, another program has the device memory.
/// asleep.resume()?.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[must_use = "dropping it ends all of its ranks: `resume()` gives the clique back"]
#[derive(Debug)]
pub struct SuspendedClique<W: World> {
    members: Vec<Communicator<W, Suspended>>,
    id: u64,
}

impl<W: World> Clique<W> {
    /// Releases the device memory that the ranks need not keep; see [`Communicator::suspend`]. The
    /// host waits for all work of the ranks.
    ///
    /// # Errors
    /// As [`Communicator::suspend`]. All of them end the clique,
    /// [`Error::Unsupported`](crate::Error::Unsupported) included.
    #[track_caller]
    pub fn suspend(self) -> Result<SuspendedClique<W>> {
        let (site, id) = (Site::caller(), self.id);
        let members = at_once("suspend", site, with_handles(self.members), |member| {
            member.suspend_at(site).map_err(given_up(site))
        })?;
        Ok(SuspendedClique { members, id })
    }

    /// Every rank's use of its device's memory; see [`Communicator::memory_stats`]. Local.
    ///
    /// # Errors
    /// As [`Communicator::memory_stats`].
    pub fn memory_stats(&self) -> Result<PerRank<MemoryStats>> {
        stats(&self.members, self.id)
    }
}

impl<W: World> SuspendedClique<W> {
    /// Allocates the memory again on every rank; see [`Communicator::resume`]. Everything that
    /// belongs to the clique is usable again.
    ///
    /// # Errors
    /// As [`Communicator::resume`]. All of them end the clique.
    #[track_caller]
    pub fn resume(self) -> Result<Clique<W>> {
        let (site, id) = (Site::caller(), self.id);
        let members = at_once("resume", site, with_handles(self.members), |member| {
            member.resume_at(site).map_err(given_up(site))
        })?;
        Ok(Clique { members, id })
    }

    /// See [`Clique::memory_stats`].
    ///
    /// # Errors
    /// As [`Clique::memory_stats`].
    pub fn memory_stats(&self) -> Result<PerRank<MemoryStats>> {
        stats(&self.members, self.id)
    }
}

pub(super) fn with_handles<W: World, S: State + HasAbortHandle>(
    members: Vec<Communicator<W, S>>,
) -> impl Iterator<Item = (Rank, AbortHandle, Communicator<W, S>)> {
    members.into_iter().map(|member| (member.rank(), member.abort_handle(), member))
}

fn stats<W: World, S: State + HasMemory>(
    members: &[Communicator<W, S>],
    id: u64,
) -> Result<PerRank<MemoryStats>> {
    let all = members.iter().map(Communicator::memory_stats).collect::<Result<_>>()?;
    Ok(PerRank::new(all, id))
}

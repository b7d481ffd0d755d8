//! Communicators, from their making to their end.

use std::sync::Arc;
use std::time::Duration;

use super::{Allocation, Backend, Departer, HostWait, Join, Launches, Pace, Part, Watcher};
use crate::communicator::{CommConfig, MemoryStats, Properties};
use crate::error::{Error, Surplus};
use crate::{DType, Rank, Result};

/// A communicator's life.
///
/// # Safety
/// After `finalize` or `abort` returned, operations enqueued earlier touch their memory only while
/// they hold it alive.
pub unsafe trait Lifecycle: Launches {
    /// One rank's communicator.
    type Comm: Send + 'static;

    /// A reduction operator made at run time.
    type Operator: Clone + Send + Sync + 'static;

    /// A communicator in the making.
    type Joining: Send + 'static;

    /// A communicator that is being divided.
    type Dividing: Send + 'static;

    /// Whether the ranks of a communicator are threads of one process, always.
    const IN_PROCESS: bool = false;

    /// What it runs on and all ranks must have in common, for people: `NCCL 2.28.3`. Empty if there is
    /// nothing to compare.
    fn release() -> String {
        String::new()
    }

    /// Where in its machine a device is, whatever its ordinal: `PCI 0000:1b:00`. None where that is not
    /// known.
    fn place(ordinal: u32) -> Option<String> {
        let _ = ordinal;
        None
    }

    /// Why ranks of one communicator cannot share a device, for people; none if they can.
    fn not_shared() -> Option<String> {
        Some("each rank of a communicator needs a device of its own".to_owned())
    }

    /// Whether there can be communicators that are configured so.
    ///
    /// # Errors
    /// There cannot.
    fn offers(config: &CommConfig) -> Result<()> {
        let _ = config;
        Ok(())
    }

    /// Starts to join; the host does not wait. Called by all ranks of `id`. What is dropped before
    /// it is [`joined`](Self::joined) ends by itself. A rank of a child passes what
    /// [`divide`](Self::divide) gave it, one of a communicator that another library made what takes it.
    ///
    /// # Errors
    /// The communicator cannot be made.
    fn join(join: Join, from: Option<Self::Dividing>) -> Result<Self::Joining>;

    /// The communicator, once it is made; never blocks. Not asked again after it gave one.
    ///
    /// # Errors
    /// The communicator cannot be made.
    fn joined(joining: &mut Self::Joining) -> Result<Option<Self::Comm>>;

    /// A communicator that was [`joined`](Self::joined) is used from here on. Before that, one that another
    /// library made stays that library's, whatever becomes of this one.
    fn keep(comm: &Self::Comm) {
        let _ = comm;
    }

    /// Starts to divide a communicator into children; the host does not wait. Called by all its ranks but
    /// those that the part is `without`, also those that stay out, when they have agreed on it and nothing is under way on it. None where
    /// children join as first communicators do. What is dropped before it is over has failed: the
    /// communicator can only be aborted.
    ///
    /// # Errors
    /// It cannot be divided.
    fn divide(comm: &Self::Comm, part: &Part) -> Result<Option<Self::Dividing>> {
        let _ = (comm, part);
        Ok(None)
    }

    /// Whether a communicator can be divided without calls of those who are left out. All ranks of one
    /// release say the same.
    fn leaves_out(comm: &Self::Comm) -> bool {
        let _ = comm;
        false
    }

    /// Whether the part of a rank that stays out of a division is over, or what
    /// [`suspend`](Self::suspend) and [`resume`](Self::resume) started; never blocks.
    ///
    /// # Errors
    /// It has failed.
    fn divided(dividing: &mut Self::Dividing) -> Result<bool>;

    /// Whether communicators like this one can be suspended: alike on all ranks.
    ///
    /// # Errors
    /// They cannot.
    fn can_suspend(comm: &Self::Comm) -> Result<()> {
        let _ = comm;
        Ok(())
    }

    /// Starts to give back what device memory it need not keep; the host does not wait. Called by all of
    /// its ranks, when they have agreed on it and nothing is under way on any of them. None where it is
    /// done at once. What is dropped before it is over has failed: the communicator can only be aborted.
    ///
    /// # Errors
    /// It cannot be suspended.
    fn suspend(comm: &Self::Comm) -> Result<Option<Self::Dividing>> {
        let _ = comm;
        Ok(None)
    }

    /// Starts to take that memory again, in the same way. Until it has, there are no operations.
    ///
    /// # Errors
    /// It cannot be resumed.
    fn resume(comm: &Self::Comm) -> Result<Option<Self::Dividing>> {
        let _ = comm;
        Ok(None)
    }

    /// What device memory it has for itself.
    ///
    /// # Errors
    /// That is not known.
    fn memory(comm: &Self::Comm) -> Result<MemoryStats> {
        let _ = comm;
        Ok(MemoryStats::default())
    }

    /// What it can do; `known` is what the typed layer knows of it, and for the rest what is true of
    /// ranks that are threads with one memory.
    ///
    /// # Errors
    /// That is not known.
    fn properties(comm: &Self::Comm, known: Properties) -> Result<Properties> {
        let _ = comm;
        Ok(known)
    }

    /// A rank of communicator `id` will never connect.
    fn absent(id: u64, rank: Rank, why: &str) {
        let _ = (id, rank, why);
    }

    /// Whether everything that this rank enqueued is over.
    fn is_idle(comm: &Self::Comm) -> bool;

    /// Lets the calling thread rest, or help, until `is_idle` may have changed.
    fn rest(comm: &Self::Comm, at_most: Duration) {
        let _ = comm;
        std::thread::sleep(at_most);
    }

    /// What tells how far the ranks have come.
    fn pace(comm: &Self::Comm) -> Box<dyn Pace> {
        let _ = comm;
        Box::new(())
    }

    /// Notes a host wait that found nothing to do for a while. A backend that can tell that it will
    /// never end poisons the communicators at fault.
    fn watch(wait: HostWait<'_, Self>) -> Option<Watcher>
    where
        Self: Backend,
    {
        let _ = wait;
        None
    }

    /// A way to say, from any thread, that this rank will enqueue nothing more and why, so that
    /// peers that wait for it can be told. It never touches a communicator that another thread may
    /// be inside.
    fn departer(comm: &Self::Comm) -> Departer;

    /// Makes an operator that scales by `scalar` (one element of `dtype`, native byte order, the
    /// rest zero) before it adds.
    ///
    /// # Errors
    /// The backend cannot.
    fn pre_mul_sum(comm: &Self::Comm, dtype: DType, scalar: [u8; 8]) -> Result<Self::Operator>;

    /// The same with a scalar in device memory, read when an operation runs. The operator holds it.
    ///
    /// # Errors
    /// The backend cannot.
    fn pre_mul_sum_device(
        comm: &Self::Comm,
        dtype: DType,
        scalar: &Arc<Allocation<Self>>,
    ) -> Result<Self::Operator>
    where
        Self: Backend;

    /// An operator that nothing names any more.
    fn drop_operator(comm: &Self::Comm, operator: Self::Operator) {
        let _ = (comm, operator);
    }

    /// What the other ranks have to know of this one's work at its end, where they cannot see it.
    fn last_words(comm: &Self::Comm) -> Vec<u8> {
        let _ = comm;
        Vec::new()
    }

    /// Every rank's work is over; these are their last words, by rank.
    ///
    /// # Errors
    /// They do not fit each other.
    fn conclude(comm: &Self::Comm, words: &[Arc<[u8]>]) -> Result<()> {
        let _ = (comm, words);
        Ok(())
    }

    /// The signals that reached this rank and that it never awaited, asked when every rank is idle.
    /// Not those in slots that no rank awaited at all, the first one apart.
    fn unawaited(comm: &Self::Comm) -> Vec<Surplus> {
        let _ = comm;
        Vec::new()
    }

    /// What this rank sent and nobody received, or was sent and did not receive, asked when every rank
    /// is idle: where a send can be over before it is met.
    fn unmet(comm: &Self::Comm) -> Option<Error> {
        let _ = comm;
        None
    }

    /// The end after `finish`: every rank is idle.
    fn finalize(comm: Self::Comm);

    /// The end at any time.
    fn abort(comm: Self::Comm, why: &str);
}

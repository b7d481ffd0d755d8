//! Communicators, from their creation to their end.

use std::sync::Arc;
use std::time::Duration;

use super::{Allocation, Backend, Departer, HostWait, Join, Launches, Pace, Part, Watcher};
use crate::communicator::{CommConfig, MemoryStats, Properties};
use crate::error::{Error, Surplus};
use crate::{DType, Rank, Result};

/// A communicator's lifecycle.
///
/// # Safety
/// After `finalize` or `abort` has returned, operations enqueued earlier touch their memory only
/// while they keep it alive.
pub unsafe trait Lifecycle: Launches {
    /// One rank's communicator.
    type Comm: Send + 'static;

    /// A reduction operator created at run time.
    type Operator: Clone + Send + Sync + 'static;

    /// A communicator that is connecting.
    type Joining: Send + 'static;

    /// A communicator that is being divided.
    type Dividing: Send + 'static;

    /// Whether ranks that are all threads of one process have newcomers of that process only.
    const IN_PROCESS: bool = false;

    /// Whether a connecting rank can become ready after ranks that were ready have left.
    const JOINS_LATE: bool = false;

    /// The library release that all ranks must share, for messages: `NCCL 2.28.3`. Empty if there
    /// is nothing to compare.
    fn release() -> String {
        String::new()
    }

    /// A device's location in its machine, independent of its ordinal: `PCI 0000:1b:00`. `None` if
    /// unknown.
    fn place(ordinal: u32) -> Option<String> {
        let _ = ordinal;
        None
    }

    /// Why ranks of one communicator cannot share a device; `None` if they can.
    fn not_shared() -> Option<String> {
        Some("each rank of a communicator needs a device of its own".to_owned())
    }

    /// Checks whether the backend supports a configuration.
    ///
    /// # Errors
    /// It does not.
    fn offers(config: &CommConfig) -> Result<()> {
        let _ = config;
        Ok(())
    }

    /// Starts to join; the host does not wait. Called by all ranks of `id`. Dropping the result
    /// before it is [`joined`](Self::joined) ends it. For a child, pass what
    /// [`divide`](Self::divide) returned; for an adopted communicator, the handle that owns it.
    ///
    /// # Errors
    /// The communicator cannot be created.
    fn join(join: Join, from: Option<Self::Dividing>) -> Result<Self::Joining>;

    /// Returns the communicator once it is created; never blocks. Not called again afterwards.
    ///
    /// # Errors
    /// The communicator cannot be created.
    fn joined(joining: &mut Self::Joining) -> Result<Option<Self::Comm>>;

    /// Commits to a [`joined`](Self::joined) communicator. Until then an adopted one belongs to the
    /// library that created it, whatever happens.
    fn keep(comm: &Self::Comm) {
        let _ = comm;
    }

    /// Starts to divide a communicator into children; the host does not wait. Called by all of its
    /// ranks, including those that stay out but not those that the part is `without`, after they
    /// have agreed and while it is idle. Returns `None` if children join as new communicators do.
    /// Dropping the result before it has completed is a failure: the communicator can then only be
    /// aborted.
    ///
    /// # Errors
    /// It cannot be divided.
    fn divide(comm: &Self::Comm, part: &Part) -> Result<Option<Self::Dividing>> {
        let _ = (comm, part);
        Ok(None)
    }

    /// Whether a communicator can be divided without calls of the ranks that are left out. All
    /// ranks with one release return the same.
    fn leaves_out(comm: &Self::Comm) -> bool {
        let _ = comm;
        false
    }

    /// Whether a rank's part in a division without a child has completed, or what
    /// [`suspend`](Self::suspend) or [`resume`](Self::resume) started; never blocks.
    ///
    /// # Errors
    /// It has failed.
    fn divided(dividing: &mut Self::Dividing) -> Result<bool>;

    /// Checks whether communicators like this one can be suspended; the same on all ranks.
    ///
    /// # Errors
    /// They cannot.
    fn can_suspend(comm: &Self::Comm) -> Result<()> {
        let _ = comm;
        Ok(())
    }

    /// Starts to release device memory that the communicator need not keep; the host does not wait.
    /// Called by all of its ranks, after they have agreed and while all of them are idle. Returns
    /// `None` if it has completed already. Dropping the result before it has completed is a
    /// failure: the communicator can then only be aborted.
    ///
    /// # Errors
    /// It cannot be suspended.
    fn suspend(comm: &Self::Comm) -> Result<Option<Self::Dividing>> {
        let _ = comm;
        Ok(None)
    }

    /// Starts to allocate that memory again, in the same way. There are no operations until it has
    /// completed.
    ///
    /// # Errors
    /// It cannot be resumed.
    fn resume(comm: &Self::Comm) -> Result<Option<Self::Dividing>> {
        let _ = comm;
        Ok(None)
    }

    /// Returns the communicator's own device memory.
    ///
    /// # Errors
    /// It is unknown.
    fn memory(comm: &Self::Comm) -> Result<MemoryStats> {
        let _ = comm;
        Ok(MemoryStats::default())
    }

    /// Returns the communicator's properties. `known` has those that the typed layer knows; its
    /// other fields are those of ranks that are threads of one process.
    ///
    /// # Errors
    /// They are unknown.
    fn properties(comm: &Self::Comm, known: Properties) -> Result<Properties> {
        let _ = comm;
        Ok(known)
    }

    /// Records that a rank of communicator `id` will never connect.
    fn absent(id: u64, rank: Rank, why: &str) {
        let _ = (id, rank, why);
    }

    /// Whether everything that this rank enqueued has completed.
    fn is_idle(comm: &Self::Comm) -> bool;

    /// Blocks or helps with work until `is_idle` may have changed.
    fn rest(comm: &Self::Comm, at_most: Duration) {
        let _ = comm;
        std::thread::sleep(at_most);
    }

    /// Returns the source of the ranks' progress.
    fn pace(comm: &Self::Comm) -> Box<dyn Pace> {
        let _ = comm;
        Box::new(())
    }

    /// Registers a host wait that has been idle for a while. A backend that detects that the wait
    /// can never end poisons the communicators at fault.
    fn watch(wait: HostWait<'_, Self>) -> Option<Watcher>
    where
        Self: Backend,
    {
        let _ = wait;
        None
    }

    /// Returns a function that announces, from any thread, that this rank will enqueue nothing more
    /// and why, so that peers waiting for it fail. It never touches a communicator that another
    /// thread may be inside.
    fn departer(comm: &Self::Comm) -> Departer;

    /// Creates an operator that multiplies by `scalar` (one element of `dtype` in native byte
    /// order, padded with zeros) before it adds.
    ///
    /// # Errors
    /// The backend cannot.
    fn pre_mul_sum(comm: &Self::Comm, dtype: DType, scalar: [u8; 8]) -> Result<Self::Operator>;

    /// Creates one with a scalar in device memory, which is read when an operation runs and which
    /// the operator keeps alive.
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

    /// The library's number of an operator, if it has numbers.
    fn operator_number(operator: &Self::Operator) -> Option<i32> {
        let _ = operator;
        None
    }

    /// Drops an operator that is no longer in use.
    fn drop_operator(comm: &Self::Comm, operator: Self::Operator) {
        let _ = (comm, operator);
    }

    /// Encodes what other ranks need to know about this rank's work at its end and cannot observe.
    fn last_words(comm: &Self::Comm) -> Vec<u8> {
        let _ = comm;
        Vec::new()
    }

    /// Compares the ranks' last words, by rank, after every rank's work has completed.
    ///
    /// # Errors
    /// They do not match.
    fn conclude(comm: &Self::Comm, words: &[Arc<[u8]>]) -> Result<()> {
        let _ = (comm, words);
        Ok(())
    }

    /// Returns the signals that this rank never awaited, once every rank is idle. Slots other than
    /// the first are skipped if no rank awaited any signal in them.
    fn unawaited(comm: &Self::Comm) -> Vec<Surplus> {
        let _ = comm;
        Vec::new()
    }

    /// Returns an error for messages that this rank sent and nobody received, or that it did not
    /// receive, once every rank is idle. For backends on which a send can complete before it is
    /// received.
    fn unmet(comm: &Self::Comm) -> Option<Error> {
        let _ = comm;
        None
    }

    /// Ends it after `finish`: every rank is idle.
    fn finalize(comm: Self::Comm);

    /// Ends it at any time.
    fn abort(comm: Self::Comm, why: &str);
}

//! Operations that ranks perform together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Backend, Collective, Lifecycle, Op, Slot};
use crate::error::{Call, Error, Unsupported};
use crate::{Rank, Result};

/// Operations.
///
/// # Safety
/// The backend accesses only the spans that [`Op`] documents, in stream order, and keeps their
/// memory alive until it has completed.
pub unsafe trait Operations: Lifecycle {
    /// Enqueues `ops` as one group (a single operation is a group of its own); the host does not
    /// wait. A group follows NCCL's order: one-sided operations in program order, then collectives,
    /// then transfers.
    ///
    /// # Errors
    /// They could not be enqueued. Errors of the operations themselves go to the communicator's
    /// health.
    ///
    /// # Safety
    /// The operations passed validation: spans, counts, ranks and offsets fit each other as [`Op`]
    /// documents. Every earlier conflicting use of their memory is ordered before them.
    unsafe fn issue(comm: &Self::Comm, stream: &Self::Stream, ops: &[Op<'_, Self>]) -> Result<()>
    where
        Self: Backend;

    /// Enqueues a collective on the stream that carried the communicator's last operations, which
    /// is the most frequent call.
    ///
    /// # Errors
    /// As [`issue`](Self::issue).
    ///
    /// # Safety
    /// As [`issue`](Self::issue). The communicator was given operations on this stream before.
    #[inline]
    unsafe fn issue_again(
        comm: &Self::Comm,
        stream: &Self::Stream,
        collective: Collective<'_, Self>,
    ) -> Result<()>
    where
        Self: Backend,
    {
        // SAFETY: the caller's promise includes that of `issue`.
        unsafe { Self::issue(comm, stream, &[Op::Collective(collective)]) }
    }

    /// Enqueues the groups of several ranks of this thread as one.
    ///
    /// # Errors
    /// As [`issue`](Self::issue).
    ///
    /// # Safety
    /// As [`issue`](Self::issue), for each.
    unsafe fn issue_together(parts: &[RankOps<'_, '_, Self>]) -> Result<()>
    where
        Self: Backend,
    {
        parts.iter().try_for_each(|part| {
            // SAFETY: the caller's promise holds for each part.
            unsafe { Self::issue(part.comm, part.stream, part.ops) }
        })
    }

    /// Estimates how long a group of collectives takes on a communicator of several ranks, as far
    /// as the backend can tell; nothing is enqueued. The parts are one of its ranks or all of them.
    /// All ranks have the same collectives, and all of them ask.
    ///
    /// # Errors
    /// The backend cannot tell.
    ///
    /// # Safety
    /// As [`issue`](Self::issue).
    unsafe fn estimate(parts: &[RankOps<'_, '_, Self>]) -> Result<Duration>
    where
        Self: Backend,
    {
        let _ = parts;
        Err(Unsupported::error(
            "an estimate of a group",
            "NCCL on GPUs",
            format!("this is the {} backend, which knows no times", Self::KIND),
        ))
    }

    /// Records refused operations as this rank's turns, so that its peers fail too.
    fn refuse(comm: &Self::Comm, ops: &[Refusal], reason: &Error);

    /// Records that this rank completed so many host-side exchanges with other processes. A backend
    /// whose news can arrive before the outcome of an exchange tells them.
    fn exchanged(_comm: &Self::Comm, _exchanges: u64) {}
}

/// One rank's share of what several ranks of one thread issue together.
pub struct RankOps<'p, 'a, B: Backend> {
    /// The rank's communicator.
    pub comm: &'p B::Comm,
    /// Its stream.
    pub stream: &'p B::Stream,
    /// Its operations.
    pub ops: &'p [Op<'a, B>],
}

/// The part of a refused operation that other ranks need to know.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// Its part of a collective.
    Collective,
    /// A send to a rank.
    SendTo(Rank),
    /// A receive from a rank.
    RecvFrom(Rank),
    /// A put or signal to a rank.
    Signal(Rank, Slot),
    /// A wait for this many signals of a rank. A backend does nothing, because the typed layer
    /// makes this rank's next wait in the slot consume them.
    Wait(Rank, Slot, u32),
}

impl Call {
    /// The size of a collective's data in bytes.
    pub fn bytes(&self) -> usize {
        self.count.saturating_mul(self.dtype.size())
    }
}

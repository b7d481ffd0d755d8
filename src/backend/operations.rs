//! What ranks do together.

use std::time::Duration;

use super::{Backend, Collective, Lifecycle, Op, Slot};
use crate::error::{Call, Error, Unsupported};
use crate::{Rank, Result};

/// Operations.
///
/// # Safety
/// The backend reads and writes the spans that [`Op`] documents, in stream order, and nothing else,
/// and holds their memory until it is done.
pub unsafe trait Operations: Lifecycle {
    /// Enqueues `ops` as one group (one operation is a group of its own); the host does not wait.
    /// Inside a group NCCL's order holds: one-sided operations in program order, then collectives,
    /// then transfers.
    ///
    /// # Errors
    /// They could not be enqueued. Errors of the operations go to the communicator's health.
    ///
    /// # Safety
    /// The operations passed validation: spans, counts, ranks and offsets fit each other as [`Op`]
    /// says. Every earlier use of their memory that conflicts is before them in stream order.
    unsafe fn issue(comm: &Self::Comm, stream: &Self::Stream, ops: &[Op<'_, Self>]) -> Result<()>
    where
        Self: Backend;

    /// Enqueues a collective on the stream that carried the communicator's last operations: what programs
    /// call most.
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
        // SAFETY: the caller's promise is more than is asked.
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

    /// How long a group of collectives of a communicator of several ranks takes, as far as the backend
    /// can tell; nothing of it is enqueued. These are one of its ranks, or all of them; each has the same
    /// collectives, and the other ranks ask the same.
    ///
    /// # Errors
    /// It cannot tell.
    ///
    /// # Safety
    /// As [`issue`](Self::issue).
    unsafe fn estimate(parts: &[RankOps<'_, '_, Self>]) -> Result<Duration>
    where
        Self: Backend,
    {
        let _ = parts;
        Err(Error::from(Unsupported {
            what: "an estimate of a group".to_owned(),
            needs: "NCCL on GPUs".to_owned(),
            found: format!("this is the {} backend, which knows no times", Self::KIND),
        }))
    }

    /// Books refused operations as this rank's, so that the others can be told.
    fn refuse(comm: &Self::Comm, ops: &[Refusal], reason: &Error);
}

/// One rank's part of what several ranks of one thread issue together.
pub struct RankOps<'p, 'a, B: Backend> {
    /// The rank's communicator.
    pub comm: &'p B::Comm,
    /// Its stream.
    pub stream: &'p B::Stream,
    /// Its operations.
    pub ops: &'p [Op<'a, B>],
}

/// An operation that this rank refused, as far as the others have to know.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// Its part of a collective.
    Collective,
    /// A send to a rank.
    SendTo(Rank),
    /// A receive from a rank.
    RecvFrom(Rank),
    /// A put or signal to a rank.
    Signal(Rank, Slot),
    /// A wait for so many signals of a rank. The typed layer has this rank's next wait in the slot consume
    /// them too; a backend does nothing.
    Wait(Rank, Slot, u32),
}

impl Call {
    /// A collective's data, as bytes.
    pub fn bytes(&self) -> usize {
        self.count.saturating_mul(self.dtype.size())
    }
}

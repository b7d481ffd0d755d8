//! `gather`: the root gets every rank's elements, by rank.

use super::Root;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::{AsRank, Buffer, Communicator, Element, RecordRead, Result, World};

/// ## To one rank, by rank
impl<W: World, S: State> Communicator<W, S> {
    /// Copies every rank's `send` into a new buffer on the root, in rank order; `None` elsewhere.
    /// Every rank calls it with one length. The host does not wait. NCCL:
    /// `ncclGather`, 2.28; before, a group of transfers.
    ///
    /// # Errors
    /// Refusals: a root that the communicator does not have, a view past its buffer, memory of
    /// another device, no memory for the result; a poisoned communicator.
    #[track_caller]
    pub fn gather<'a, A: RecordRead<'a, W::Device, Elem = E>, E: Element>(
        &self,
        send: A,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>>
    where
        S: CanEnqueue,
    {
        self.here().gather(send, root)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::gather`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn gather<'a, A: RecordRead<'a, W::Device, Elem = E>, E: Element>(
        &self,
        send: A,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>> {
        let mut out = self.on_root(root, send.len().saturating_mul(self.core.size))?;
        self.gather_into(send, Root::here_or_at(out.as_mut(), root))?;
        Ok(out)
    }
}

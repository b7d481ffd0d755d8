//! `reduce`: the root gets the reduction of all ranks' elements.

use super::Root;
use crate::communicator::{CanEnqueue, On, PerCall, State};
use crate::{AsRank, Buffer, Communicator, Element, RecordRead, ReduceOp, Result, World};

/// ## To one rank, reduced
impl<W: World, S: State> Communicator<W, S> {
    /// Reduces the ranks' `send` elementwise into a new buffer on the root; `None` elsewhere. Every
    /// rank calls it with one length. The host does not wait. NCCL: `ncclReduce`, 2.3.
    ///
    /// # Errors
    /// Refusals: a root that the communicator does not have, a view past its buffer, memory of
    /// another device, no memory for the result; a poisoned communicator.
    #[track_caller]
    pub fn reduce<'a, A: RecordRead<'a, W::Device, Elem = E>, E: Element>(
        &self,
        send: A,
        op: impl ReduceOp<E, W>,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>>
    where
        S: CanEnqueue,
    {
        self.here().reduce(send, op, root)
    }
}

impl<'c, W: World, C: PerCall<'c>> On<'c, W, C> {
    /// See [`Communicator::reduce`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn reduce<'a, A: RecordRead<'a, W::Device, Elem = E>, E: Element>(
        &self,
        send: A,
        op: impl ReduceOp<E, W>,
        root: impl AsRank,
    ) -> Result<Option<Buffer<E, W::Device>>> {
        let mut out = self.on_root(root, send.len())?;
        self.reduce_into(send, Root::here_or_at(out.as_mut(), root), op)?;
        Ok(out)
    }
}

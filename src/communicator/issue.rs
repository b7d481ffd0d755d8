//! Issuing: the one way from a validated operation into the backend.

use std::slice;

use super::On;
use crate::backend::{Op, Operations, Refusal};
use crate::collectives::other_device;
use crate::error::{Call, Error, Operation, SelfTransfer};
use crate::{AsRank, Buffer, Device, Element, Rank, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

impl<W: World> On<'_, W> {
    /// Issues a draft, or books why not.
    #[inline]
    pub(crate) fn run(&self, refusal: Refusal, draft: Result<Op<'_, Back<W>>>) -> Result<()> {
        match draft {
            Ok(op) => self.issue(slice::from_ref(&op), slice::from_ref(&refusal)),
            Err(error) => Err(self.core.refuse(&[refusal], error)),
        }
    }

    /// Issues operations as one group; `refusals` are the same operations, should it be refused.
    #[inline]
    pub(crate) fn issue(&self, ops: &[Op<'_, Back<W>>], refusals: &[Refusal]) -> Result<()> {
        let (core, stream) = (self.core, self.stream);
        let comm = core.comm()?;
        if stream.ordinal() != core.ordinal {
            return Err(self.other_stream(ops, refusals));
        }
        for op in ops {
            match op {
                Op::Collective(collective) => {
                    if let Some(span) = &collective.send {
                        span.allocation().order.read(stream)?;
                    }
                    if let Some(span) = &collective.recv {
                        span.allocation().order.write(stream)?;
                    }
                }
                Op::Transfer(transfer) => match transfer.call.operation {
                    Operation::Send => transfer.span.allocation().order.read(stream)?,
                    _ => transfer.span.allocation().order.write(stream)?,
                },
                Op::Put(put) => put.span.allocation().order.read(stream)?,
                Op::Signal(_) => {}
                // What a signal says may be about any window.
                Op::Wait(_) => core.resources.windows_written(stream)?,
            }
        }
        core.note(stream);
        stream.bump();
        // SAFETY: operations are made by drafts only, which check lengths, ranks, offsets and
        // devices; the loop above ordered each use after the earlier ones.
        unsafe { <Back<W> as Operations>::issue(comm, stream.raw(), ops) }
    }

    #[cold]
    fn other_stream(&self, ops: &[Op<'_, Back<W>>], refusals: &[Refusal]) -> Error {
        let Some(call) = ops.first().map(Op::call) else {
            return self.core.refuse(refusals, super::core::ended(&self.core.health));
        };
        let error = other_device(&call, "stream", self.stream.ordinal(), self.core);
        self.core.refuse(refusals, error)
    }

    /// Refuses transfers of this rank with itself that would wait for ever (P05, P06).
    pub(crate) fn self_transfers(&self, ops: &[Op<'_, Back<W>>]) -> Result<()> {
        let of = |operation: Operation| {
            ops.iter().filter_map(move |op| match op {
                Op::Transfer(t) if t.peer == self.core.rank && t.call.operation == operation => {
                    Some(t.call.count)
                }
                _ => None,
            })
        };
        if of(Operation::Send).eq(of(Operation::Recv)) {
            return Ok(());
        }
        let site = ops
            .iter()
            .map(Op::call)
            .next()
            .map_or_else(std::panic::Location::caller, |call| call.site);
        Err(Error::SelfTransfer(Box::new(SelfTransfer {
            rank: self.core.rank,
            sends: of(Operation::Send).collect(),
            recvs: of(Operation::Recv).collect(),
            site,
        })))
    }

    /// A new buffer on the root, none elsewhere. A root out of range is left to the operation.
    pub(crate) fn on_root<T: Element>(
        &self,
        root: impl AsRank,
        len: usize,
    ) -> Result<Option<Buffer<T, W::Device>>> {
        if root.index() != self.core.rank.index() {
            return Ok(None);
        }
        match self.device.zeros(len) {
            Ok(buffer) => Ok(Some(buffer)),
            Err(error) => Err(self.core.refuse(&[Refusal::Collective], error)),
        }
    }
}

impl<B: crate::backend::Backend> Op<'_, B> {
    /// The call that it came from.
    pub fn call(&self) -> Call {
        match self {
            Self::Collective(collective) => collective.call,
            Self::Transfer(transfer) => transfer.call,
            Self::Put(put) => put.call,
            Self::Signal(signal) => signal.call,
            Self::Wait(wait) => wait.call,
        }
    }

    /// The other rank, where there is one.
    pub fn peer(&self) -> Option<Rank> {
        self.call().peer
    }
}

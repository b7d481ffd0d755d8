//! Collectives and transfers: which functions of NCCL's they are.

use std::ffi::{c_int, c_void};
use std::ptr;

use nccl_sys::{ncclRedOp_t, ncclResult_t};

use super::comm::Comm;
use super::values;
use crate::ReductionName;
use crate::backend::{Collective, Half, Op, Span, Transfer};
use crate::cuda::{CudaBackend, CudaStream};
use crate::error::{Call, CollectiveName, Error};

pub(super) type Span1<'a> = Option<Span<'a, CudaBackend>>;

/// Where a span starts on the device; null for none.
#[inline]
pub(super) fn start(span: &Span1<'_>) -> *mut c_void {
    span.as_ref().map_or(ptr::null_mut(), |span| span.allocation().block().at(span.offset()))
}

/// Why an operation was not enqueued.
pub(super) enum Failure {
    /// Seen before NCCL was called.
    Before(Error),
    Nccl(&'static str, ncclResult_t, Call),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Before(error)
    }
}

pub(super) fn number(n: u32) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

impl Comm {
    #[inline]
    pub(super) fn done(
        &self,
        function: &'static str,
        call: Call,
        result: ncclResult_t,
    ) -> Result<(), Failure> {
        if result == ncclResult_t::ncclSuccess {
            return Ok(());
        }
        match self.over(result) {
            ncclResult_t::ncclSuccess => Ok(()),
            failed => Err(Failure::Nccl(function, failed, call)),
        }
    }

    /// Which operands of a collective are in windows of this communicator. NCCL chooses its kernels by
    /// it, each rank for itself.
    #[inline]
    pub(super) fn memory(&self, collective: &Collective<'_, CudaBackend>) -> u8 {
        let is_nccls = |span: &Span1<'_>| {
            span.as_ref().is_some_and(|span| span.allocation().block().is_nccls())
        };
        match is_nccls(&collective.send) || is_nccls(&collective.recv) {
            true => self.windows_of(collective),
            false => 0,
        }
    }

    #[cold]
    fn windows_of(&self, collective: &Collective<'_, CudaBackend>) -> u8 {
        let rooted = collective.call.root.is_some();
        let of = |span: &Span1<'_>, bit: u8| match span {
            // Only the root has both: the others' side says nothing.
            Some(span) if !rooted && self.is_window(span.allocation()) => bit,
            _ => 0,
        };
        of(&collective.send, 1) | of(&collective.recv, 2)
    }

    /// Collectives and transfers.
    pub(super) fn others(
        &self,
        stream: &CudaStream,
        ops: &[Op<'_, CudaBackend>],
    ) -> Result<(), Failure> {
        ops.iter().try_for_each(|op| match op {
            Op::Collective(collective) => self.collective(stream, collective),
            Op::Transfer(transfer) => self.transfer(stream, transfer),
            Op::Put(_) | Op::Signal(_) | Op::Wait(_) => Ok(()),
        })
    }

    fn collective(
        &self,
        stream: &CudaStream,
        collective: &Collective<'_, CudaBackend>,
    ) -> Result<(), Failure> {
        let Collective { name, call, reduction, send, recv } = collective;
        let (from, to) = (start(send), start(recv));
        let (count, dtype) = (call.count, values::dtype(call.dtype));
        // The mean of one rank is itself; NCCL does not divide 8-bit floats there.
        let op = match reduction {
            Some(_) if self.size == 1 && call.reduction == Some(ReductionName::Mean) => {
                ncclRedOp_t::ncclSum
            }
            reduction => values::reduction(reduction.as_ref()),
        };
        let root = call.root.map_or(0, |root| number(root.0));
        // A rank that is no root has one side only; NCCL wants an address for the other.
        let from = if from.is_null() { to } else { from };
        let to = if to.is_null() { from } else { to };
        let (comm, handle) = (self.handle, stream.handle());
        let nccl = self.nccl;
        let (function, result) = match name {
            CollectiveName::AllReduce => {
                // SAFETY: the spans are on the communicator's device and hold the elements that
                // `Collective` documents, which are those that NCCL asks for; where a rank has none
                // NCCL does not look. Communicator and stream are alive.
                let result = unsafe { (nccl.all_reduce)(from, to, count, dtype, op, comm, handle) };
                ("ncclAllReduce", result)
            }
            CollectiveName::Broadcast => {
                // SAFETY: as for `all_reduce`.
                let result =
                    unsafe { (nccl.broadcast)(from, to, count, dtype, root, comm, handle) };
                ("ncclBroadcast", result)
            }
            CollectiveName::Reduce => {
                // SAFETY: as for `all_reduce`.
                let result =
                    unsafe { (nccl.reduce)(from, to, count, dtype, op, root, comm, handle) };
                ("ncclReduce", result)
            }
            CollectiveName::AllGather => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { (nccl.all_gather)(from, to, count, dtype, comm, handle) };
                ("ncclAllGather", result)
            }
            CollectiveName::ReduceScatter => {
                // SAFETY: as for `all_reduce`.
                let result =
                    unsafe { (nccl.reduce_scatter)(from, to, count, dtype, op, comm, handle) };
                ("ncclReduceScatter", result)
            }
            CollectiveName::AllToAll if let Ok(all_to_all) = nccl.api.ncclAlltoAll() => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { all_to_all(from, to, count, dtype, comm, handle) };
                ("ncclAlltoAll", result)
            }
            CollectiveName::Gather if let Ok(gather) = nccl.api.ncclGather() => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { gather(from, to, count, dtype, root, comm, handle) };
                ("ncclGather", result)
            }
            CollectiveName::Scatter if let Ok(scatter) = nccl.api.ncclScatter() => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { scatter(from, to, count, dtype, root, comm, handle) };
                ("ncclScatter", result)
            }
            // Where the loaded NCCL has none of its own.
            CollectiveName::AllToAll | CollectiveName::Gather | CollectiveName::Scatter => {
                let aside = |span: &Span1<'_>, other: *mut c_void| match span {
                    Some(span) => span.allocation().block().aside(span.offset()),
                    None => other,
                };
                return self.spread(stream, *name, *call, (aside(send, from), aside(recv, to)));
            }
        };
        self.done(function, *call, result)
    }

    /// `all_to_all`, `gather` and `scatter` where NCCL has none of its own: as transfers
    /// of blocks, inside the group that the caller opened.
    fn spread(
        &self,
        stream: &CudaStream,
        name: CollectiveName,
        call: Call,
        (from, to): (*mut c_void, *mut c_void),
    ) -> Result<(), Failure> {
        let rank = self.shared.rank;
        let block = call.bytes();
        let root = call.root.map(|root| root.index());
        for peer in 0..self.size as usize {
            let at = |start: *mut c_void, index: usize| start.wrapping_byte_add(index * block);
            let (send, recv) = match name {
                CollectiveName::AllToAll => (Some(at(from, peer)), Some(at(to, peer))),
                CollectiveName::Gather => (
                    (Some(peer) == root).then_some(from),
                    (Some(rank) == root).then(|| at(to, peer)),
                ),
                CollectiveName::Scatter => (
                    (Some(rank) == root).then(|| at(from, peer)),
                    (Some(peer) == root).then_some(to),
                ),
                // NCCL has these.
                CollectiveName::AllReduce
                | CollectiveName::Broadcast
                | CollectiveName::Reduce
                | CollectiveName::AllGather
                | CollectiveName::ReduceScatter => (None, None),
            };
            // A rank's own block is there already when the operation is in place.
            let peer_number = c_int::try_from(peer).unwrap_or(c_int::MAX);
            let in_place = peer == rank && send == recv;
            if let (Some(send), false) = (send, in_place) {
                self.send(stream, call, send, peer_number)?;
            }
            if let (Some(recv), false) = (recv, in_place) {
                self.recv(stream, call, recv, peer_number)?;
            }
        }
        Ok(())
    }

    fn transfer(
        &self,
        stream: &CudaStream,
        transfer: &Transfer<'_, CudaBackend>,
    ) -> Result<(), Failure> {
        // Not the address that NCCL may know: the peer's memory may be of another kind.
        let span = &transfer.span;
        let address = span.allocation().block().aside(span.offset());
        let peer = number(transfer.peer.0);
        match transfer.half {
            Half::SendTo => self.send(stream, transfer.call, address, peer),
            Half::RecvFrom => self.recv(stream, transfer.call, address, peer),
        }
    }

    fn send(
        &self,
        stream: &CudaStream,
        call: Call,
        from: *mut c_void,
        peer: c_int,
    ) -> Result<(), Failure> {
        let dtype = values::dtype(call.dtype);
        // SAFETY: `count` elements from here on are in an allocation on the communicator's device.
        let result = unsafe {
            (self.nccl.send)(from, call.count, dtype, peer, self.handle, stream.handle())
        };
        self.done("ncclSend", call, result)
    }

    fn recv(
        &self,
        stream: &CudaStream,
        call: Call,
        to: *mut c_void,
        peer: c_int,
    ) -> Result<(), Failure> {
        let dtype = values::dtype(call.dtype);
        // SAFETY: as in `send`; nothing else uses them until the stream is past.
        let result =
            unsafe { (self.nccl.recv)(to, call.count, dtype, peer, self.handle, stream.handle()) };
        self.done("ncclRecv", call, result)
    }
}

//! Enqueuing: one call of NCCL's for one operation, a group for several.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use nccl_sys::{ncclRedOp_t, ncclResult_t, ncclWaitSignalDesc_t};

use super::api::unsupported;
use super::comm::Comm;
use super::values;
use crate::backend::{
    Collective, Op, Operations, Part, Put, Refusal, Signal, Span, Streams, Transfer, Wait,
};
use crate::cuda::{CudaBackend, CudaStream};
use crate::error::{Call, Error, Operation};
use crate::{ReductionName, Result};

type Span1<'a> = Option<Span<'a, CudaBackend>>;

/// Where a span starts on the device; null for none.
#[inline]
fn start(span: &Span1<'_>) -> *mut c_void {
    span.as_ref().map_or(ptr::null_mut(), |span| span.allocation().block().at(span.offset()))
}

// SAFETY: NCCL reads and writes the spans that its functions document, which are those of `Op`, in
// stream order. Their memory is held by its header, which knows the streams.
unsafe impl Operations for CudaBackend {
    #[inline]
    unsafe fn issue(comm: &Comm, stream: &Arc<CudaStream>, ops: &[Op<'_, Self>]) -> Result<()> {
        comm.note(stream);
        if let [Op::Collective(collective)] = ops
            && collective.call.operation == Operation::AllReduce
            && values::always_known(collective.call.dtype)
        {
            comm.recorder.collective(&collective.call, comm.memory(collective));
            comm.recorder.cross();
            // SAFETY: the spans are on the communicator's device and hold `count` elements each, by
            // the caller's promise; communicator and stream are alive.
            let result = unsafe {
                (comm.nccl.all_reduce)(
                    start(&collective.send),
                    start(&collective.recv),
                    collective.call.count,
                    values::dtype(collective.call.dtype),
                    values::reduction(collective.reduction.as_ref()),
                    comm.handle,
                    stream.handle(),
                )
            };
            comm.recorder.cross();
            if result == ncclResult_t::ncclSuccess {
                return Ok(());
            }
            return Err(failed(comm, Failure::Nccl("ncclAllReduce", result, collective.call)));
        }
        together(&[Part { comm, stream, ops }])
    }

    unsafe fn issue_together(parts: &[Part<'_, '_, Self>]) -> Result<()> {
        for part in parts {
            part.comm.note(part.stream);
        }
        together(parts)
    }

    fn refuse(comm: &Comm, ops: &[Refusal], reason: &Error) {
        comm.shared.family.refuse(comm.shared.rank, ops, reason);
    }
}

/// Why an operation was not enqueued.
enum Failure {
    /// Seen before NCCL was called.
    Before(Error),
    Nccl(&'static str, ncclResult_t, Call),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Before(error)
    }
}

#[cold]
fn failed(comm: &Comm, failure: Failure) -> Error {
    match failure {
        Failure::Before(error) => error,
        Failure::Nccl(function, result, call) => {
            comm.poison(comm.nccl.failed(function, Some(call), result))
        }
    }
}

/// Enqueues everything as one group.
fn together(parts: &[Part<'_, '_, CudaBackend>]) -> Result<()> {
    // What NCCL, as it is loaded, cannot do is known before anything is called.
    for Part { comm, ops, .. } in parts {
        for op in *ops {
            if let Err(error) = possible(comm, op) {
                refuse_all(parts, &error);
                return Err(error);
            }
        }
    }
    let Some(first) = parts.first() else { return Ok(()) };
    for Part { comm, ops, .. } in parts {
        for op in *ops {
            match op {
                Op::Collective(collective) => {
                    comm.recorder.collective(&collective.call, comm.memory(collective));
                }
                _ => comm.recorder.other(&op.call()),
            }
            let (family, own) = (&comm.shared.family, comm.shared.rank);
            match op {
                Op::Put(put) => family.raised(own, put.peer, put.slot),
                Op::Signal(signal) => family.raised(own, signal.peer, signal.slot),
                Op::Wait(wait) => family.awaited(own, wait.peer, wait.slot, wait.count),
                Op::Collective(_) | Op::Transfer(_) => {}
            }
        }
    }
    // A peer that ended before it could see these waits has poisoned the communicator by now; one that
    // ends later raises what they wait for.
    for Part { comm, ops, .. } in parts {
        if ops.iter().any(|op| matches!(op, Op::Wait(_))) {
            comm.health.check()?;
        }
    }
    for Part { comm, .. } in parts {
        comm.recorder.cross();
    }
    let outcome = call(first, parts);
    for Part { comm, .. } in parts {
        comm.recorder.cross();
    }
    outcome
}

/// Calls NCCL: one-sided operations one by one, in the order in which they were recorded, then the
/// rest as one group. Within a group NCCL would run one context's operations before the next one's, a
/// wait before the put of a peer that waits too.
fn call(first: &Part<'_, '_, CudaBackend>, parts: &[Part<'_, '_, CudaBackend>]) -> Result<()> {
    let (mut calls, mut spreads, mut any) = (0, false, None);
    for Part { comm, stream, ops } in parts {
        comm.one_sided_operations(stream, ops).map_err(|failure| failed(comm, failure))?;
        for op in ops.iter().filter(|op| !is_one_sided(op)) {
            any.get_or_insert_with(|| op.call());
            calls += 1;
            spreads |= takes_several_calls(comm, op);
        }
    }
    let Some(call) = any else { return Ok(()) };
    let nccl = first.comm.nccl;
    let others = |part: &Part<'_, '_, CudaBackend>| {
        part.comm.others(part.stream, part.ops).map_err(|failure| failed(part.comm, failure))
    };
    if calls == 1 && !spreads {
        return parts.iter().try_for_each(others);
    }
    // SAFETY: it takes nothing; the end below is reached whatever happens between, on this thread.
    let started = unsafe { (nccl.group_start)() };
    if started != ncclResult_t::ncclSuccess {
        return Err(failed(first.comm, Failure::Nccl("ncclGroupStart", started, call)));
    }
    let outcome = parts.iter().try_for_each(others);
    // SAFETY: the group was started on this thread.
    let ended = unsafe { (nccl.group_end)() };
    let ended = nccl.check("ncclGroupEnd", Some(call), ended);
    // One failure drops the whole group, on every communicator in it.
    outcome.and(ended).inspect_err(|error| {
        for part in parts {
            part.comm.poison(error.clone());
        }
    })
}

fn is_one_sided(op: &Op<'_, CudaBackend>) -> bool {
    matches!(op, Op::Put(_) | Op::Signal(_) | Op::Wait(_))
}

/// Books everything as refused: nothing of a group is enqueued if part of it cannot be.
#[cold]
fn refuse_all(parts: &[Part<'_, '_, CudaBackend>], reason: &Error) {
    for Part { comm, ops, .. } in parts {
        let refusals: Vec<Refusal> = ops.iter().filter_map(refusal).collect();
        comm.shared.family.refuse(comm.shared.rank, &refusals, reason);
    }
}

fn refusal(op: &Op<'_, CudaBackend>) -> Option<Refusal> {
    match op {
        Op::Collective(_) => Some(Refusal::Collective),
        Op::Transfer(transfer) if transfer.call.operation == Operation::SendTo => {
            Some(Refusal::SendTo(transfer.peer))
        }
        Op::Transfer(transfer) => Some(Refusal::RecvFrom(transfer.peer)),
        Op::Put(put) => Some(Refusal::Signal(put.peer, put.slot)),
        Op::Signal(signal) => Some(Refusal::Signal(signal.peer, signal.slot)),
        Op::Wait(_) => None,
    }
}

/// Whether the loaded NCCL has what an operation needs.
fn possible(comm: &Comm, op: &Op<'_, CudaBackend>) -> Result<()> {
    match op {
        Op::Collective(collective) => {
            let call = &collective.call;
            values::knows(comm.nccl, call.dtype)?;
            // NCCL gives an internal error, and the communicator is lost.
            let scales = call.reduction == Some(ReductionName::ScaledAdd);
            match comm.size == 1 && scales && !values::always_known(call.dtype) {
                true => Err(values::no_scaling(call.dtype)),
                false => Ok(()),
            }
        }
        Op::Transfer(transfer) => values::knows(comm.nccl, transfer.call.dtype),
        Op::Put(put) => {
            values::knows(comm.nccl, put.call.dtype)?;
            comm.one_sided("put_signal")
        }
        Op::Signal(_) => comm.one_sided("signal"),
        Op::Wait(_) => comm.one_sided("wait_signal"),
    }
}

/// Whether an operation is several transfers.
fn takes_several_calls(comm: &Comm, op: &Op<'_, CudaBackend>) -> bool {
    let Op::Collective(collective) = op else { return false };
    let spreads = matches!(
        collective.call.operation,
        Operation::AllToAll | Operation::Gather | Operation::Scatter
    );
    spreads && comm.nccl.api.ncclAlltoAll().is_err()
}

fn done(function: &'static str, call: Call, result: ncclResult_t) -> Result<(), Failure> {
    if result == ncclResult_t::ncclSuccess {
        return Ok(());
    }
    Err(Failure::Nccl(function, result, call))
}

fn number(n: u32) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

impl Comm {
    /// Which operands of a collective are in windows of this communicator. NCCL chooses its kernels by
    /// it, each rank for itself.
    #[inline]
    fn memory(&self, collective: &Collective<'_, CudaBackend>) -> u8 {
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

    /// Puts, signals and waits, in order; waits that follow each other are one call.
    fn one_sided_operations(
        &self,
        stream: &Arc<CudaStream>,
        ops: &[Op<'_, CudaBackend>],
    ) -> Result<(), Failure> {
        if !ops.iter().any(is_one_sided) {
            return Ok(());
        }
        self.gpu.bind()?;
        self.one_after_the_other(stream)?;
        let mut waits = Vec::new();
        for op in ops {
            match op {
                Op::Wait(wait) => waits.push(*wait),
                Op::Put(put) => {
                    self.wait(stream, &std::mem::take(&mut waits))?;
                    self.put(stream, put)?;
                }
                Op::Signal(signal) => {
                    self.wait(stream, &std::mem::take(&mut waits))?;
                    self.signal(stream, signal)?;
                }
                Op::Collective(_) | Op::Transfer(_) => {}
            }
        }
        self.wait(stream, &waits)
    }

    /// Operations of one communicator run one after the other whatever their streams. NCCL sees to it
    /// for its kernels; what is one-sided is copies and waits on the caller's stream.
    fn one_after_the_other(&self, stream: &Arc<CudaStream>) -> Result<()> {
        let last = self.last_one_sided.replace(Some(stream.clone()));
        match last {
            Some(last) if !Arc::ptr_eq(&last, stream) => {
                CudaBackend::wait_for(stream, &CudaBackend::point(&last)?)
            }
            _ => Ok(()),
        }
    }

    /// Collectives and transfers.
    fn others(&self, stream: &CudaStream, ops: &[Op<'_, CudaBackend>]) -> Result<(), Failure> {
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
        let Collective { call, reduction, send, recv } = collective;
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
        let (function, result) = match call.operation {
            Operation::AllReduce => {
                // SAFETY: the spans are on the communicator's device and hold the elements that
                // `Collective` documents, which are those that NCCL asks for; where a rank has none
                // NCCL does not look. Communicator and stream are alive.
                let result = unsafe { (nccl.all_reduce)(from, to, count, dtype, op, comm, handle) };
                ("ncclAllReduce", result)
            }
            Operation::Broadcast => {
                // SAFETY: as for `all_reduce`.
                let result =
                    unsafe { (nccl.broadcast)(from, to, count, dtype, root, comm, handle) };
                ("ncclBroadcast", result)
            }
            Operation::Reduce => {
                // SAFETY: as for `all_reduce`.
                let result =
                    unsafe { (nccl.reduce)(from, to, count, dtype, op, root, comm, handle) };
                ("ncclReduce", result)
            }
            Operation::AllGather => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { (nccl.all_gather)(from, to, count, dtype, comm, handle) };
                ("ncclAllGather", result)
            }
            Operation::ReduceScatter => {
                // SAFETY: as for `all_reduce`.
                let result =
                    unsafe { (nccl.reduce_scatter)(from, to, count, dtype, op, comm, handle) };
                ("ncclReduceScatter", result)
            }
            Operation::AllToAll if let Ok(all_to_all) = nccl.api.ncclAlltoAll() => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { all_to_all(from, to, count, dtype, comm, handle) };
                ("ncclAlltoAll", result)
            }
            Operation::Gather if let Ok(gather) = nccl.api.ncclGather() => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { gather(from, to, count, dtype, root, comm, handle) };
                ("ncclGather", result)
            }
            Operation::Scatter if let Ok(scatter) = nccl.api.ncclScatter() => {
                // SAFETY: as for `all_reduce`.
                let result = unsafe { scatter(from, to, count, dtype, root, comm, handle) };
                ("ncclScatter", result)
            }
            _ => return self.spread(stream, *call, from, to),
        };
        done(function, *call, result)
    }

    /// `all_to_all`, `gather` and `scatter` where NCCL has none of its own (before 2.28): as transfers
    /// of blocks, inside the group that the caller opened.
    fn spread(
        &self,
        stream: &CudaStream,
        call: Call,
        from: *mut c_void,
        to: *mut c_void,
    ) -> Result<(), Failure> {
        let rank = self.shared.rank;
        let block = call.bytes();
        let root = call.root.map(|root| root.index());
        for peer in 0..self.size as usize {
            let at = |start: *mut c_void, index: usize| start.wrapping_byte_add(index * block);
            let (send, recv) = match call.operation {
                Operation::AllToAll => (Some(at(from, peer)), Some(at(to, peer))),
                Operation::Gather => (
                    (Some(peer) == root).then_some(from),
                    (Some(rank) == root).then(|| at(to, peer)),
                ),
                _ => (
                    (Some(rank) == root).then(|| at(from, peer)),
                    (Some(peer) == root).then_some(to),
                ),
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
        match transfer.call.operation {
            Operation::SendTo => self.send(stream, transfer.call, address, peer),
            _ => self.recv(stream, transfer.call, address, peer),
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
        done("ncclSend", call, result)
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
        done("ncclRecv", call, result)
    }

    fn put(&self, stream: &CudaStream, put: &Put<'_, CudaBackend>) -> Result<(), Failure> {
        // A put of nothing is its signal. It may stand at the end of a window, where NCCL takes none.
        if put.call.count == 0 {
            let Put { call, peer, slot, .. } = *put;
            return self.signal(stream, &Signal { call, peer, slot });
        }
        let missing = |missing| unsupported("put_signal", missing);
        let function = self.nccl.api.ncclPutSignal().map_err(missing)?;
        let window = self.window(put.window)?;
        let from = start(&Some(put.span));
        let (dtype, peer) = (values::dtype(put.call.dtype), number(put.peer.0));
        let (signal, context) = (number(put.slot.index), number(put.slot.context));
        // SAFETY: the source is in a symmetric window of this communicator and the target inside the
        // peer's part of `window`, by the caller's promise; `window` is this rank's own handle.
        let result = unsafe {
            function(
                from,
                put.call.count,
                dtype,
                peer,
                window,
                put.offset,
                signal,
                context,
                0,
                self.handle,
                stream.handle(),
            )
        };
        done("ncclPutSignal", put.call, result)
    }

    fn signal(&self, stream: &CudaStream, signal: &Signal) -> Result<(), Failure> {
        let function =
            self.nccl.api.ncclSignal().map_err(|missing| unsupported("signal", missing))?;
        let (index, context) = (number(signal.slot.index), number(signal.slot.context));
        let peer = number(signal.peer.0);
        // SAFETY: communicator and stream are alive; no memory is named.
        let result = unsafe { function(peer, index, context, 0, self.handle, stream.handle()) };
        done("ncclSignal", signal.call, result)
    }

    fn wait(&self, stream: &CudaStream, waits: &[Wait]) -> Result<(), Failure> {
        let Some(first) = waits.first() else { return Ok(()) };
        let missing = |missing| unsupported("wait_signal", missing);
        let function = self.nccl.api.ncclWaitSignal().map_err(missing)?;
        let mut descriptions: Vec<ncclWaitSignalDesc_t> = waits
            .iter()
            .map(|wait| ncclWaitSignalDesc_t {
                opCnt: number(wait.count),
                peer: number(wait.peer.0),
                sigIdx: number(wait.slot.index),
                ctx: number(wait.slot.context),
            })
            .collect();
        let count = c_int::try_from(descriptions.len()).unwrap_or(c_int::MAX);
        // SAFETY: as many descriptions as are said; NCCL copies them before it returns.
        let result =
            unsafe { function(count, descriptions.as_mut_ptr(), self.handle, stream.handle()) };
        done("ncclWaitSignal", first.call, result)
    }

    /// Ok where one-sided operations are there.
    fn one_sided(&self, what: &str) -> Result<()> {
        self.nccl.api.ncclPutSignal().map_err(|missing| unsupported(what, missing))?;
        match self.one_sided.get() {
            Some(true) => Ok(()),
            found => Err(super::window::no_one_sided(what, found.is_some())),
        }
    }
}

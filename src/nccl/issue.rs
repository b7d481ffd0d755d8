//! Enqueueing: one NCCL call for one operation, a group for several.

use std::sync::Arc;
use std::time::Duration;

use nccl_sys::ncclResult_t;

use super::calls::{Failure, is_nccls, start};
use super::comm::Comm;
use super::config;
use super::exact::{self, Runs};
use super::family::Family;
use super::graphs;
use super::recorder::Recorder;
use super::simulate::simulate;
use super::values;
use crate::backend::{Collective, Op, Operations, RankOps, Refusal, Wait};
use crate::cuda::{CudaBackend, CudaStream};
use crate::error::{Call, CollectiveName, Error, Unsupported};
use crate::{ReductionName, Result};

// SAFETY: NCCL reads and writes the spans that its functions document, which are those of `Op`, in
// stream order. The memory's header holds it until the streams have passed.
unsafe impl Operations for CudaBackend {
    #[inline]
    unsafe fn issue(comm: &Comm, stream: &Arc<CudaStream>, ops: &[Op<'_, Self>]) -> Result<()> {
        if !comm.is_last(stream) {
            return first(comm, stream, ops);
        }
        match *ops {
            // SAFETY: the caller's promise; `stream` is the communicator's last stream.
            [Op::Collective(collective)] => unsafe { Self::issue_again(comm, stream, collective) },
            _ => together(&[RankOps { comm, stream, ops }]),
        }
    }

    #[inline]
    unsafe fn issue_again(
        comm: &Comm,
        stream: &Arc<CudaStream>,
        collective: Collective<'_, Self>,
    ) -> Result<()> {
        let Collective { name, call, config, .. } = collective;
        if name != CollectiveName::AllReduce
            || config.is_some()
            || !values::always_known(call.dtype)
            || call.reduction.is_some_and(|reduction| !reduction.is_nccls())
        {
            return alone(comm, stream, collective);
        }
        match is_nccls(&collective) {
            // SAFETY: the caller's promise.
            true => unsafe { all_reduce_in_window(comm, stream, collective) },
            // SAFETY: the caller's promise.
            false => unsafe { all_reduce(comm, stream, collective, 0) },
        }
    }

    unsafe fn issue_together(parts: &[RankOps<'_, '_, Self>]) -> Result<()> {
        for part in parts {
            part.comm.note(part.stream);
        }
        together(parts)
    }

    unsafe fn estimate(parts: &[RankOps<'_, '_, Self>]) -> Result<Duration> {
        simulate(parts)
    }

    fn refuse(comm: &Comm, ops: &[Refusal], reason: &Error) {
        comm.shared.family.refuse(comm.shared.rank, ops, reason);
    }
}

/// Slow path: any single operation but a plain `all_reduce`.
#[inline(never)]
fn alone(
    comm: &Comm,
    stream: &Arc<CudaStream>,
    collective: Collective<'_, CudaBackend>,
) -> Result<()> {
    together(&[RankOps { comm, stream, ops: &[Op::Collective(collective)] }])
}

/// Issues an `all_reduce` whose operands may be in windows.
///
/// # Safety
/// See [`Operations::issue_again`].
#[inline(never)]
unsafe fn all_reduce_in_window(
    comm: &Comm,
    stream: &CudaStream,
    collective: Collective<'_, CudaBackend>,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { all_reduce(comm, stream, collective, comm.memory(&collective)) }
}

/// Issues an `all_reduce`; `memory` says which of its operands are in windows.
///
/// # Safety
/// See [`Operations::issue_again`].
#[inline]
unsafe fn all_reduce(
    comm: &Comm,
    stream: &CudaStream,
    collective: Collective<'_, CudaBackend>,
    memory: u8,
) -> Result<()> {
    let Collective { call, reduction, send, recv, .. } = collective;
    let recorder = &*comm.recorder;
    recorder.collective(&call, memory);
    recorder.cross();
    // SAFETY: by the caller's promise, the spans are on the communicator's device and hold `count`
    // elements each; communicator and stream are alive.
    let result = unsafe {
        (comm.nccl.all_reduce)(
            start(&send),
            start(&recv),
            call.count,
            values::dtype(call.dtype),
            values::reduction(reduction),
            comm.handle,
            stream.handle(),
        )
    };
    recorder.cross();
    match result {
        ncclResult_t::ncclSuccess => Ok(()),
        result => not_yet(comm, result),
    }
}

/// The result of an `all_reduce`, the last call, that did not succeed at once.
#[cold]
fn not_yet(comm: &Comm, result: ncclResult_t) -> Result<()> {
    match comm.inside(|| comm.over(result)) {
        ncclResult_t::ncclSuccess => Ok(()),
        result => Err(comm.poison(comm.nccl.failed("ncclAllReduce", comm.recorder.last(), result))),
    }
}

/// Issues on a different stream than last time.
#[cold]
fn first(comm: &Comm, stream: &Arc<CudaStream>, ops: &[Op<'_, CudaBackend>]) -> Result<()> {
    if stream.is_capturing() {
        return graphs::capture(comm, stream, ops);
    }
    comm.note(stream);
    // SAFETY: the promise of the caller that issues.
    unsafe { CudaBackend::issue(comm, stream, ops) }
}

#[cold]
pub(super) fn failed(comm: &Comm, failure: Failure) -> Error {
    match failure {
        // Earlier calls of the group were made and recorded, so the ranks are out of step.
        Failure::Before(error) => comm.poison(error),
        Failure::Nccl(function, result, call) => {
            comm.poison(comm.nccl.failed(function, Some(call), result))
        }
    }
}

/// Enqueues all operations as one group.
fn together(parts: &[RankOps<'_, '_, CudaBackend>]) -> Result<()> {
    // Whether the loaded NCCL can run the group is checked before any call.
    if let Err(error) = possible_together(parts) {
        refuse_all(parts, &error);
        return Err(error);
    }
    for RankOps { comm, ops, .. } in parts {
        for op in *ops {
            let how = match op {
                Op::Collective(one) => {
                    comm.memory(one) | one.config.map_or(0, |config| config.digest() << 2)
                }
                _ => 0,
            };
            let member = (&*comm.shared.family, comm.shared.rank);
            count(&comm.recorder, member, (&op.call(), op.refusal()), how);
        }
    }
    // A peer that ended before it could see these waits has poisoned the communicator by now. One
    // that ends later raises the signals they wait for.
    let waits = |part: &&RankOps<'_, '_, _>| part.ops.iter().any(|op| matches!(op, Op::Wait(_)));
    let well = parts.iter().filter(waits).try_for_each(|part| part.comm.health.check());
    for RankOps { comm, .. } in parts {
        comm.recorder.cross();
    }
    let outcome = well.and_then(|()| call(parts));
    for RankOps { comm, .. } in parts {
        comm.recorder.cross();
    }
    outcome.map_err(|error| poison_all(parts.iter().map(|part| part.comm), error))
}

/// Records a call for the comparison with the other ranks' calls. For a collective, `how` says
/// which operands are in windows and how it is configured.
pub(super) fn count(
    recorder: &Recorder,
    (family, own): (&Family, usize),
    (call, turn): (&Call, Refusal),
    how: u8,
) {
    match turn {
        Refusal::Collective => recorder.collective(call, how),
        _ => recorder.other(call),
    }
    match turn {
        Refusal::Signal(peer, slot) => family.signals.raised(own, peer, slot, call.site),
        Refusal::Wait(peer, slot, count) => {
            family.signals.awaited(own, &Wait { call: *call, peer, slot, count });
        }
        Refusal::Collective | Refusal::SendTo(_) | Refusal::RecvFrom(_) => {}
    }
}

/// Poisons every communicator of a group or a graph. One failure drops all of it, and all of its
/// communicators may have recorded it, so none is in step with its other ranks. Returns the first
/// cause.
#[cold]
pub(super) fn poison_all<'c>(comms: impl IntoIterator<Item = &'c Comm>, error: Error) -> Error {
    let causes: Vec<_> = comms.into_iter().map(|comm| comm.poison(error.clone())).collect();
    causes.into_iter().next().unwrap_or(error)
}

/// Calls NCCL: one-sided operations one by one in the order of recording, then the rest as one
/// group. Within a group, NCCL would run one context's operations before the next one's, and so a
/// wait before the put that a waiting peer needs.
pub(super) fn call(parts: &[RankOps<'_, '_, CudaBackend>]) -> Result<()> {
    let (mut calls, mut spreads, mut adds, mut any) = (0, false, false, None);
    for RankOps { comm, stream, ops } in parts {
        comm.one_sided_operations(stream, ops).map_err(|failure| failed(comm, failure))?;
        for op in ops.iter().filter(|op| !op.is_one_sided()) {
            any.get_or_insert_with(|| op.call());
            calls += 1;
            spreads |= takes_several_calls(comm, op);
            adds |= exact::of(op).is_some();
        }
    }
    let Some(call) = any else { return Ok(()) };
    let others = |part: &RankOps<'_, '_, CudaBackend>| {
        part.comm.others(part.stream, part.ops).map_err(|failure| failed(part.comm, failure))
    };
    if adds {
        return add_exactly(parts, call, calls, others);
    }
    if calls == 1 && !spreads {
        return parts.iter().try_for_each(others);
    }
    in_group(parts, call, || parts.iter().try_for_each(others))
}

/// Makes calls of NCCL as one group.
fn in_group(
    parts: &[RankOps<'_, '_, CudaBackend>],
    call: Call,
    calls: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let Some(first) = parts.first() else { return Ok(()) };
    let nccl = first.comm.nccl;
    // SAFETY: the call takes nothing, and this thread ends the group below on every path.
    let started = unsafe { (nccl.group_start)() };
    if started != ncclResult_t::ncclSuccess {
        return Err(failed(first.comm, Failure::Nccl("ncclGroupStart", started, call)));
    }
    let outcome = calls();
    // SAFETY: the group was started on this thread.
    let ended = unsafe { (nccl.group_end)() };
    let ended = nccl.check("ncclGroupEnd", Some(call), over(parts, ended));
    outcome.and(ended)
}

/// A group with exact sums, in steps: all else is in the group of the first one.
#[cold]
fn add_exactly(
    parts: &[RankOps<'_, '_, CudaBackend>],
    call: Call,
    calls: usize,
    others: impl Fn(&RankOps<'_, '_, CudaBackend>) -> Result<()>,
) -> Result<()> {
    let sums = parts.iter().flat_map(|part| part.ops).filter(|op| exact::of(op).is_some()).count();
    let runs = Runs::begin(parts)?;
    for step in 0..runs.steps().max(1) {
        runs.before(step)?;
        let has_others = step == 0 && calls > sums;
        if has_others || runs.moves(step) {
            in_group(parts, call, || {
                if has_others {
                    parts.iter().try_for_each(&others)?;
                }
                runs.inside(step)
            })?;
        }
        runs.after(step)?;
    }
    Ok(())
}

/// A group's result. Each non-blocking communicator completes by itself.
fn over(parts: &[RankOps<'_, '_, CudaBackend>], ended: ncclResult_t) -> ncclResult_t {
    if ended != ncclResult_t::ncclInProgress {
        return ended;
    }
    let over = parts.iter().map(|part| part.comm.over(ended));
    over.reduce(|first, one| if first == ncclResult_t::ncclSuccess { one } else { first })
        .unwrap_or(ended)
}

/// Records the whole group as refused: nothing is enqueued if one operation cannot be.
#[cold]
fn refuse_all(parts: &[RankOps<'_, '_, CudaBackend>], reason: &Error) {
    for RankOps { comm, ops, .. } in parts {
        let refusals: Vec<Refusal> = ops.iter().map(Op::refusal).collect();
        comm.shared.family.refuse(comm.shared.rank, &refusals, reason);
        // Later waits must not take the signals that these waits would have consumed.
        if comm.one_sided.get() == Some(true) && ops.iter().any(|op| matches!(op, Op::Wait(_))) {
            comm.poison(reason.clone());
        }
    }
}

/// Fails if the loaded NCCL cannot run all operations, or cannot group their communicators.
fn possible_together(parts: &[RankOps<'_, '_, CudaBackend>]) -> Result<()> {
    // One of the communicators decides whether NCCL's group call blocks. A non-blocking
    // communicator beside it would not learn when the group is complete.
    if parts.len() > 1 && parts.iter().any(|part| part.comm.is_adopted) {
        return Err(Unsupported::error(
            "a group of several communicators",
            "communicators that were made here",
            "another library made one of them, which may not block: group it alone",
        ));
    }
    let all =
        |part: &RankOps<'_, '_, _>| part.ops.iter().try_for_each(|op| possible(part.comm, op));
    parts.iter().try_for_each(all)?;
    let prepare = |part: &RankOps<'_, '_, _>| {
        part.ops.iter().try_for_each(|op| exact::prepare(part.comm, op, false))
    };
    parts.iter().try_for_each(prepare)
}

/// Fails if the loaded NCCL cannot run an operation.
pub(super) fn possible(comm: &Comm, op: &Op<'_, CudaBackend>) -> Result<()> {
    match op {
        Op::Collective(collective) => {
            let call = &collective.call;
            if exact::of(op).is_some() {
                return exact::possible(comm, collective);
            }
            values::knows(comm.nccl, call.dtype)?;
            if let Some(reduction) = call.reduction {
                values::reduces(reduction, call.dtype)?;
            }
            if let Some(config) = collective.config {
                config::offers_call(comm, config)?;
            }
            // NCCL reports an internal error here, and the communicator is lost.
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

fn takes_several_calls(comm: &Comm, op: &Op<'_, CudaBackend>) -> bool {
    let Op::Collective(collective) = op else { return false };
    collective.name.is_messages() && comm.nccl.api.ncclAlltoAll().is_err()
}

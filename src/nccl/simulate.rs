//! Simulation: NCCL's estimate of how long a group would take.

use std::time::Duration;

use nccl_sys::{ncclResult_t, ncclSimInfo_t};

use super::api::lacking;
use super::exact;
use super::issue::{failed, poison_all, possible};
use crate::Result;
use crate::backend::{Op, RankOps};
use crate::cuda::CudaBackend;
use crate::error::Unsupported;

const WHAT: &str = "an estimate of a group";

/// Makes NCCL estimate at least one collective. Like a first use, this connects the ranks.
pub(super) fn simulate(parts: &[RankOps<'_, '_, CudaBackend>]) -> Result<Duration> {
    let Some(first) = parts.first() else { return Ok(Duration::ZERO) };
    let Some(call) = first.ops.first().map(Op::call) else { return Ok(Duration::ZERO) };
    let nccl = first.comm.nccl;
    // NCCL launches a group of non-blocking communicators instead of estimating it.
    if parts.iter().any(|part| part.comm.is_adopted) {
        return Err(Unsupported::error(
            WHAT,
            "a communicator that was made here",
            "another library made it",
        ));
    }
    let function = nccl.api.ncclGroupSimulateEnd().map_err(lacking(WHAT))?;
    parts.iter().try_for_each(|part| part.ops.iter().try_for_each(|op| possible(part.comm, op)))?;
    let sums = parts.iter().flat_map(|part| part.ops).filter_map(exact::of);
    if let Some(name) = sums.filter_map(|sum| sum.call.reduction).next() {
        return Err(exact::no_estimate(name));
    }
    let mut info = ncclSimInfo_t::new();
    let others = |part: &RankOps<'_, '_, CudaBackend>| {
        part.comm.others(part.stream, part.ops).map_err(|failure| failed(part.comm, failure))
    };
    let cross = || parts.iter().for_each(|part| part.comm.recorder.cross());
    cross();
    // SAFETY: the call takes nothing, and this thread ends the group below on every path.
    let started = unsafe { (nccl.group_start)() };
    let outcome = match started {
        ncclResult_t::ncclSuccess => {
            let outcome = parts.iter().try_for_each(others);
            // SAFETY: the group was started on this thread; `info` is valid for writes.
            let ended = unsafe { function(&raw mut info) };
            let ended = nccl.check("ncclGroupSimulateEnd", Some(call), ended);
            outcome.and(ended)
        }
        started => nccl.check("ncclGroupStart", Some(call), started),
    };
    cross();
    outcome.map_err(|error| poison_all(parts.iter().map(|part| part.comm), error))?;
    // -1 if NCCL has no estimate.
    Duration::try_from_secs_f32(info.estimatedTime / 1e6).map_err(|_| {
        Unsupported::error(WHAT, "an algorithm whose time NCCL knows", "it gave no time")
    })
}

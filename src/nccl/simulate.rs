//! Simulation: what NCCL says a group would take.

use std::time::Duration;

use nccl_sys::{ncclResult_t, ncclSimInfo_t};

use super::api::unsupported;
use super::calls::Failure;
use super::comm::Comm;
use super::issue::{failed, possible};
use crate::Result;
use crate::backend::Op;
use crate::cuda::{CudaBackend, CudaStream};
use crate::error::{Error, Unsupported};

const WHAT: &str = "an estimate of a group";

/// Has NCCL estimate collectives, of which there is one at least. It connects the ranks for them, as their
/// first use would.
pub(super) fn simulate(
    comm: &Comm,
    stream: &CudaStream,
    ops: &[Op<'_, CudaBackend>],
) -> Result<Duration> {
    let nccl = comm.nccl;
    // A group of communicators that do not block is launched, whatever was asked.
    if comm.is_adopted {
        return Err(no_estimate("a communicator that was made here", "another library made it"));
    }
    let function = nccl.api.ncclGroupSimulateEnd().map_err(|missing| unsupported(WHAT, missing))?;
    ops.iter().try_for_each(|op| possible(comm, op))?;
    let Some(call) = ops.first().map(Op::call) else { return Ok(Duration::ZERO) };
    let mut info = ncclSimInfo_t::new();
    let (outcome, ended) = comm.inside(|| {
        // SAFETY: it takes nothing; the end below is reached whatever happens between, on this thread.
        let started = unsafe { (nccl.group_start)() };
        if started != ncclResult_t::ncclSuccess {
            return (Ok(()), Some(("ncclGroupStart", started)));
        }
        let outcome = comm.others(stream, ops);
        // SAFETY: the group was started on this thread; `info` is a place for what NCCL finds.
        let ended = unsafe { function(&raw mut info) };
        let is_bad = ended != ncclResult_t::ncclSuccess;
        (outcome, is_bad.then_some(("ncclGroupSimulateEnd", ended)))
    });
    outcome.map_err(|failure| failed(comm, failure))?;
    if let Some((function, result)) = ended {
        return Err(failed(comm, Failure::Nccl(function, result, call)));
    }
    // It is -1 where NCCL has said nothing.
    Duration::try_from_secs_f32(info.estimatedTime / 1e6)
        .map_err(|_| no_estimate("an algorithm whose time NCCL knows", "it gave no time"))
}

#[cold]
fn no_estimate(needs: &str, found: &str) -> Error {
    let (what, needs, found) = (WHAT.to_owned(), needs.to_owned(), found.to_owned());
    Error::Unsupported(Box::new(Unsupported { what, needs, found }))
}

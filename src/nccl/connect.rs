//! Connects ranks when their communicator is made.
//!
//! Releases up to 2.21 do so by themselves. Later ones connect in the first operation, in which
//! every caller waits until the others make it too. Two communicators whose first operations come
//! in opposite orders then block both threads forever. `ncclCommRevoke` (2.28.7) frees such a
//! thread. In the releases between, nothing does, so every rank runs a tiny operation of each kind
//! here, where all ranks are present. Transfers still connect in their first operation.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use nccl_sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t};
use typed_nccl_plan::releases::CONNECTS_LATE;

use super::api::Nccl;
use crate::Result;
use crate::backend::{AllocKind, Memory, Streams};
use crate::cuda::{CudaBackend, Gpu};
use crate::error::InitFailed;

/// How often the device is polled.
const EVERY: Duration = Duration::from_millis(1);

/// Whether a new communicator's ranks must be connected here.
fn is_due(nccl: &Nccl, size: i32) -> bool {
    size > 1 && nccl.at_least(CONNECTS_LATE) && nccl.api.ncclCommRevoke().is_err()
}

/// Connects the ranks of a new communicator if NCCL has not. All ranks call it, and it waits for
/// them.
pub(super) fn connect(
    nccl: &Nccl,
    gpu: &'static Gpu,
    comm: ncclComm_t,
    size: i32,
    limit: Duration,
) -> Result<()> {
    if !is_due(nccl, size) {
        return Ok(());
    }
    let place = CudaBackend::alloc(gpu.ordinal(), size_of::<f32>(), AllocKind::Plain)?;
    let stream = CudaBackend::open(gpu.ordinal())?;
    let outcome = run(nccl, place.address(), comm, stream.handle());
    let point = CudaBackend::point(&stream);
    // Reused once the stream has passed.
    CudaBackend::retire(place, vec![stream]);
    outcome?;
    let (point, started) = (point?, Instant::now());
    while !CudaBackend::reached(&point)? {
        if started.elapsed() >= limit {
            let why = "did not connect within the deadline".to_owned();
            let failed = InitFailed { size: size.unsigned_abs() as usize, ranks: vec![], why };
            return Err(failed.into());
        }
        std::thread::sleep(EVERY);
    }
    Ok(())
}

/// One element up and down the tree, and around the ring.
fn run(nccl: &Nccl, place: *mut c_void, comm: ncclComm_t, stream: *mut c_void) -> Result<()> {
    let (dtype, sum) = (ncclDataType_t::ncclFloat32, ncclRedOp_t::ncclSum);
    // SAFETY: the call takes nothing, and this thread ends the group below on every path.
    let started = unsafe { (nccl.group_start)() };
    nccl.check("ncclGroupStart", None, started)?;
    // SAFETY: `place` holds one element, is on the communicator's device and stays until the stream
    // has passed; communicator and stream are alive.
    let reduced = unsafe { (nccl.all_reduce)(place, place, 1, dtype, sum, comm, stream) };
    // SAFETY: as above.
    let broadcast = unsafe { (nccl.broadcast)(place, place, 1, dtype, 0, comm, stream) };
    // SAFETY: the group was started on this thread.
    let ended = unsafe { (nccl.group_end)() };
    // SAFETY: the communicator is alive, this thread made the call, and no other has it yet.
    let ended = unsafe { nccl.over(comm, ended) };
    nccl.check("ncclAllReduce", None, reduced)?;
    nccl.check("ncclBroadcast", None, broadcast)?;
    nccl.check("ncclGroupEnd", None, ended)
}

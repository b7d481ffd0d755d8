//! How communicators begin and end: the backend's side of it.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nccl_sys::{ncclComm_t, ncclRedOp_t, ncclResult_t, ncclScalarResidence_t};
use typed_nccl_plan::releases::{DESTROY_MEETS, SHARES_GPUS};

use super::api::{Nccl, lacking, version_of};
use super::comm::Comm;
use super::environment::shares_gpus;
use super::family::RankPace;
use super::handle::Handle;
use super::join::Joining;
use super::making::Making;
use super::shared::Waits;
use super::values::Operator;
use super::{config, exit, family, values};
use crate::backend::{Allocation, Departer, Departure, Join, Lifecycle, Pace, Part};
use crate::communicator::{CommConfig, MemoryStats, Properties};
use crate::cuda::{CudaBackend, Gpu};
use crate::error::{Error, Surplus};
use crate::{DType, Rank, ReductionName, Result};

// SAFETY: NCCL's kernels are over when their streams report it, and memory is reused only then.
// Memory in windows stays until every rank of the process has ended.
unsafe impl Lifecycle for CudaBackend {
    type Comm = Comm;
    type Operator = Operator;
    type Joining = Joining;
    type Dividing = Making;

    fn release() -> String {
        // Without NCCL, joining reports the reason.
        let Ok(nccl) = Nccl::load() else { return String::new() };
        let (library, version) = (nccl.api.library(), nccl.api.version());
        format!("{library} {version}{}", nccl.environment.alike())
    }

    fn place(ordinal: u32) -> Option<String> {
        Gpu::open(ordinal).ok()?.place()
    }

    fn not_shared() -> Option<String> {
        let since = version_of(SHARES_GPUS);
        if !shares_gpus() {
            return Some(format!(
                "give each a GPU of its own, or set NCCL_MULTI_RANK_GPU_ENABLE=1 for all ranks (NCCL {since} and later)"
            ));
        }
        // Without NCCL, joining reports the reason.
        let is_older = Nccl::load().is_ok_and(|nccl| !nccl.at_least(SHARES_GPUS));
        is_older.then(|| {
            format!("each needs a GPU of its own: they can share one with NCCL {since} and later")
        })
    }

    fn offers(config: &CommConfig) -> Result<()> {
        config::offers(Nccl::load()?, config)
    }

    fn join(join: Join, from: Option<Making>) -> Result<Joining> {
        Joining::start(join, from)
    }

    fn divide(comm: &Comm, part: &Part) -> Result<Option<Making>> {
        comm.divide(part)
    }

    fn leaves_out(comm: &Comm) -> bool {
        comm.leaves_out()
    }

    fn divided(dividing: &mut Making) -> Result<bool> {
        dividing.poll().map(|over| over.is_some())
    }

    fn joined(joining: &mut Joining) -> Result<Option<Comm>> {
        joining.made()
    }

    fn keep(comm: &Comm) {
        let mut handle = comm.shared.handle.lock();
        if let Some(handle) = &mut *handle {
            handle.is_lent = false;
        }
    }

    fn can_suspend(comm: &Comm) -> Result<()> {
        comm.can_suspend()
    }

    fn suspend(comm: &Comm) -> Result<Option<Making>> {
        comm.suspend().map(Some)
    }

    fn resume(comm: &Comm) -> Result<Option<Making>> {
        comm.resume().map(Some)
    }

    fn memory(comm: &Comm) -> Result<MemoryStats> {
        comm.memory_stats()
    }

    fn properties(comm: &Comm, known: Properties) -> Result<Properties> {
        comm.properties(known)
    }

    fn absent(id: u64, rank: Rank, why: &str) {
        family::absent(id, rank, why);
    }

    fn is_idle(comm: &Comm) -> bool {
        comm.streams.borrow().iter().all(|stream| stream.is_idle()) && comm.no_kernel_has_one()
    }

    fn pace(comm: &Comm) -> Box<dyn Pace> {
        let family = Arc::downgrade(&comm.shared.family);
        Box::new(RankPace { family, rank: comm.shared.rank })
    }

    fn departer(comm: &Comm) -> Departer {
        let shared = comm.shared.clone();
        Box::new(move |why, how| shared.family.depart(shared.rank, why, how))
    }

    fn pre_mul_sum(comm: &Comm, dtype: DType, mut scalar: [u8; 8]) -> Result<Operator> {
        let residence = ncclScalarResidence_t::ncclScalarHostImmediate;
        let number = create(comm, dtype, scalar.as_mut_ptr().cast(), residence)?;
        Ok(Operator { number, scalar: None })
    }

    fn pre_mul_sum_device(
        comm: &Comm,
        dtype: DType,
        scalar: &Arc<Allocation<Self>>,
    ) -> Result<Operator> {
        let residence = ncclScalarResidence_t::ncclScalarDevice;
        let number = create(comm, dtype, scalar.block().address(), residence)?;
        comm.scalars.borrow_mut().push(scalar.clone());
        Ok(Operator { number, scalar: Some(scalar.clone()) })
    }

    fn operator_number(operator: &Operator) -> Option<i32> {
        Some(operator.number.0)
    }

    fn drop_operator(comm: &Comm, operator: Operator) {
        let Ok(destroy) = comm.nccl.api.ncclRedOpDestroy() else { return };
        // SAFETY: the operator is this communicator's, and no call uses it any more.
        let result = unsafe { destroy(operator.number, comm.handle) };
        if let Err(error) = comm.check("ncclRedOpDestroy", result) {
            log::warn!("{error}");
        } else if let Some(scalar) = operator.scalar {
            comm.let_go(&scalar);
        }
    }

    fn last_words(comm: &Comm) -> Vec<u8> {
        comm.shared.family.last_words()
    }

    fn conclude(comm: &Comm, words: &[Arc<[u8]>]) -> Result<()> {
        for (rank, words) in words.iter().enumerate() {
            comm.shared.family.hear_last_words(rank, words);
        }
        comm.shared.desync().map_or(Ok(()), Err)
    }

    fn unawaited(comm: &Comm) -> Vec<Surplus> {
        comm.shared.family.signals.unawaited(comm.shared.rank)
    }

    fn unmet(comm: &Comm) -> Option<Error> {
        comm.shared.family.unmet(comm.shared.rank)
    }

    fn finalize(mut comm: Comm) {
        // After an error that NCCL found by itself, destroying fails and leaves a group open.
        let error = comm.shared.async_error();
        let destroyed = error.is_none() && comm.destroy_device_comms();
        if destroyed {
            comm.deregister_buffers();
        }
        let Some(handle) = comm.end() else { return };
        let destroy = comm.nccl.api.ncclCommDestroy();
        // Nothing revokes or divides it from here on, as the handle is out of the lock.
        let shared = &comm.shared;
        let busy = shared.revoking.try_lock().is_none() || shared.dividing.try_lock().is_none();
        let (true, Ok(destroy), false) = (destroyed, destroy, busy) else {
            return comm.shared.abort(handle, None);
        };
        let (nccl, shared, gpu) = (comm.nccl, shared.clone(), comm.gpu);
        let failed = Arc::new(AtomicBool::new(false));
        let meet = match nccl.api.ncclCommFinalize() {
            Ok(finalize) if nccl.at_least(DESTROY_MEETS) && !shared.family.is_here() => {
                let (handle, failed) = (Handle::own(handle.raw), failed.clone());
                let meet = move || failed.store(!meets(nccl, &handle, gpu, finalize), Relaxed);
                Some(Box::new(meet) as _)
            }
            _ => None,
        };
        let destroy = move || {
            let Some(_inside) = exit::enter(shared.id) else { return };
            let handle = handle;
            // NCCL takes this thread's GPU for its own, and would make a context on another.
            if failed.load(Relaxed) || gpu.bind().is_err() {
                return shared.abort(handle, None);
            }
            // SAFETY: every rank is idle and no other thread has the handle. NCCL finalises by
            // itself when the last rank of this process destroys its communicator.
            let result = unsafe { destroy(handle.raw) };
            match nccl.check("ncclCommDestroy", None, result) {
                Ok(()) => shared.family.leave(),
                // NCCL may still refer to parked memory, so it stays.
                Err(error) => log::warn!("{error}"),
            }
        };
        let is_busy = move || {
            gpu.is_busy() || family::all().iter().any(|family| family.is_busy_on(gpu.ordinal()))
        };
        match comm.tenant.take() {
            Some(tenant) => tenant.end(is_busy, meet, destroy),
            None => destroy(),
        }
    }

    fn abort(mut comm: Comm, why: &str) {
        comm.shared.stop_kernels();
        comm.shared.family.depart(comm.shared.rank, why, Departure::AtOnce);
        comm.release_waits();
        let owing = comm.shared.family.owing(comm.shared.rank);
        let (last, all) = (comm.last_one_sided.take(), comm.streams.borrow().clone());
        let waits = last.zip(owing).map(|(stream, owing)| Waits { stream, owing, all });
        if let Some(handle) = comm.end() {
            comm.shared.abort(handle, waits);
        }
    }
}

type Finalize = unsafe extern "C" fn(ncclComm_t) -> ncclResult_t;

/// Finalises a communicator, which waits for the ranks of the host's other processes. Returns
/// whether it can be destroyed.
fn meets(nccl: &'static Nccl, handle: &Handle, gpu: &Gpu, finalize: Finalize) -> bool {
    let Some(_late) = exit::enter_late() else { return true };
    if gpu.bind().is_err() {
        return false;
    }
    // SAFETY: every rank is idle, no other thread has the handle, and it is destroyed later.
    let begun = unsafe { finalize(handle.raw) };
    // SAFETY: likewise, and this thread made the call.
    let result = unsafe { nccl.over(handle.raw, begun) };
    let outcome = nccl.check("ncclCommFinalize", None, result);
    outcome.inspect_err(|error| log::warn!("{error}")).is_ok()
}

fn create(
    comm: &Comm,
    dtype: DType,
    scalar: *mut c_void,
    residence: ncclScalarResidence_t,
) -> Result<ncclRedOp_t> {
    comm.gpu.bind()?;
    values::knows(comm.nccl, dtype)?;
    values::reduces(ReductionName::ScaledAdd, dtype)?;
    let create = comm.nccl.api.ncclRedOpCreatePreMulSum().map_err(lacking("an operator"))?;
    let mut number = ncclRedOp_t::ncclSum;
    // SAFETY: `number` is valid for a write. The scalar is one element of the type: on the host,
    // where it is read before the call returns, or on the device, where it stays until the
    // communicator ends.
    let result =
        unsafe { create(&raw mut number, scalar, values::dtype(dtype), residence, comm.handle) };
    comm.check("ncclRedOpCreatePreMulSum", result).map_err(|error| comm.poison(error))?;
    Ok(number)
}

//! Suspending and resuming: `ncclCommSuspend` and `ncclCommResume`, which all ranks call.
//!
//! NCCL waits for the whole device, then for the other ranks, and only the communicator's abort
//! flag interrupts it. So, like a division, the call runs on its own thread, and a rank that finds
//! another lost frees the rest by a revocation. Windows and registered memory are unaffected: NCCL
//! unmaps what it allocated for connections, and maps it again at the same addresses.

use nccl_sys::{NCCL_SUSPEND_MEM, ncclComm_t, ncclCommMemStat_t, ncclResult_t};

use super::api::lacking;
use super::comm::Comm;
use super::exit;
use super::making::{Making, Parent};
use crate::Result;
use crate::communicator::MemoryStats;
use crate::error::Unsupported;

impl Comm {
    pub(super) fn can_suspend(&self) -> Result<()> {
        self.nccl.api.ncclCommSuspend().map_err(lacking("suspending a communicator"))?;
        self.nccl.environment.allows_suspending()?;
        if !self.config.split_share {
            return Ok(());
        }
        // Children use the same memory manager, so NCCL refuses to suspend while there is one.
        Err(Unsupported::error(
            "suspending a communicator",
            "one whose children have resources of their own",
            "`CommConfig::split_share` is set: configure it without",
        ))
    }

    pub(super) fn suspend(&self) -> Result<Making> {
        let suspend =
            self.nccl.api.ncclCommSuspend().map_err(lacking("suspending a communicator"))?;
        self.gpu.end_graphs();
        self.shift("ncclCommSuspend", move |comm| {
            // SAFETY: the communicator is alive, as its end waits for this, and its rank makes no
            // other call with it meanwhile. Every rank is idle.
            unsafe { suspend(comm, NCCL_SUSPEND_MEM) }
        })
    }

    pub(super) fn resume(&self) -> Result<Making> {
        let resume = self.nccl.api.ncclCommResume().map_err(lacking("resuming a communicator"))?;
        self.shift("ncclCommResume", move |comm| {
            // SAFETY: as above; its type shows that it is suspended.
            unsafe { resume(comm) }
        })
    }

    fn shift(
        &self,
        function: &'static str,
        call: impl FnOnce(ncclComm_t) -> ncclResult_t + Send + 'static,
    ) -> Result<Making> {
        let (shared, health, nccl, gpu) =
            (self.shared.clone(), self.health.clone(), self.nccl, self.gpu);
        let parent = Parent { comm: shared.clone(), health: health.clone() };
        let thread = format!("{function} of rank {}", shared.rank);
        let call = move || {
            gpu.bind()?;
            let inside = exit::enter(health.id()).ok_or_else(|| health.ended())?;
            let result = shared.divides(|comm| shared.over(call(comm))).flatten();
            drop(inside);
            let result = result.ok_or_else(|| health.ended());
            result.and_then(|result| nccl.check(function, None, result)).map_err(|error| {
                shared.family.hear_of_deaths(&health);
                health.check().err().unwrap_or(error)
            })?;
            Ok(None)
        };
        Making::start(thread, self.size as usize, Some(parent), call)
    }

    pub(super) fn memory_stats(&self) -> Result<MemoryStats> {
        let total = self.statistic(ncclCommMemStat_t::ncclStatGpuMemTotal)?;
        let suspendable = self.statistic(ncclCommMemStat_t::ncclStatGpuMemSuspend)?;
        let persistent = self.statistic(ncclCommMemStat_t::ncclStatGpuMemPersist)?;
        // NCCL's total includes suspended memory.
        let is_suspended = self.statistic(ncclCommMemStat_t::ncclStatGpuMemSuspended)? != 0;
        let held = if is_suspended { total.saturating_sub(suspendable) } else { total };
        Ok(MemoryStats { held, total, suspendable, persistent })
    }

    fn statistic(&self, which: ncclCommMemStat_t) -> Result<u64> {
        let stats = self.nccl.api.ncclCommMemStats().map_err(lacking("statistics of memory"))?;
        let mut value = 0;
        // SAFETY: the communicator is alive and its rank's thread asks; `value` is valid for a
        // write.
        let result = unsafe { stats(self.handle, which, &raw mut value) };
        self.check("ncclCommMemStats", result)?;
        Ok(value)
    }
}

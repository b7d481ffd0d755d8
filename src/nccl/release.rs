//! Frees ranks that wait for a signal of a rank that ends.
//!
//! An abort ends kernels, but not a stream's wait for a signal: such a stream waits forever, and
//! freeing memory of its GPU waits for the stream. So a rank that ends first raises the signals
//! that others wait for. They already know that it is gone and do not use what it sent. Waiting
//! ranks give it a moment before they abort.

use std::time::{Duration, Instant};

use nccl_sys::ncclResult_t;

use super::comm::Comm;
use super::exit;
use crate::backend::{Slot, Streams};
use crate::cuda::{CudaBackend, CudaStream};

/// The time limit: it takes a few writes.
const LIMIT: Duration = Duration::from_millis(500);

impl Comm {
    /// Raises the signals that this rank owes. Failures are ignored, as the communicator is about
    /// to end.
    pub(super) fn release_waits(&self) {
        // NCCL takes no calls on a revoked communicator.
        if self.one_sided.get() != Some(true) || self.shared.is_revoked() {
            return;
        }
        self.shared.family.hear_them_out();
        let last = self.last_one_sided.borrow().clone();
        let under_way = last.is_some_and(|stream| !stream.is_idle());
        let owed = self.shared.family.signals.owed(self.shared.rank, under_way);
        if owed.is_empty() {
            return;
        }
        let Some(_inside) = exit::enter(self.health.id()) else { return };
        // This rank's own streams may be waiting too.
        let Ok(stream) = CudaBackend::open(self.gpu.ordinal()) else { return };
        let mut left = LIMIT;
        for (to, slot, count) in owed {
            for _ in 0..count {
                if left.is_zero() || self.raise(&stream, to, slot, &mut left).is_none() {
                    return;
                }
            }
        }
        let started = Instant::now();
        let Ok(point) = CudaBackend::point(&stream) else { return };
        while started.elapsed() < LIMIT && !CudaBackend::reached(&point).unwrap_or(true) {
            CudaBackend::pause(&point, LIMIT);
        }
    }

    /// Raises one signal. `None` if it fails, or is not complete within the time `left`: NCCL takes
    /// no other call before.
    fn raise(&self, stream: &CudaStream, to: usize, slot: Slot, left: &mut Duration) -> Option<()> {
        let signal = self.nccl.api.ncclSignal().ok()?;
        let number = |n: u32| i32::try_from(n).ok();
        let to = i32::try_from(to).ok()?;
        let (index, context) = (number(slot.index)?, number(slot.context)?);
        let begun = Instant::now();
        // SAFETY: communicator and stream are alive; the call names no memory.
        let result = unsafe { signal(to, index, context, 0, self.handle, stream.handle()) };
        *left = left.saturating_sub(begun.elapsed());
        let result = self.shared.over_within(result, left)?;
        (result == ncclResult_t::ncclSuccess).then_some(())
    }
}

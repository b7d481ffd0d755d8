//! What a communicator leaves behind: memory that peers may have accessed, kept until the last rank
//! of this process has ended.

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, LazyLock, Weak};

use super::super::watch;
use crate::backend::Allocation;
use crate::cuda::{CudaBackend, CudaStream};
use crate::lock::Mutex;
use crate::memory::Lease;

/// Shared by the ranks of one communicator in this process, which access each other's memory
/// directly. Other processes have their own mappings, which keep the memory alive.
#[derive(Default)]
pub(super) struct DeferredRelease(Mutex<State>);

#[derive(Default)]
struct State {
    /// How many ranks joined and have not ended.
    live: usize,
    /// How many ranks have a communicator whose end has not begun.
    open: usize,
    /// NCCL drops its references when the last rank has ended.
    parked: Parked,
    /// Streams that carried the ranks' work.
    streams: Vec<Arc<CudaStream>>,
}

/// Kept memory, and registered memory that its owner does not get back meanwhile.
#[derive(Default)]
pub(in super::super) struct Parked {
    memory: Vec<Arc<Allocation<CudaBackend>>>,
    leases: Vec<Arc<Lease<CudaBackend>>>,
}

impl Parked {
    pub(in super::super) fn of(
        memory: impl IntoIterator<Item = Arc<Allocation<CudaBackend>>>,
        leases: impl IntoIterator<Item = Arc<Lease<CudaBackend>>>,
    ) -> Self {
        let leases: Vec<_> = leases.into_iter().collect();
        let registered = leases.iter().map(|lease| lease.allocation().clone());
        Self { memory: memory.into_iter().chain(registered).collect(), leases }
    }
}

impl Drop for DeferredRelease {
    fn drop(&mut self) {
        let state = self.0.get_mut();
        if state.live > 0 {
            // A rank never ended as far as NCCL knows, so memory that NCCL may still refer to is
            // leaked.
            mem::forget(mem::take(&mut state.parked));
            watch::quarantine(Vec::new(), mem::take(&mut state.streams));
        }
    }
}

impl DeferredRelease {
    /// The remains of a communicator whose ranks in this process share no family, by its id.
    pub(super) fn of(id: u64) -> Arc<Self> {
        static KNOWN: LazyLock<Mutex<HashMap<u64, Weak<DeferredRelease>>>> =
            LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock();
        known.retain(|_, deferred_release| deferred_release.strong_count() > 0);
        if let Some(deferred_release) = known.get(&id).and_then(Weak::upgrade) {
            return deferred_release;
        }
        let deferred_release = Arc::new(Self::default());
        known.insert(id, Arc::downgrade(&deferred_release));
        deferred_release
    }

    /// A rank joins.
    pub(super) fn join(&self) {
        self.0.lock().live += 1;
    }

    /// A rank has a communicator.
    pub(super) fn opens(&self) {
        self.0.lock().open += 1;
    }

    /// A rank's communicator, whose streams are parked, begins to end. The last one gets the
    /// streams of all.
    pub(super) fn closes(&self) -> Option<Vec<Arc<CudaStream>>> {
        let mut state = self.0.lock();
        state.open = state.open.saturating_sub(1);
        (state.open == 0).then(|| state.streams.clone())
    }

    /// Keeps memory until every rank of this process has ended, and their streams have passed.
    pub(super) fn park(&self, memory: Parked, streams: Vec<Arc<CudaStream>>) {
        let mut state = self.0.lock();
        state.parked.memory.extend(memory.memory);
        state.parked.leases.extend(memory.leases);
        state.streams.extend(streams);
    }

    /// Records that a rank has ended. Returns memory that nothing uses any more, for the caller to
    /// drop without a lock.
    #[must_use]
    pub(super) fn leave(&self) -> Parked {
        let mut state = self.0.lock();
        state.live = state.live.saturating_sub(1);
        if state.live > 0 {
            return Parked::default();
        }
        let (mut parked, streams) = (mem::take(&mut state.parked), mem::take(&mut state.streams));
        drop(state);
        if !streams.is_empty() {
            watch::quarantine(mem::take(&mut parked.memory), streams);
        }
        parked
    }

    /// Streams that carried the work of ranks that ended.
    pub(super) fn streams(&self) -> Vec<Arc<CudaStream>> {
        self.0.lock().streams.clone()
    }
}

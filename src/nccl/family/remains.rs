//! What a communicator leaves behind: memory that peers may have seen, until the last rank of this
//! process has ended.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use super::super::watch;
use crate::backend::Allocation;
use crate::cuda::{CudaBackend, CudaStream};

/// Shared by the ranks of one communicator in this process: they see each other's memory as it is.
/// Other processes have mappings of their own, which keep what they map.
#[derive(Default)]
pub(super) struct Remains(Mutex<State>);

#[derive(Default)]
struct State {
    /// How many ranks joined and have not ended.
    live: usize,
    /// NCCL lets go of it when the last one has ended.
    parked: Vec<Arc<Allocation<CudaBackend>>>,
    /// What the ranks' work went to.
    streams: Vec<Arc<CudaStream>>,
}

impl Drop for Remains {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.live > 0 {
            // A rank never ended, as far as NCCL is concerned: what it may name stays for ever.
            std::mem::forget(std::mem::take(&mut state.parked));
            watch::bury(Vec::new(), std::mem::take(&mut state.streams));
        }
    }
}

impl Remains {
    /// Those of a communicator whose ranks in this process have no family in common: by its id.
    pub(super) fn of(id: u64) -> Arc<Self> {
        static KNOWN: LazyLock<Mutex<HashMap<u64, Weak<Remains>>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, remains| remains.strong_count() > 0);
        if let Some(remains) = known.get(&id).and_then(Weak::upgrade) {
            return remains;
        }
        let remains = Arc::new(Self::default());
        known.insert(id, Arc::downgrade(&remains));
        remains
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank joins.
    pub(super) fn join(&self) {
        self.state().live += 1;
    }

    /// Keeps memory until every rank of this process has ended, and their streams have passed.
    pub(super) fn park(
        &self,
        memory: impl IntoIterator<Item = Arc<Allocation<CudaBackend>>>,
        streams: Vec<Arc<CudaStream>>,
    ) {
        let mut state = self.state();
        state.parked.extend(memory);
        state.streams.extend(streams);
    }

    /// A rank has ended. Gives what nothing uses any more, to be dropped without a lock.
    #[must_use]
    pub(super) fn leave(&self) -> Vec<Arc<Allocation<CudaBackend>>> {
        let mut state = self.state();
        state.live = state.live.saturating_sub(1);
        if state.live > 0 {
            return Vec::new();
        }
        let (parked, streams) =
            (std::mem::take(&mut state.parked), std::mem::take(&mut state.streams));
        drop(state);
        if streams.is_empty() {
            return parked;
        }
        watch::bury(parked, streams);
        Vec::new()
    }

    /// What the work of ranks that ended went to.
    pub(super) fn streams(&self) -> Vec<Arc<CudaStream>> {
        self.state().streams.clone()
    }
}

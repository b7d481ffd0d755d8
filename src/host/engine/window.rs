//! Windows: each rank's registered memory, the target of its peers' puts.

use std::sync::Arc;

use super::comm::MemberId;
use super::state::{Out, State};
use crate::backend::WindowId;
use crate::error::Site;
use crate::host::HostBackend;
use crate::host::moves::Held;
use crate::memory::Allocation;

/// One window of a communicator: every rank's part.
pub(super) struct Window {
    parts: Vec<Option<Arc<Allocation<HostBackend>>>>,
}

impl Window {
    /// A peer's part from byte `offset` on.
    pub(super) fn held(&self, rank: usize, offset: usize) -> Option<Held> {
        Some(Held::new(self.parts[rank].as_ref()?.clone(), offset))
    }
}

impl Window {
    /// The launch site of a closure that blocks a put of `bytes` bytes.
    pub(super) fn closure_at(&self, rank: usize, offset: usize, bytes: usize) -> Option<Site> {
        self.parts[rank].as_ref()?.block().ranges()?.closure_at(offset, bytes)
    }

    /// Every rank's part.
    pub(super) fn all(&self) -> Option<Vec<Arc<Allocation<HostBackend>>>> {
        self.parts.iter().cloned().collect()
    }

    pub(super) fn address(&self, rank: usize) -> Option<*mut u8> {
        let block = self.parts[rank].as_ref()?.block();
        block.far().is_none().then(|| block.start())
    }
}

impl State {
    pub(super) fn register(
        &mut self,
        place: MemberId,
        id: WindowId,
        allocation: Arc<Allocation<HostBackend>>,
    ) {
        if let Some(comm) = self.comm(place) {
            if let Some(health) = &comm.members[place.rank].health {
                allocation.block().share(health);
            }
            let size = comm.size();
            let window = comm
                .windows
                .entry(id)
                .or_insert_with(|| Window { parts: (0..size).map(|_| None).collect() });
            window.parts[place.rank] = Some(allocation);
        }
    }

    /// Marks memory that a graph refers to: as in a window, moves take their ranges.
    pub(super) fn lease(&mut self, place: MemberId, allocation: &Allocation<HostBackend>) {
        let block = allocation.block();
        if let Some(comm) = self.comm(place)
            && let Some(health) = &comm.members[place.rank].health
            && !block.is_shared()
        {
            block.share(health);
        }
    }

    pub(super) fn unregister(&mut self, place: MemberId, id: WindowId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let Some(window) = comm.windows.get_mut(&id) else { return };
        let part = window.parts[place.rank].take();
        let empty = window.parts.iter().all(Option::is_none);
        let mut gone = if empty { comm.windows.remove(&id) } else { None };
        match &mut gone {
            Some(window) => window.parts[place.rank] = part,
            None => out.drop_held(part.map(|allocation| Held::new(allocation, 0))),
        }
        out.drop_window(gone);
    }
}

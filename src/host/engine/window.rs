//! Windows: each rank's registered memory, the target of its peers' puts.

use std::sync::{Arc, Weak};

use super::comm::{Member, MemberId};
use super::state::{Out, State, Void};
use super::{Engine, Here};
use crate::backend::WindowId;
use crate::error::{Call, Operation, Site};
use crate::host::moves::Held;
use crate::host::reads::Part;
use crate::host::{HostBackend, hazards};
use crate::memory::Allocation;
use crate::{DType, Rank};

/// One window of a communicator: every rank's part.
pub(super) struct Window {
    parts: Vec<Option<Held>>,
}

impl Window {
    /// `bytes` bytes of a peer's part from byte `offset` on; `None` if it does not have them.
    pub(super) fn held(&self, rank: usize, offset: usize, bytes: usize) -> Option<Held> {
        self.parts[rank].as_ref()?.part(offset, bytes)
    }

    /// Whether a peer's part is known.
    pub(super) fn has(&self, rank: usize) -> bool {
        self.parts[rank].is_some()
    }

    /// The launch site of a closure that blocks a put of `bytes` bytes.
    pub(super) fn closure_at(&self, rank: usize, offset: usize, bytes: usize) -> Option<Site> {
        self.parts[rank].as_ref()?.block().ranges()?.closure_at(offset, bytes)
    }

    /// Every rank's part.
    pub(super) fn all(&self) -> Option<Vec<Held>> {
        self.parts.iter().cloned().collect()
    }

    /// The communicator broke: peers in other processes may have puts under way.
    pub(super) fn expose(&self) {
        self.parts.iter().flatten().for_each(|part| part.block().expose());
    }

    pub(super) fn address(&self, rank: usize) -> Option<*mut u8> {
        let block = self.parts[rank].as_ref()?.block();
        block.far().is_none().then(|| block.start())
    }
}

impl Engine {
    /// A peer's part of a window, if its memory is reachable from here.
    pub(in crate::host) fn part(&self, comm: &Member, id: WindowId, peer: usize) -> Option<Part> {
        // Other processes have said where their parts are before all ranks had registered them.
        self.hear(Here::Nothing);
        let (mut state, place) = (self.lock(), comm.place());
        let comm = state.comm(place)?;
        let memory = comm.windows.get(&id)?.parts.get(peer)?.clone()?;
        if memory.far().is_some() {
            return None;
        }
        let ranks = [place.rank, peer];
        let health = |rank: usize| comm.members[rank].health.as_ref();
        let [health, owner] = ranks.map(|rank| health(rank).map_or_else(Weak::new, Arc::downgrade));
        let [from, to] = ranks.map(Rank::at);
        let call = Call::new(Operation::PutSignal, DType::U8, 0, Site::caller());
        let by = comm.order.as_ref().map(|order| {
            let (name, broken) = (comm.name, order.broken.clone());
            hazards::Put { call, from, to, name, health, owner, broken }
        });
        Some(Part { memory, by })
    }
}

impl State {
    pub(super) fn register(&mut self, place: MemberId, id: WindowId, memory: Held) {
        if let Some(comm) = self.comm(place) {
            // A copy's owner is in another process. Ranks of this one may still put into the same
            // bytes at a time.
            memory.block().share(comm.members[place.rank].health.as_ref());
            let size = comm.size();
            let window = comm
                .windows
                .entry(id)
                .or_insert_with(|| Window { parts: (0..size).map(|_| None).collect() });
            window.parts[place.rank] = Some(memory);
        }
    }

    /// Marks memory that a graph refers to: as in a window, moves take their ranges.
    pub(super) fn lease(&mut self, place: MemberId, allocation: &Allocation<HostBackend>) {
        let block = allocation.block();
        if let Some(comm) = self.comm(place)
            && let Some(health) = &comm.members[place.rank].health
            && !block.is_shared()
        {
            block.share(Some(health));
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
            None => out.void.extend(part.map(Void::Held)),
        }
        out.void.extend(gone.map(Void::Window));
    }
}

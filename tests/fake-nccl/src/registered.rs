//! Registrations with a communicator, and messages with one registered side.
//!
//! NCCL's transfers take a shorter path for registered memory, and assume that the other side is
//! registered too. If it is not, both wait forever. Here the books match the k-th send of a pair
//! with the k-th receive, and a mismatch in which NCCL would hang is misuse.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;

use nccl_sys::{NCCL_UNIQUE_ID_BYTES, ncclComm};

use crate::pointer::Place;
use crate::state::State;

/// The granularity of registrations.
const PAGE: usize = 4096;

/// Messages of up to this size use NCCL's path for small ones, whatever their memory.
const SMALL: usize = 16 << 10;

/// Memory registered by itself: whole pages, shared by all registrations within them.
pub(crate) struct Registration {
    pub(crate) comm: usize,
    start: usize,
    end: usize,
    pub(crate) count: usize,
}

/// One side of a message: whether its memory is registered, and how long it is.
type Side = (bool, usize);

/// The unmatched sides of one pair of ranks: the sender's, and the receiver's.
#[derive(Default)]
pub(crate) struct Pair {
    sides: [VecDeque<Side>; 2],
}

/// By the communicator's id, sender and receiver.
pub(crate) type Pairs = HashMap<([u8; NCCL_UNIQUE_ID_BYTES], c_int, c_int), Pair>;

impl State {
    /// Registers memory; memory in registered pages gets their handle.
    pub(crate) fn register(&mut self, comm: usize, start: usize, bytes: usize) -> usize {
        let end = (start + bytes).next_multiple_of(PAGE);
        let start = start / PAGE * PAGE;
        let holds =
            |known: &Registration| known.comm == comm && known.start <= start && end <= known.end;
        if let Some((handle, known)) = self.registrations.iter_mut().find(|(_, one)| holds(one)) {
            known.count += 1;
            return *handle;
        }
        let handle = self.handle();
        self.registrations.insert(handle, Registration { comm, start, end, count: 1 });
        handle
    }

    /// Ends one registration of this handle; false if there is none.
    pub(crate) fn deregister(&mut self, comm: usize, handle: usize) -> bool {
        let Some(known) = self.registrations.get_mut(&handle) else { return false };
        if known.comm != comm {
            return false;
        }
        known.count -= 1;
        if known.count == 0 {
            self.registrations.remove(&handle);
        }
        true
    }

    /// Whether transfers of a communicator treat these bytes as registered: only memory of NCCL's
    /// allocator is.
    fn is_registered(&self, comm: usize, start: usize, bytes: usize) -> bool {
        let is_nccls = |(at, layout): (&usize, &std::alloc::Layout)| {
            (*at..*at + layout.size()).contains(&start)
        };
        let known = |of: usize, from: usize, to: usize| {
            of == comm && from <= start && start.saturating_add(bytes) <= to
        };
        let windows = || self.windows.values();
        self.allocations.iter().any(is_nccls)
            && (self.registrations.values().any(|one| known(one.comm, one.start, one.end))
                || windows().any(|one| known(one.comm, one.memory, one.memory + one.size)))
    }

    /// Records one side of a message: this rank's, as the sender or the receiver.
    pub(crate) fn transfers(
        &mut self,
        comm: Place<ncclComm>,
        peer: c_int,
        (start, bytes): (usize, usize),
        sends: bool,
    ) {
        let comm = comm.address();
        let Some(this) = self.communicators.get(&comm) else { return };
        // A child's ranks do not know each other here.
        let (Some(id), rank) = (this.id, this.rank) else { return };
        let is_registered = self.is_registered(comm, start, bytes);
        let (from, to) = if sends { (rank, peer) } else { (peer, rank) };
        let pair = self.pairs.entry((id, from, to)).or_default();
        pair.sides[usize::from(sends)].push_back((is_registered, bytes));
        let [received, sent] = &mut pair.sides;
        if received.is_empty() || sent.is_empty() {
            return;
        }
        let (Some(recv), Some(send)) = (received.pop_front(), sent.pop_front()) else { return };
        if recv.0 != send.0 && send.1.min(recv.1) > SMALL {
            self.misuse.push(format!(
                "rank {from} sends {} bytes to rank {to}, registered: {}; there they are registered: {}; both wait for ever",
                send.1, send.0, recv.0
            ));
        }
    }
}

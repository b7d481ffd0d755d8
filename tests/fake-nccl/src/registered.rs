//! What is registered with a communicator, and messages of which one side only is.
//!
//! NCCL's transfers take a shorter way for memory that is registered, and count on the other side to be
//! registered too. Where it is not, both wait for ever. Here the k-th send of a pair meets the k-th receive
//! in the books, and what NCCL would hang in is misuse.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;

use nccl_sys::{NCCL_UNIQUE_ID_BYTES, ncclComm};

use crate::pointer::Place;
use crate::state::State;

/// How much is registered at once.
const PAGE: usize = 4096;

/// Up to so many bytes a message goes as NCCL's small ones do, whatever its memory.
const SMALL: usize = 16 << 10;

/// Memory that is registered by itself: whole pages, for as many registrations as lie in them.
pub(crate) struct Registration {
    pub(crate) comm: usize,
    start: usize,
    end: usize,
    pub(crate) count: usize,
}

/// One side of a message: whether its memory is registered, and how long it is.
type Side = (bool, usize);

/// The sides of one pair of ranks whose others have not come: of the sender, and of the receiver.
#[derive(Default)]
pub(crate) struct Pair {
    sides: [VecDeque<Side>; 2],
}

/// By the communicator's id, sender and receiver.
pub(crate) type Pairs = HashMap<([u8; NCCL_UNIQUE_ID_BYTES], c_int, c_int), Pair>;

impl State {
    /// Registers memory; what lies in registered pages has their handle.
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

    /// Whether transfers of a communicator take these bytes as registered: memory of NCCL's allocator.
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

    /// Notes one side of a message: this rank's, which is the sender or the receiver.
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

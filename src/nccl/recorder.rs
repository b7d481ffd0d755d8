//! What a rank called: its last collectives, readable by the other ranks of the process.
//!
//! Written by the rank's thread at a few plain stores a call, read by whoever waits.

use std::panic::Location;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, fence};

use crate::error::{Call, Operation, Site};
use crate::{DType, Rank, ReductionName};

/// How many collectives are remembered: about as many as CUDA lets a thread enqueue ahead of its
/// device. A power of two.
const KEPT: u64 = 1024;

/// One rank's calls.
pub(super) struct Recorder {
    /// Odd while the rank's thread is inside NCCL with an operation.
    inside: AtomicU64,
    /// How many collectives it called.
    issued: AtomicU64,
    ring: [Slot; KEPT as usize],
    /// How many sends and receives it called, by peer.
    sent: Box<[AtomicU64]>,
    received: Box<[AtomicU64]>,
    /// The last call that was no collective, and after how many collectives it came.
    last: Slot,
    last_after: AtomicU64,
}

#[derive(Default)]
struct Slot {
    site: AtomicPtr<Location<'static>>,
    count: AtomicUsize,
    what: AtomicU64,
}

impl Recorder {
    pub(super) fn new(size: usize) -> Self {
        let counts = || (0..size).map(|_| AtomicU64::new(0)).collect();
        Self {
            inside: AtomicU64::new(0),
            issued: AtomicU64::new(0),
            ring: std::array::from_fn(|_| Slot::default()),
            sent: counts(),
            received: counts(),
            last: Slot::default(),
            last_after: AtomicU64::new(0),
        }
    }

    /// The rank's thread enters NCCL, or leaves it. By that thread only.
    #[inline]
    pub(super) fn cross(&self) {
        self.inside.store(self.inside.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Which stay inside NCCL this is, if it is one.
    pub(super) fn stay(&self) -> Option<u64> {
        Some(self.inside.load(Relaxed)).filter(|crossings| crossings % 2 == 1)
    }

    /// Notes a collective, and which of its operands are in windows. By the rank's own thread only.
    #[inline]
    pub(super) fn collective(&self, call: &Call, memory: u8) {
        let number = self.issued.load(Relaxed);
        // Who sees a slot's new contents sees that the number before is out.
        fence(Release);
        self.ring[(number % KEPT) as usize].put(call, memory);
        self.issued.store(number + 1, Release);
    }

    /// Notes a collective that was refused; gives its number.
    pub(super) fn refused(&self) -> u64 {
        let number = self.issued.load(Relaxed);
        fence(Release);
        self.ring[(number % KEPT) as usize].site.store(ptr::null_mut(), Relaxed);
        self.issued.store(number + 1, Release);
        number
    }

    /// Notes a call that is no collective.
    pub(super) fn other(&self, call: &Call) {
        let counts = match call.operation {
            Operation::SendTo => Some(&self.sent),
            Operation::RecvFrom => Some(&self.received),
            _ => None,
        };
        if let (Some(counts), Some(peer)) = (counts, call.peer) {
            bump(counts, peer.index());
        }
        self.last.put(call, 0);
        self.last_after.store(self.issued.load(Relaxed), Relaxed);
    }

    /// Notes a send that was refused; gives its number.
    pub(super) fn refused_send(&self, to: usize) -> u64 {
        bump(&self.sent, to)
    }

    /// Notes a receive that was refused; gives its number.
    pub(super) fn refused_recv(&self, from: usize) -> u64 {
        bump(&self.received, from)
    }

    pub(super) fn sent(&self, to: usize) -> u64 {
        self.sent.get(to).map_or(0, |count| count.load(Relaxed))
    }

    pub(super) fn received(&self, from: usize) -> u64 {
        self.received.get(from).map_or(0, |count| count.load(Relaxed))
    }

    /// How many collectives it called.
    pub(super) fn issued(&self) -> u64 {
        self.issued.load(Acquire)
    }

    /// The oldest collective that is remembered for sure.
    pub(super) fn oldest(&self) -> u64 {
        (self.issued() + 1).saturating_sub(KEPT)
    }

    /// Collective `number`, if it is remembered and was not refused.
    pub(super) fn call(&self, number: u64) -> Option<Call> {
        self.call_and_memory(number).map(|(call, _)| call)
    }

    /// The same, with which of its operands are in windows: 1 for what it sends, 2 for what it
    /// receives.
    pub(super) fn call_and_memory(&self, number: u64) -> Option<(Call, u8)> {
        if number >= self.issued() {
            return None;
        }
        let slot = &self.ring[(number % KEPT) as usize];
        let memory = (slot.what.load(Relaxed) >> 24) as u8;
        let call = slot.take().map(|call| (call, memory));
        fence(Acquire);
        // The next one may be on its way into the oldest one's slot.
        if number < self.oldest() { None } else { call }
    }

    /// The last call.
    pub(super) fn last(&self) -> Option<Call> {
        let issued = self.issued();
        let other = self.last_other();
        if other.is_some() && self.last_after.load(Relaxed) == issued {
            return other;
        }
        issued.checked_sub(1).and_then(|last| self.call(last)).or(other)
    }

    /// The last call that was no collective.
    pub(super) fn last_other(&self) -> Option<Call> {
        self.last.take()
    }
}

/// By the rank's own thread only.
fn bump(counts: &[AtomicU64], peer: usize) -> u64 {
    let Some(count) = counts.get(peer) else { return 0 };
    let number = count.load(Relaxed);
    count.store(number + 1, Relaxed);
    number
}

/// No root, no peer.
const NOBODY: u32 = u32::MAX;

impl Slot {
    #[inline]
    fn put(&self, call: &Call, memory: u8) {
        let reduction = call.reduction.map_or(0, |reduction| reduction as u64 + 1);
        let rank = call.root.or(call.peer).map_or(NOBODY, |rank| rank.0);
        let what = call.operation as u64
            | (call.dtype as u64) << 8
            | reduction << 16
            | u64::from(memory) << 24
            | u64::from(rank) << 32;
        self.what.store(what, Relaxed);
        self.count.store(call.count, Relaxed);
        self.site.store(ptr::from_ref(call.site).cast_mut(), Relaxed);
    }

    /// What was put, or a mixture while something else is being put.
    fn take(&self) -> Option<Call> {
        // SAFETY: null, or of a reference that lives for ever.
        let site: Site = unsafe { self.site.load(Relaxed).as_ref() }?;
        let what = self.what.load(Relaxed);
        let byte = |at: u32| (what >> at) as u8 as usize;
        let operation = *OPERATIONS.get(byte(0))?;
        let dtype = *DType::ALL.get(byte(8))?;
        let rank = Some((what >> 32) as u32).filter(|rank| *rank != NOBODY).map(Rank);
        let mut call = Call::new(operation, dtype, self.count.load(Relaxed), site);
        call.reduction = byte(16).checked_sub(1).and_then(|name| REDUCTIONS.get(name).copied());
        match operation {
            Operation::Broadcast | Operation::Reduce | Operation::Gather | Operation::Scatter => {
                call.root = rank;
            }
            _ => call.peer = rank,
        }
        Some(call)
    }
}

const OPERATIONS: [Operation; 13] = [
    Operation::AllReduce,
    Operation::Broadcast,
    Operation::Reduce,
    Operation::AllGather,
    Operation::ReduceScatter,
    Operation::AllToAll,
    Operation::Gather,
    Operation::Scatter,
    Operation::SendTo,
    Operation::RecvFrom,
    Operation::PutSignal,
    Operation::Signal,
    Operation::WaitSignal,
];

const REDUCTIONS: [ReductionName; 6] = [
    ReductionName::Add,
    ReductionName::Multiply,
    ReductionName::Least,
    ReductionName::Greatest,
    ReductionName::Mean,
    ReductionName::ScaledAdd,
];

const _: () = {
    let mut i = 0;
    while i < OPERATIONS.len() {
        assert!(OPERATIONS[i] as usize == i);
        i += 1;
    }
    let mut i = 0;
    while i < REDUCTIONS.len() {
        assert!(REDUCTIONS[i] as usize == i);
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::{KEPT, Recorder};
    use crate::error::{Call, Operation};
    use crate::{DType, Rank, ReductionName};

    fn all_reduce(count: usize) -> Call {
        let mut call = Call::new(Operation::AllReduce, DType::Bf16, count, Location::caller());
        call.reduction = Some(ReductionName::Mean);
        call
    }

    #[test]
    fn what_was_called_is_told() {
        let recorder = Recorder::new(4);
        recorder.collective(&all_reduce(7), 2);
        let mut broadcast = Call::new(Operation::Broadcast, DType::I8, 9, Location::caller());
        broadcast.root = Some(Rank(3));
        recorder.collective(&broadcast, 0);
        let told = recorder.call_and_memory(0);
        assert!(told.is_some_and(|(call, memory)| call.matches(&all_reduce(7)) && memory == 2));
        let told = recorder.call(1);
        assert!(told.is_some_and(|call| call.matches(&broadcast) && call.site == broadcast.site));
        assert!(recorder.call(2).is_none());
    }

    #[test]
    fn old_calls_are_forgotten() {
        let recorder = Recorder::new(1);
        for count in 0..2 * KEPT {
            recorder.collective(&all_reduce(count as usize), 0);
        }
        let oldest = recorder.oldest();
        assert_eq!(oldest, KEPT + 1);
        assert!(recorder.call(oldest - 1).is_none());
        for number in oldest..2 * KEPT {
            assert_eq!(recorder.call(number).map(|call| call.count as u64), Some(number));
        }
    }

    #[test]
    fn a_refused_call_has_a_number_and_nothing_else() {
        let recorder = Recorder::new(2);
        recorder.collective(&all_reduce(1), 0);
        assert_eq!(recorder.refused(), 1);
        assert!(recorder.call(1).is_none());
        assert_eq!((recorder.refused_send(1), recorder.sent(1), recorder.received(1)), (0, 1, 0));
    }
}

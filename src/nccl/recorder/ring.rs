//! The last calls of one kind. The rank's thread writes with a few plain stores per call; a waiting
//! thread reads.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, fence};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;
use typed_nccl_match::Log;

use crate::error::{Call, CollectiveName, Operation, Site};
use crate::lock::Mutex;
use crate::{DType, Rank, ReductionName};

/// The last `N` calls of one kind. `N` is a power of two.
#[repr(C)]
pub(in crate::nccl) struct Ring<const N: usize> {
    /// How many there were. First, so that the recorder can place other fields next to it.
    issued: AtomicU64,
    /// The number of the first known call. Another process sends only its latest calls.
    unknown: AtomicU64,
    /// Digests of another process's blocks of calls that are not compared yet.
    told: Mutex<Vec<(u64, u64)>>,
    slots: [Slot; N],
}

/// How many calls a digest covers.
const BLOCK: u64 = 64;

/// More calls than a rank can make.
const MOST: u64 = 1 << 62;

#[derive(Default)]
struct Slot {
    site: AtomicPtr<()>,
    count: AtomicUsize,
    what: AtomicU64,
}

impl<const N: usize> Ring<N> {
    pub(super) fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        let slots = std::array::from_fn(|_| Slot::default());
        Self {
            issued: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            told: Mutex::default(),
            slots,
        }
    }

    /// Records a call; returns its number.
    #[inline]
    pub(super) fn put(&self, packed: &Packed) -> u64 {
        let number = self.issued.load(Relaxed);
        // A reader of the new slot also sees the preceding `issued`.
        fence(Release);
        self.slots[number as usize % N].put(packed);
        self.issued.store(number + 1, Release);
        number
    }

    pub(super) fn issued(&self) -> u64 {
        self.issued.load(Acquire)
    }

    /// The oldest call that is certainly still kept.
    pub(super) fn oldest(&self) -> u64 {
        let kept = (self.issued() + 1).saturating_sub(N as u64);
        kept.max(self.unknown.load(Relaxed))
    }

    /// The last `most` calls, for another process.
    pub(super) fn tell(&self, most: usize) -> CallReport {
        let until = self.issued();
        let from = self.oldest().max(until.saturating_sub(most as u64));
        let read = |number| {
            let (call, memory) = self.call(number)?;
            Some(Word::new(&call, memory))
        };
        let mut calls: Vec<_> = (from..until).map(read).collect();
        // Calls overwritten meanwhile are left out.
        let gone = usize::try_from(self.oldest().saturating_sub(from)).unwrap_or(usize::MAX);
        calls.drain(..gone.min(calls.len()));
        let whole = self.oldest().div_ceil(BLOCK)..until / BLOCK;
        let blocks = whole.filter_map(|block| Some((block, self.digest(block)?))).collect();
        CallReport { issued: until, calls, blocks }
    }

    /// The digest of a block of calls; `None` if one of them was refused, is no longer kept, or
    /// has one of too many data types.
    fn digest(&self, block: u64) -> Option<u64> {
        let mut hasher = SipHasher13::new();
        for number in block * BLOCK..(block + 1) * BLOCK {
            let (call, memory) = self.call(number)?;
            // Another process may know it by name.
            if !call.dtype.is_told_apart() {
                return None;
            }
            let what = match call.operation {
                // The two sides name each other.
                Operation::SendTo | Operation::RecvFrom => 0,
                _ => Packed::new(&call, memory).of_type(0).what,
            };
            (what, call.dtype.digest(), call.count).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    /// The calls of the first block in which another process made a different call. Blocks that
    /// agree are not compared again.
    pub(in crate::nccl) fn first_unlike(&self, other: &Self) -> Option<Range<u64>> {
        let mut told = other.told.lock();
        let mut unlike = None;
        told.retain(|&(block, digest)| {
            let differs = self.digest(block).is_some_and(|own| own != digest);
            if differs && unlike.is_none() {
                unlike = Some(block * BLOCK..(block + 1) * BLOCK);
            }
            // This rank has not made all of these calls yet.
            self.issued() < (block + 1) * BLOCK
        });
        unlike
    }

    /// Takes over another process's calls. Only one thread does so at a time, and no thread calls
    /// [`put`](Self::put).
    pub(super) fn hear(&self, told: &CallReport) {
        if !told.is_possible() {
            return;
        }
        let mut blocks = self.told.lock();
        for block in told.blocks.iter().take(N) {
            if !blocks.contains(block) && blocks.len() < N {
                blocks.push(*block);
            }
        }
        drop(blocks);
        let count = told.calls.len().min(N - 1);
        let known = self.issued();
        let Some(first) = told.issued.checked_sub(count as u64) else { return };
        // Messages may arrive out of order.
        if told.issued <= known {
            return;
        }
        if first > known {
            self.unknown.store(first, Relaxed);
        }
        let calls = &told.calls[told.calls.len() - count..];
        for (number, word) in (first..).zip(calls).filter(|(number, _)| *number >= known) {
            // A reader of the new slot also sees the preceding numbers.
            fence(Release);
            let packed = word.as_ref().map_or(Packed::REFUSED, Word::packed);
            self.slots[number as usize % N].put(&packed);
            self.issued.store(number + 1, Release);
        }
        self.issued.store(told.issued, Release);
    }
}

impl<const N: usize> Log for Ring<N> {
    type Call = (Call, u8);

    fn known(&self) -> Range<u64> {
        self.oldest()..self.issued()
    }

    fn call(&self, number: u64) -> Option<(Call, u8)> {
        if number >= self.issued() {
            return None;
        }
        let call = self.slots[number as usize % N].take();
        fence(Acquire);
        // The next call may be overwriting the oldest slot.
        if number < self.oldest() { None } else { call }
    }
}

/// The last calls of one kind as sent to another process.
#[derive(Serialize, Deserialize, Default)]
pub(super) struct CallReport {
    /// How many there were.
    issued: u64,
    /// The last ones; `None` for one that was refused.
    calls: Vec<Option<Word>>,
    /// Digests of the preceding blocks, which are too many to send call by call.
    blocks: Vec<(u64, u64)>,
}

impl CallReport {
    /// The numbers of the last ones.
    pub(super) fn numbers(&self) -> Range<u64> {
        self.issued.saturating_sub(self.calls.len() as u64)..self.issued
    }

    pub(super) fn is_empty(&self) -> bool {
        self.issued == 0
    }

    #[cfg(test)]
    pub(super) fn made_up(issued: u64, blocks: &[u64]) -> Self {
        let blocks = blocks.iter().map(|block| (*block, 0)).collect();
        Self { issued, calls: vec![None], blocks }
    }

    /// Whether a rank can have made so many calls.
    pub(super) fn is_possible(&self) -> bool {
        self.issued <= MOST && self.blocks.iter().all(|(block, _)| *block < MOST / BLOCK)
    }
}

/// A call as sent to another process.
#[derive(Serialize, Deserialize, Clone)]
pub(in crate::nccl) struct Word {
    site: Site,
    dtype: DType,
    count: usize,
    what: u64,
}

impl Word {
    pub(in crate::nccl) fn new(call: &Call, memory: u8) -> Self {
        let Packed { count, what, .. } = Packed::new(call, memory).of_type(0);
        Self { site: call.site, dtype: call.dtype, count, what }
    }

    fn packed(&self) -> Packed {
        let packed = Packed { site: self.site.as_ptr(), count: self.count, what: self.what };
        // Other processes number plain types otherwise.
        packed.of_type(self.dtype.number())
    }

    /// The call; `None` if this version does not know its kind.
    pub(in crate::nccl) fn call(&self) -> Option<Call> {
        call(self.site, self.count, self.packed().what).map(|(call, _)| call)
    }
}

/// No root, no peer.
const NOBODY: u32 = u32::MAX;

/// A call as it is stored.
pub(super) struct Packed {
    /// Null for a call that was refused.
    site: *mut (),
    count: usize,
    what: u64,
}

impl Packed {
    pub(super) const REFUSED: Self = Self { site: ptr::null_mut(), count: 0, what: 0 };

    #[inline]
    pub(super) fn new(call: &Call, memory: u8) -> Self {
        let reduction = call.reduction.map_or(0, |reduction| reduction as u64 + 1);
        let rank = call.root.or(call.peer).map_or(NOBODY, |rank| rank.0);
        let what = u64::from(number_of(call.operation))
            | u64::from(call.dtype.number()) << 8
            | reduction << 16
            | u64::from(memory) << 24
            | u64::from(rank) << 32;
        Self { site: call.site.as_ptr(), count: call.count, what }
    }

    /// The same call with another number for its data type.
    fn of_type(self, number: u8) -> Self {
        Self { what: self.what & !(0xff << 8) | u64::from(number) << 8, ..self }
    }
}

impl Slot {
    #[inline]
    fn put(&self, packed: &Packed) {
        self.what.store(packed.what, Relaxed);
        self.count.store(packed.count, Relaxed);
        self.site.store(packed.site, Relaxed);
    }

    /// The stored call, or a mixture if another is being stored.
    fn take(&self) -> Option<(Call, u8)> {
        // SAFETY: the pointer is null or from a call's site.
        let site = unsafe { Site::from_ptr(self.site.load(Relaxed)) }?;
        call(site, self.count.load(Relaxed), self.what.load(Relaxed))
    }
}

/// Decodes a slot: the call, and which of its operands are in windows.
fn call(site: Site, count: usize, what: u64) -> Option<(Call, u8)> {
    let byte = |at: u32| (what >> at) as u8;
    let operation = operation(byte(0))?;
    let dtype = DType::numbered(byte(8))?;
    let rank = Some((what >> 32) as u32).filter(|rank| *rank != NOBODY).map(Rank);
    let mut call = Call::new(operation, dtype, count, site);
    let reduction = usize::from(byte(16)).checked_sub(1);
    call.reduction = reduction.and_then(|name| ReductionName::ALL.get(name).copied());
    match operation {
        Operation::Collective(_) => call.root = rank,
        Operation::SendTo
        | Operation::RecvFrom
        | Operation::PutSignal
        | Operation::Signal
        | Operation::WaitSignal => call.peer = rank,
    }
    Some((call, byte(24)))
}

/// The number of the first operation that is not a collective; these have the numbers of their
/// names.
const OTHERS: u8 = CollectiveName::ALL.len() as u8;

#[inline]
pub(super) const fn number_of(operation: Operation) -> u8 {
    match operation {
        Operation::Collective(name) => name as u8,
        Operation::SendTo => OTHERS,
        Operation::RecvFrom => OTHERS + 1,
        Operation::PutSignal => OTHERS + 2,
        Operation::Signal => OTHERS + 3,
        Operation::WaitSignal => OTHERS + 4,
    }
}

pub(super) fn operation(number: u8) -> Option<Operation> {
    let others = [
        Operation::SendTo,
        Operation::RecvFrom,
        Operation::PutSignal,
        Operation::Signal,
        Operation::WaitSignal,
    ];
    let names = CollectiveName::ALL.into_iter().map(Operation::Collective);
    names.chain(others).nth(usize::from(number))
}

//! Moves: the memory accesses of an operation that all ranks have reached, or of work on one rank's
//! memory, in chunks that any thread may run.

mod arith;
mod batches;
mod blocks;
mod collective;
mod exact;
mod local;
mod past;
mod reduce;
mod split;

use std::ops::Range;
use std::sync::Arc;

pub(super) use batches::{Batch, Read};
pub(super) use collective::Collective;
pub(super) use local::{How, Local};
pub(super) use reduce::combine;

use super::block::{self, Block, InUse, Touch};
use super::engine::Parked;
use super::{HostBackend, Scale, far};
use crate::DType;
use crate::backend::Span;
use crate::backend::form::{self, Reduction};
use crate::memory::Allocation;

/// How many bytes of each rank one chunk covers.
const CHUNK: usize = 64 * 1024;

/// Likewise for copies, and for moves that bypass the cache.
const COPY: usize = 256 * 1024;

/// Part of an allocation, held by a queued operation.
#[derive(Clone)]
pub(super) struct Held {
    allocation: Arc<Allocation<HostBackend>>,
    offset: usize,
    bytes: usize,
}

impl Held {
    pub(super) fn of(span: &Span<'_, HostBackend>, dtype: DType) -> Self {
        let bytes = span.len() * dtype.size();
        Self { allocation: span.allocation().clone(), offset: span.offset(), bytes }
    }

    /// `bytes` bytes of an allocation from byte `offset` on, which it has.
    pub(super) fn new(
        allocation: Arc<Allocation<HostBackend>>,
        offset: usize,
        bytes: usize,
    ) -> Self {
        Self { allocation, offset, bytes }
    }

    /// All `bytes` bytes of memory that is not a program's own.
    pub(super) fn all(block: Block, bytes: usize) -> Self {
        let allocation = Arc::new(Allocation::adopted(0, block, None));
        Self { allocation, offset: 0, bytes }
    }

    /// Its `bytes` bytes from byte `offset` on; `None` if it does not have them.
    pub(super) fn part(&self, offset: usize, bytes: usize) -> Option<Self> {
        let fits = offset.checked_add(bytes)? <= self.bytes;
        fits.then(|| Self::new(self.allocation.clone(), self.offset + offset, bytes))
    }

    /// Its bytes, to be read by a peer: where they lie in the memory that other processes map, if
    /// they do.
    pub(super) fn shared_at(&self) -> Option<u64> {
        Some(self.block().shared_at()? + self.offset as u64)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it lies in its allocation.
    pub(super) fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }

    /// The address of its first byte.
    pub(super) fn start(&self) -> *mut u8 {
        // SAFETY: the typed layer checked that spans lie inside their allocation.
        unsafe { self.at(0) }
    }

    /// Where it lies, if that is on another machine.
    pub(super) fn far(&self) -> Option<far::Place> {
        let place = self.block().far()?;
        Some(far::Place { offset: place.offset + self.offset as u64, ..place })
    }

    /// Appends a copy of its bytes. Waits for copies that write them; fails if a closure does.
    ///
    /// A copy never takes the engine's lock while it holds a range, so this may be called under
    /// that lock.
    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) -> Result<(), InUse> {
        let _guard = self.whole(false).try_take()?;
        bytes.reserve(self.bytes);
        let end = bytes.spare_capacity_mut().as_mut_ptr();
        // SAFETY: the typed layer checked that spans lie inside their allocation.
        let start = unsafe { self.at(0) };
        // SAFETY: as above; as many bytes were reserved, in memory of its own. Stream order keeps
        // the owner's writes before or after. All other writers of this process are moves and
        // closures that lock the range, and the guard orders those before or after. Puts of other
        // processes are the exception of decision 079.
        unsafe { start.copy_to_nonoverlapping(end.cast(), self.bytes) };
        // SAFETY: they were written just now.
        unsafe { bytes.set_len(bytes.len() + self.bytes) };
        Ok(())
    }

    /// The address of byte `offset` of the span.
    ///
    /// # Safety
    /// `offset` is within the span.
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: the typed layer checked that spans lie inside their allocation.
        unsafe { self.block().at(self.offset + offset) }
    }

    pub(super) fn block(&self) -> &Block {
        self.allocation.block()
    }

    /// The whole span.
    pub(super) fn whole(&self, write: bool) -> Touch<'_> {
        self.touch(0, self.bytes, write)
    }

    /// `bytes` bytes of the span from byte `offset` on, to be read or written.
    pub(super) fn touch(&self, offset: usize, bytes: usize, write: bool) -> Touch<'_> {
        Touch { block: self.block(), start: self.offset + offset, bytes, write }
    }
}

/// A reduction with its operator's scalar.
pub(super) type Combine = Reduction<Scale>;

/// One rank's part of a collective, with a number for its configuration.
pub(super) type Entry = form::Collective<Held, Scale, u8>;

/// The movement of one operation.
pub(super) enum Moves {
    /// Every rank's part of a collective.
    Collective(Collective),
    /// From one rank to another. The target is as long as the source: counts of transfers and
    /// lengths of windows were compared.
    Copy { from: Held, to: Held },
    /// Within one rank.
    Local(Local),
    /// Another process moves it. The memory here is kept meanwhile.
    Elsewhere { _held: Option<Held> },
}

impl Moves {
    /// Restricts a collective to this process's part: see [`Collective::split`].
    pub(super) fn split(&mut self, own: Vec<bool>, shares: bool, private: Vec<Option<Box<Held>>>) {
        if let Self::Collective(collective) = self {
            collective.split(own, shares, private);
        }
    }

    /// How many steps it takes. Every rank waits for the others after each.
    pub(super) fn steps(&self) -> usize {
        match self {
            Self::Collective(collective) => collective.steps(),
            Self::Copy { .. } | Self::Local(_) | Self::Elsewhere { .. } => 1,
        }
    }

    pub(super) fn chunks(&self, step: usize) -> usize {
        match self {
            Self::Collective(collective) => collective.chunks(step),
            // Within one allocation, source and target may overlap, so this is one chunk.
            Self::Copy { from, to } if Arc::ptr_eq(&from.allocation, &to.allocation) => 1,
            Self::Copy { from, .. } => from.bytes.div_ceil(COPY),
            Self::Local(local) => local.chunks(),
            Self::Elsewhere { .. } => 0,
        }
    }

    /// The approximate number of bytes accessed.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Collective(collective) => collective.bytes(),
            Self::Copy { from, .. } => from.bytes,
            Self::Local(local) => local.bytes(),
            Self::Elsewhere { .. } => 0,
        }
    }

    /// Whether its memory may be given back to other owners when it is dropped. Their code may take
    /// arbitrarily long.
    pub(super) fn may_run_owners(&self) -> bool {
        let is_theirs = |held: &Held| held.allocation.is_owned_elsewhere();
        match self {
            Self::Collective(collective) => collective.memory().any(is_theirs),
            Self::Copy { from, to } => is_theirs(from) || is_theirs(to),
            Self::Local(local) => local.memory().any(is_theirs),
            Self::Elsewhere { _held: held } => held.as_ref().is_some_and(is_theirs),
        }
    }

    /// Runs one chunk, unless a closure blocks it.
    ///
    /// # Safety
    /// Each chunk is run once, and meanwhile only this operation uses every rank's spans, except
    /// for peers' puts into windows.
    pub(super) unsafe fn run(&self, step: usize, chunk: usize) -> Result<(), InUse> {
        match self {
            // SAFETY: the caller's promise.
            Self::Collective(collective) => unsafe { collective.run(step, chunk) },
            Self::Copy { from, to } => {
                let (start, bytes) = self.piece(from, chunk);
                let touches = [from.touch(start, bytes, false), to.touch(start, bytes, true)];
                let _guard = block::guard_two(touches)?;
                // SAFETY: the address is within the source span.
                let source = unsafe { from.at(start) };
                // SAFETY: the target is as long as the source.
                let target = unsafe { to.at(start) };
                if from.bytes >= past::LARGE && self.chunks(step) > 1 {
                    // SAFETY: as below; several chunks mean different allocations.
                    unsafe { past::copy(source, target, bytes) };
                    past::fence();
                } else {
                    // SAFETY: both are readable and writable for `bytes`. Only this operation uses
                    // buffers, and the guard protects memory that peers may access.
                    unsafe { std::ptr::copy(source, target, bytes) };
                }
                Ok(())
            }
            // SAFETY: the caller's promise.
            Self::Local(local) => unsafe { local.run(chunk) },
            Self::Elsewhere { .. } => Ok(()),
        }
    }

    /// Parks a chunk until the closure that blocks it is over; returns it if none does.
    pub(super) fn park(&self, step: usize, chunk: usize, parked: Parked) -> Option<Parked> {
        self.touches(step, chunk).into_iter().try_fold(parked, |parked, touch| touch.park(parked))
    }

    /// The memory that a chunk reads and writes.
    fn touches(&self, step: usize, chunk: usize) -> Vec<Touch<'_>> {
        match self {
            Self::Collective(collective) => collective.touches(step, chunk),
            Self::Copy { from, to } => {
                let (start, bytes) = self.piece(from, chunk);
                vec![from.touch(start, bytes, false), to.touch(start, bytes, true)]
            }
            Self::Local(local) => local.touches(chunk),
            Self::Elsewhere { .. } => Vec::new(),
        }
    }

    /// The start and length of a copy's chunk.
    fn piece(&self, from: &Held, chunk: usize) -> (usize, usize) {
        let start = chunk * COPY;
        match self.chunks(0) {
            1 => (start, from.bytes),
            _ => (start, COPY.min(from.bytes - start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use super::super::block::Block;
    use super::Held;
    use crate::error::Site;

    const BYTES: usize = 4096;

    fn shared() -> Held {
        let block = Block::zeroed(0, BYTES).expect("there is so much");
        block.share(None);
        Held::all(block, BYTES)
    }

    #[test]
    fn memory_is_copied_before_or_after_a_move_that_writes_it() {
        let held = shared();
        let write_all = |value| {
            let _guard = held.whole(true).try_take().expect("no closure holds it");
            for at in 0..BYTES {
                // SAFETY: the block has this many bytes.
                let byte = unsafe { held.at(at) };
                // SAFETY: as above; the guard keeps all other uses away.
                unsafe { byte.write(value) };
            }
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let values = (0..=u8::MAX).cycle().take_while(|_| !is_over.load(Relaxed));
                values.for_each(write_all);
            });
            let copies = (0..200).map(|_| {
                let mut bytes = Vec::new();
                held.append_to(&mut bytes).map(|()| bytes).ok()
            });
            let copies: Vec<_> = copies.collect();
            is_over.store(true, Relaxed);
            for bytes in copies {
                let bytes = bytes.expect("no closure holds it");
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "torn");
            }
        });
    }

    #[test]
    fn memory_that_a_closure_writes_is_not_copied() {
        let (held, mut bytes) = (shared(), vec![7]);
        let closure = held.whole(true).take(Some(Site::caller()));
        assert!(held.append_to(&mut bytes).is_err());
        assert_eq!(bytes, [7]);
        drop(closure);
        held.append_to(&mut bytes).expect("it is over");
        assert_eq!(bytes.len(), 1 + BYTES);
    }
}

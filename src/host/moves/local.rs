//! Work on one rank's memory alone: a copy, or the local reduction of a plan.

use super::{CHUNK, COPY, Held, combine, past};
use crate::host::block::{self, InUse, Touch};
use crate::{DType, ReductionName};

/// Regions of one length, and what becomes of them in the last one.
pub(in crate::host) struct Local {
    of: Vec<Held>,
    to: Held,
    how: How,
    /// Peers access some of it: it is one chunk, so that a conflict is reported once.
    is_shared: bool,
}

#[derive(Clone, Copy)]
pub(in crate::host) enum How {
    /// Copies the only source.
    Copy,
    /// Reduces the sources. The target may be one of them.
    Combine(ReductionName, DType),
}

impl Local {
    /// # Safety
    /// The regions are as long as the target, and inside their memory, aligned for the type of what
    /// is combined. Those that overlap the target are the target; a copy has one, apart from it.
    pub(in crate::host) unsafe fn new(of: Vec<Held>, to: Held, how: How) -> Self {
        let is_shared = of.iter().chain([&to]).any(|one| one.block().is_shared());
        Self { of, to, how, is_shared }
    }

    /// The length of a chunk in bytes.
    fn chunk(&self) -> usize {
        match self.how {
            _ if self.is_shared => self.to.bytes.max(1),
            How::Copy => COPY,
            // A multiple of every element's size.
            How::Combine(..) => CHUNK,
        }
    }

    pub(super) fn chunks(&self) -> usize {
        self.to.bytes.div_ceil(self.chunk())
    }

    /// All that it reads and writes.
    pub(super) fn memory(&self) -> impl Iterator<Item = &Held> {
        self.of.iter().chain([&self.to])
    }

    /// How many bytes it accesses.
    pub(super) fn bytes(&self) -> usize {
        self.to.bytes * self.of.len()
    }

    /// The memory that it reads and writes.
    pub(in crate::host) fn uses(&self) -> impl Iterator<Item = Touch<'_>> {
        self.piece(0, self.to.bytes)
    }

    fn piece(&self, start: usize, bytes: usize) -> impl Iterator<Item = Touch<'_>> {
        let target = self.to.touch(start, bytes, true);
        // In place, the target covers the source.
        let is_other = move |one: &Touch<'_>| {
            !std::ptr::eq(one.block, target.block) || one.start != target.start
        };
        let sources = self.of.iter().map(move |one| one.touch(start, bytes, false));
        sources.filter(is_other).chain([target])
    }

    /// The start and the length of a chunk.
    fn range(&self, chunk: usize) -> (usize, usize) {
        let start = chunk * self.chunk();
        (start, self.chunk().min(self.to.bytes - start))
    }

    /// The memory that a chunk reads and writes.
    pub(super) fn touches(&self, chunk: usize) -> Vec<Touch<'_>> {
        let (start, bytes) = self.range(chunk);
        self.piece(start, bytes).collect()
    }

    /// Runs one chunk, unless a closure blocks it.
    ///
    /// # Safety
    /// As [`Moves::run`](super::Moves::run).
    pub(super) unsafe fn run(&self, chunk: usize) -> Result<(), InUse> {
        let (start, bytes) = self.range(chunk);
        let shared = self.piece(start, bytes).filter(|one| one.block.is_shared());
        let _guards = block::guard_all(shared.collect())?;
        // SAFETY: the chunk is inside the target.
        let to = unsafe { self.to.at(start) };
        match self.how {
            How::Copy => {
                let Some(from) = self.of.first() else { return Ok(()) };
                // SAFETY: the source is as long as the target.
                let from = unsafe { from.at(start) };
                let is_large = self.to.bytes >= past::LARGE;
                let copy = if is_large { past::copy } else { super::blocks::plain };
                // SAFETY: they are apart, as `new` requires; the rest is the caller's promise, and
                // the guards keep peers away.
                unsafe { copy(from, to, bytes) };
                if is_large {
                    past::fence();
                }
            }
            How::Combine(by, dtype) => {
                // SAFETY: the sources are as long as the target.
                let from = |one: &Held| unsafe { one.at(start) }.cast_const();
                let of: Vec<_> = self.of.iter().map(from).collect();
                // SAFETY: as above. Chunks are whole elements, and aligned as their regions are.
                unsafe { combine(by, dtype, &of, to, bytes / dtype.size()) };
            }
        }
        Ok(())
    }
}

//! The movement of a collective, block by block.

use std::ops::Range;

use typed_nccl_plan::ir::{Side, Spec};

use super::super::block::{self, InUse, Touch};
use super::{CHUNK, COPY, Entry, past};
use crate::DType;
use crate::error::Call;

/// A complete collective: every rank's part, by rank.
pub(in crate::host) struct Collective {
    spec: Spec,
    pub(super) dtype: DType,
    /// Elements per block, as NCCL counts them.
    pub(super) count: usize,
    root: usize,
    pub(super) parts: Vec<Entry>,
    /// Whether peers may also access some of the memory.
    windows: bool,
    /// The results exceed the cache.
    pub(super) is_large: bool,
}

/// The movement of one block.
pub(super) struct Flow {
    /// The ranks that send it; several if it is reduced.
    pub(super) from: Range<usize>,
    /// The block's index in what they send.
    pub(super) source: usize,
    /// The ranks that receive it.
    pub(super) to: Range<usize>,
    /// The block's index in what they receive.
    pub(super) target: usize,
}

impl Collective {
    pub(super) fn new(parts: Vec<Entry>) -> Self {
        let Entry { name, call, .. } = parts[0];
        let root = call.root.map_or(0, crate::Rank::index);
        let held = parts.iter().flat_map(|part| [&part.send, &part.recv]).flatten();
        let windows = held.into_iter().any(|held| held.block().is_shared());
        let Call { dtype, count, .. } = call;
        let spec = name.spec();
        let mut collective = Self { spec, dtype, count, root, parts, windows, is_large: false };
        let results = collective.blocks() * count * dtype.size() * collective.flow(0).to.len();
        collective.is_large = results >= past::LARGE;
        collective
    }

    /// How many independent blocks of `count` elements are produced.
    fn blocks(&self) -> usize {
        let n = self.parts.len();
        match self.spec.wholes() {
            (false, false) => 1,
            (true, false) | (false, true) => n,
            (true, true) => n * n,
        }
    }

    /// A block's senders and receivers.
    pub(super) fn flow(&self, block: usize) -> Flow {
        let n = self.parts.len();
        // A whole that is sent has a part for each receiver; a whole that is received has a part
        // from each sender.
        let (target, source) = match self.spec.wholes() {
            (false, false) => (None, None),
            (false, true) => (Some(block), None),
            (true, false) => (None, Some(block)),
            (true, true) => (Some(block / n), Some(block % n)),
        };
        let ranks = |side: Side, one: Option<usize>| match one {
            _ if side.only_root => self.root..self.root + 1,
            Some(rank) => rank..rank + 1,
            None => 0..n,
        };
        Flow {
            from: ranks(self.spec.send, target),
            source: source.unwrap_or(0),
            to: ranks(self.spec.recv, source),
            target: target.unwrap_or(0),
        }
    }

    fn chunk_len(&self) -> usize {
        let chunk = if self.is_large { COPY } else { CHUNK };
        chunk / self.dtype.size()
    }

    fn chunks_per_block(&self) -> usize {
        self.count.div_ceil(self.chunk_len())
    }

    pub(super) fn chunks(&self) -> usize {
        self.blocks() * self.chunks_per_block()
    }

    pub(super) fn bytes(&self) -> usize {
        let Flow { from, to, .. } = self.flow(0);
        self.blocks() * self.count * self.dtype.size() * from.len().max(to.len())
    }

    /// Runs one chunk, unless a closure blocks it.
    ///
    /// # Safety
    /// As [`Moves::run`](super::Moves::run).
    pub(super) unsafe fn run(&self, chunk: usize) -> Result<(), InUse> {
        let (block, range) = self.part(chunk);
        let flow = self.flow(block);
        let guards = self.windows.then(|| block::guard_all(self.touched(&flow, &range)));
        let _guards = guards.transpose()?;
        match self.spec.reduces {
            // SAFETY: the caller's promise.
            true => unsafe { self.reduce_block(&flow, range) },
            // SAFETY: the caller's promise.
            false => unsafe { self.copy_block(&flow, range) },
        }
        if self.is_large {
            past::fence();
        }
        Ok(())
    }

    /// The memory that a chunk reads and writes.
    pub(super) fn touches(&self, chunk: usize) -> Vec<Touch<'_>> {
        let (block, range) = self.part(chunk);
        self.touched(&self.flow(block), &range)
    }

    /// A chunk's block, and its range of elements.
    fn part(&self, chunk: usize) -> (usize, Range<usize>) {
        let (block, within) = (chunk / self.chunks_per_block(), chunk % self.chunks_per_block());
        let start = within * self.chunk_len();
        (block, start..self.count.min(start + self.chunk_len()))
    }

    fn touched(&self, flow: &Flow, range: &Range<usize>) -> Vec<Touch<'_>> {
        let size = self.dtype.size();
        let (start, bytes) = (range.start * size, range.len() * size);
        let at = |block: usize| block * self.count * size + start;
        let mut touches = Vec::with_capacity(flow.from.len() + flow.to.len());
        for send in self.parts[flow.from.clone()].iter().filter_map(|part| part.send.as_ref()) {
            touches.push(send.touch(at(flow.source), bytes, false));
        }
        for recv in self.parts[flow.to.clone()].iter().filter_map(|part| part.recv.as_ref()) {
            touches.push(recv.touch(at(flow.target), bytes, true));
        }
        touches
    }
}

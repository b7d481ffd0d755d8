//! The movement of a collective, block by block.

use std::ops::Range;

use typed_nccl_plan::ir::{Side, Spec};

use super::super::block::{self, InUse, Touch};
use super::split::Split;
use super::{CHUNK, COPY, Entry, Held, past};
use crate::DType;

/// A complete collective: every rank's part, by rank.
pub(in crate::host) struct Collective {
    spec: Spec,
    /// What it computes with.
    pub(super) dtype: DType,
    /// Of these, per block, as NCCL counts them.
    pub(super) count: usize,
    root: usize,
    pub(super) parts: Vec<Entry>,
    /// Whether peers may also access some of the memory.
    windows: bool,
    /// The results exceed the cache.
    pub(super) is_large: bool,
    /// This process's part, if some of the ranks are in other processes.
    pub(super) split: Option<Split>,
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
    /// The only one of them that receives it now, if the others receive it later.
    pub(super) only: Option<usize>,
}

impl Collective {
    /// The parts are by rank. They fit, as the meeting compared them.
    pub(in crate::host) fn new(parts: Vec<Entry>) -> Self {
        let Entry { name, call, .. } = parts[0];
        let root = call.root.map_or(0, crate::Rank::index);
        let held = parts.iter().flat_map(|part| [&part.send, &part.recv]).flatten();
        let windows = held.into_iter().any(|held| held.block().is_shared());
        let (dtype, count) = match call.reduction {
            Some(reduction) => reduction.computes_with(call.dtype, call.count),
            None => (call.dtype, call.count),
        };
        let spec = name.spec();
        let (is_large, split) = (false, None);
        let mut collective = Self { spec, dtype, count, root, parts, windows, is_large, split };
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

    /// Whether it reduces, and every rank receives all of the result.
    pub(super) fn is_reduced_for_all(&self) -> bool {
        self.spec.reduces && self.flow(0).to.len() > 1
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
            only: None,
        }
    }

    /// The memory of the receivers that this process writes.
    pub(super) fn receivers(&self, flow: &Flow) -> impl Iterator<Item = &Held> + Clone {
        let only = flow.only;
        let is_written = move |rank: usize| {
            only.is_none_or(|only| only == rank)
                && self.split.as_ref().is_none_or(|split| split.own[rank])
        };
        let written = flow.to.clone().filter(move |rank| is_written(*rank));
        written.filter_map(|rank| self.parts[rank].recv.as_ref())
    }

    /// What all ranks send and receive.
    pub(super) fn memory(&self) -> impl Iterator<Item = &Held> {
        self.parts.iter().flat_map(|part| part.send.iter().chain(&part.recv))
    }

    fn chunk_len(&self) -> usize {
        let chunk = if self.is_large { COPY } else { CHUNK };
        let most = (chunk / self.dtype.size()).max(1);
        match &self.split {
            Some(split) if split.shares => split.chunk_len(self.count, most),
            _ => most,
        }
    }

    fn chunks_per_block(&self) -> usize {
        self.count.div_ceil(self.chunk_len())
    }

    /// The chunks that all processes together move.
    pub(super) fn all_chunks(&self) -> usize {
        self.blocks() * self.chunks_per_block()
    }

    /// The chunks that this process moves in a step.
    pub(super) fn chunks(&self, step: usize) -> usize {
        match &self.split {
            Some(split) => split.chunks[step].len(),
            None => self.all_chunks(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let Flow { from, to, .. } = self.flow(0);
        self.blocks() * self.count * self.dtype.size() * from.len().max(to.len())
    }

    /// Runs one chunk, unless a closure blocks it.
    ///
    /// # Safety
    /// As [`Moves::run`](super::Moves::run).
    pub(super) unsafe fn run(&self, step: usize, chunk: usize) -> Result<(), InUse> {
        let (flow, range, rank) = self.moved(step, chunk);
        let guards = self.windows.then(|| block::guard_all(self.touched(&flow, &range, rank)));
        let _guards = guards.transpose()?;
        if let Some(rank) = rank {
            // SAFETY: the caller's promise.
            unsafe { self.copy_share(rank, range) };
            return Ok(());
        }
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
    pub(super) fn touches(&self, step: usize, chunk: usize) -> Vec<Touch<'_>> {
        let (flow, range, rank) = self.moved(step, chunk);
        self.touched(&flow, &range, rank)
    }

    /// How a chunk moves, its range of elements, and the rank whose share it is if it is copied
    /// from there.
    fn moved(&self, step: usize, chunk: usize) -> (Flow, Range<usize>, Option<usize>) {
        let chunk = self.split.as_ref().map_or(chunk, |split| split.chunks[step][chunk]);
        let (block, range) = self.part(chunk);
        let owner = self.split.as_ref().filter(|split| split.shares).map(|_| self.owner(chunk));
        let flow = Flow { only: owner.filter(|_| step == 0), ..self.flow(block) };
        (flow, range, owner.filter(|_| step > 0))
    }

    /// A chunk's block, and its range of elements.
    pub(super) fn part(&self, chunk: usize) -> (usize, Range<usize>) {
        let (block, within) = (chunk / self.chunks_per_block(), chunk % self.chunks_per_block());
        let start = within * self.chunk_len();
        (block, start..self.count.min(start + self.chunk_len()))
    }

    fn touched(&self, flow: &Flow, range: &Range<usize>, share: Option<usize>) -> Vec<Touch<'_>> {
        let size = self.dtype.size();
        let (start, bytes) = (range.start * size, range.len() * size);
        if let Some(rank) = share {
            let from = self.parts[rank].recv.as_ref().map(|from| from.touch(start, bytes, false));
            let to = self.sharers(rank).map(|to| to.touch(start, bytes, true));
            return from.into_iter().chain(to).collect();
        }
        let at = |block: usize| block * self.count * size + start;
        let mut touches = Vec::with_capacity(flow.from.len() + flow.to.len());
        for send in self.parts[flow.from.clone()].iter().filter_map(|part| part.send.as_ref()) {
            touches.push(send.touch(at(flow.source), bytes, false));
        }
        for recv in self.receivers(flow) {
            touches.push(recv.touch(at(flow.target), bytes, true));
        }
        touches
    }
}

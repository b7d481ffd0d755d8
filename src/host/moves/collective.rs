//! The movement of a collective, block by block.

use std::ops::Range;

use super::super::block::{self, InUse, Touch};
use super::{CHUNK, Entry};
use crate::DType;
use crate::error::{Call, Operation};

/// A complete collective: every rank's part, by rank.
pub(in crate::host) struct Collective {
    pub(super) operation: Operation,
    pub(super) dtype: DType,
    /// Elements per block, as NCCL counts them.
    pub(super) count: usize,
    pub(super) root: usize,
    pub(super) parts: Vec<Entry>,
    /// Whether peers may touch any of the memory too.
    windows: bool,
}

impl Collective {
    pub(super) fn new(parts: Vec<Entry>) -> Self {
        let call = parts[0].call;
        let root = call.root.map_or(0, crate::Rank::index);
        let held = parts.iter().flat_map(|part| [&part.send, &part.recv]).flatten();
        let windows = held.into_iter().any(|held| held.block().is_shared());
        let Call { operation, dtype, count, .. } = call;
        Self { operation, dtype, count, root, parts, windows }
    }

    /// How many independent blocks of `count` elements there are to produce.
    fn blocks(&self) -> usize {
        let n = self.parts.len();
        match self.operation {
            Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Gather
            | Operation::Scatter => n,
            Operation::AllToAll => n * n,
            _ => 1,
        }
    }

    fn chunk_len(&self) -> usize {
        CHUNK / self.dtype.size()
    }

    fn chunks_per_block(&self) -> usize {
        self.count.div_ceil(self.chunk_len())
    }

    pub(super) fn chunks(&self) -> usize {
        self.blocks() * self.chunks_per_block()
    }

    pub(super) fn bytes(&self) -> usize {
        let copies = match self.operation {
            Operation::AllToAll | Operation::Gather | Operation::Scatter => 1,
            _ => self.parts.len(),
        };
        self.blocks() * self.count * self.dtype.size() * copies
    }

    /// Runs one chunk, unless a closure is in the way.
    ///
    /// # Safety
    /// As [`Moves::run`](super::Moves::run).
    pub(super) unsafe fn run(&self, chunk: usize) -> Result<(), InUse> {
        let (block, range) = self.part(chunk);
        let guards = self.windows.then(|| block::guard_all(self.touched(block, &range)));
        let _guards = guards.transpose()?;
        match self.operation {
            Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter => {
                // SAFETY: the caller's promise.
                unsafe { self.reduce_block(block, range) }
            }
            _ => {
                // SAFETY: the caller's promise.
                unsafe { self.copy_block(block, range) }
            }
        }
        Ok(())
    }

    /// What a chunk reads and writes.
    pub(super) fn touches(&self, chunk: usize) -> Vec<Touch<'_>> {
        let (block, range) = self.part(chunk);
        self.touched(block, &range)
    }

    /// A chunk's block, and its elements of it.
    fn part(&self, chunk: usize) -> (usize, Range<usize>) {
        let (block, within) = (chunk / self.chunks_per_block(), chunk % self.chunks_per_block());
        let start = within * self.chunk_len();
        (block, start..self.count.min(start + self.chunk_len()))
    }

    fn touched(&self, block: usize, range: &Range<usize>) -> Vec<Touch<'_>> {
        let n = self.parts.len();
        let mut touches = Vec::with_capacity(2 * n);
        for (rank, part) in self.parts.iter().enumerate() {
            // Which block of this rank's send and recv the chunk is about, if any.
            let (read, written) = match self.operation {
                Operation::AllReduce | Operation::Reduce | Operation::Broadcast => {
                    (Some(0), Some(0))
                }
                Operation::ReduceScatter => (Some(block), (rank == block).then_some(0)),
                Operation::AllGather | Operation::Gather => {
                    ((rank == block).then_some(0), Some(block))
                }
                Operation::Scatter => (Some(block), (rank == block).then_some(0)),
                _ => {
                    let (from, to) = (block / n, block % n);
                    ((rank == from).then_some(to), (rank == to).then_some(from))
                }
            };
            for (held, at, write) in [(&part.send, read, false), (&part.recv, written, true)] {
                if let (Some(held), Some(at)) = (held, at) {
                    let size = self.dtype.size();
                    let start = (at * self.count + range.start) * size;
                    touches.push(held.touch(start, range.len() * size, write));
                }
            }
        }
        touches
    }
}

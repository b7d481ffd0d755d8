//! Moves: what a complete collective does to memory, cut into chunks that any thread may run.

mod arith;
mod blocks;
mod reduce;

use std::sync::Arc;

use super::{HostBackend, Scale};
use crate::backend::{Reduction, Span};
use crate::error::{Call, Operation};
use crate::memory::Allocation;
use crate::{DType, ReductionName};

/// How many bytes of each rank one chunk covers.
const CHUNK: usize = 64 * 1024;

/// Part of an allocation, held by a queued operation.
pub(super) struct Held {
    allocation: Arc<Allocation<HostBackend>>,
    offset: usize,
}

impl Held {
    pub(super) fn of(span: &Span<'_, HostBackend>) -> Self {
        Self { allocation: span.allocation().clone(), offset: span.offset() }
    }

    /// The address of byte `offset` of the span.
    ///
    /// # Safety
    /// `offset` is within the span.
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: spans lie inside their allocation: the typed layer checked it.
        unsafe { self.allocation.block().at(self.offset + offset) }
    }
}

/// A reduction with its operator's scalar.
#[derive(Clone, Copy)]
pub(super) enum Combine {
    BuiltIn(ReductionName),
    Scaled(Scale),
}

impl From<&Reduction<HostBackend>> for Combine {
    fn from(reduction: &Reduction<HostBackend>) -> Self {
        match reduction {
            Reduction::BuiltIn(name) => Self::BuiltIn(*name),
            Reduction::PreMulSum(scale) => Self::Scaled(*scale),
        }
    }
}

/// One rank's part of a collective.
pub(super) struct Entry {
    pub(super) call: Call,
    pub(super) reduction: Option<Combine>,
    pub(super) send: Option<Held>,
    pub(super) recv: Option<Held>,
}

/// A complete collective: every rank's part, by rank.
pub(super) struct Moves {
    operation: Operation,
    dtype: DType,
    /// Elements per block, as NCCL counts them.
    count: usize,
    root: usize,
    parts: Vec<Box<Entry>>,
}

impl Moves {
    /// The parts agree: the round compared them.
    pub(super) fn new(parts: Vec<Box<Entry>>) -> Self {
        let call = parts[0].call;
        let root = call.root.map_or(0, crate::Rank::index);
        Self { operation: call.operation, dtype: call.dtype, count: call.count, root, parts }
    }

    /// How many independent blocks of `count` elements there are to produce.
    fn blocks(&self) -> usize {
        let n = self.parts.len();
        match self.operation {
            Operation::AllReduce | Operation::Reduce | Operation::Broadcast => 1,
            Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Gather
            | Operation::Scatter => n,
            Operation::AllToAll => n * n,
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

    /// About how many bytes are touched.
    pub(super) fn bytes(&self) -> usize {
        let copies = match self.operation {
            Operation::AllToAll | Operation::Gather | Operation::Scatter => 1,
            _ => self.parts.len(),
        };
        self.blocks() * self.count * self.dtype.size() * copies
    }

    /// Runs one chunk.
    ///
    /// # Safety
    /// Each chunk is run once, while every rank's spans are kept for this operation alone.
    pub(super) unsafe fn run(&self, chunk: usize) {
        let (block, within) = (chunk / self.chunks_per_block(), chunk % self.chunks_per_block());
        let start = within * self.chunk_len();
        let range = start..self.count.min(start + self.chunk_len());
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
    }
}

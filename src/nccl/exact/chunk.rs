//! A part of an exact sum that is exchanged, added and gathered at once.

use std::ffi::c_void;
use std::ptr;

use nccl_sys::ncclDataType_t;

use crate::backend::{Collective, Half};
use crate::cuda::exact::{self, Addends};
use crate::cuda::{CudaBackend, CudaStream, copy_from};
use crate::error::{Call, CollectiveName};
use crate::nccl::calls::{Failure, Span1};
use crate::nccl::comm::Comm;
use crate::{DType, ReductionName, Result};

/// The most bytes of a message that are exchanged at once.
const MOST: usize = 32 << 20;

/// A message is sent to all ranks whole if that is this many bytes at most.
const FEW: usize = 256 << 10;

/// Pieces begin at multiples of this.
const LINE: usize = 128;

/// Elements of a message, the same on all ranks, and this rank's memory for them.
pub(super) struct Chunk {
    name: CollectiveName,
    call: Call,
    /// What it adds, and how many in a rank's message or block.
    dtype: DType,
    count: usize,
    ranks: usize,
    rank: usize,
    root: Option<usize>,
    /// Elements before it, in the message or in each rank's block.
    at: usize,
    len: usize,
    /// Whether each rank that has a result adds all elements.
    is_whole: bool,
    /// Whether pieces are copied before they are sent, as NCCL may know this memory as registered.
    /// It would wait for a peer that received elsewhere.
    is_staged: bool,
    /// Whether results are received elsewhere and copied, for the same reason.
    keeps_off: bool,
    /// The bytes between contributions: those of the first chunk, so that chunks share the memory
    /// between in one way.
    stride: usize,
    by: usize,
    send: u64,
    recv: u64,
}

impl Chunk {
    /// The chunks of an exact sum.
    pub(super) fn all(
        comm: &Comm,
        collective: &Collective<'_, CudaBackend>,
        captured: bool,
    ) -> Vec<Self> {
        let Collective { name, call, send, recv, .. } = collective;
        // Of complex numbers the parts are added.
        let by = call.reduction.unwrap_or(ReductionName::ExactAdd);
        let (dtype, count) = by.computes_with(call.dtype, call.count);
        let (size, ranks) = (dtype.size(), comm.size as usize);
        let is_scattered = *name == CollectiveName::ReduceScatter;
        let is_whole = !is_scattered && call.bytes().saturating_mul(ranks) <= FEW;
        let piece = (MOST / ranks / LINE).max(1) * LINE / size;
        let most = if is_scattered { piece } else { piece * ranks };
        // In a graph NCCL registers memory of its own allocator by itself. Other memory has no
        // second address.
        let is_named = |span: &Span1<'_>| {
            span.is_some_and(|span| match span.allocation().block().is_nccls() {
                true => captured,
                false => comm.is_known(span, call.dtype),
            })
        };
        let first = most.min(count);
        let first = if is_whole || is_scattered { first } else { first.div_ceil(ranks) };
        // Addresses that NCCL does not know as registered.
        let alias = |span: &Span1<'_>| match span {
            Some(span) => span.allocation().block().alias(span.offset()).expose_provenance() as u64,
            None => 0,
        };
        let chunk = |at: usize| Self {
            name: *name,
            call: *call,
            dtype,
            count,
            ranks,
            rank: comm.shared.rank,
            root: call.root.map(|root| root.index()),
            at,
            len: most.min(count - at),
            is_whole,
            is_staged: is_named(send),
            keeps_off: is_named(recv),
            stride: (first * size).next_multiple_of(LINE),
            by: if by == ReductionName::ExactMean { ranks } else { 1 },
            send: alias(send),
            recv: alias(recv),
        };
        (0..count).step_by(most).map(chunk).collect()
    }

    fn size(&self) -> usize {
        self.dtype.size()
    }

    fn is_scattered(&self) -> bool {
        self.name == CollectiveName::ReduceScatter
    }

    /// The elements of a piece, where the last ranks' may be shorter.
    fn piece(&self) -> usize {
        if self.is_whole || self.is_scattered() { self.len } else { self.len.div_ceil(self.ranks) }
    }

    /// The elements that a rank adds: the first one in this chunk, and their number.
    fn of(&self, rank: usize) -> (usize, usize) {
        if self.is_scattered() {
            return (0, self.len);
        }
        if self.is_whole {
            let adds = self.root.is_none_or(|root| root == rank);
            return (0, if adds { self.len } else { 0 });
        }
        let start = (rank * self.piece()).min(self.len);
        (start, self.piece().min(self.len - start))
    }

    /// Where this rank's contribution to a rank's piece is.
    fn sent(&self, rank: usize) -> u64 {
        let before = if self.is_scattered() { rank * self.count } else { self.of(rank).0 };
        self.send + ((before + self.at) * self.size()) as u64
    }

    /// Where a contribution to this rank's piece arrives.
    fn arrives(&self, scratch: u64, from: usize) -> u64 {
        let nth = if from < self.rank { from } else { from - 1 };
        scratch + (nth * self.stride) as u64
    }

    /// Results that are not at once where they belong, after the contributions.
    fn results(&self, scratch: u64) -> u64 {
        self.arrives(scratch, self.ranks)
    }

    /// Where a rank's piece is sent from if it is copied before, after the results.
    fn staged(&self, scratch: u64, rank: usize) -> u64 {
        self.results(scratch) + ((self.ranks + rank) * self.stride) as u64
    }

    /// The memory between that it needs.
    pub(super) fn bytes(&self) -> usize {
        let aside = if self.is_aside() { self.ranks } else { 0 };
        let pieces = if self.is_staged { 3 * self.ranks } else { self.ranks - 1 + aside };
        pieces * self.stride
    }

    /// Whether results go to memory between first: those for another rank, or of pieces that are
    /// not all as long, or which NCCL must not put where they belong.
    fn is_aside(&self) -> bool {
        let is_elsewhere = match self.root {
            Some(root) => root != self.rank,
            None => !self.len.is_multiple_of(self.ranks),
        };
        self.is_gathered() && (is_elsewhere || self.keeps_off)
    }

    /// Whether the results of the ranks are gathered.
    pub(super) fn is_gathered(&self) -> bool {
        self.ranks > 1 && !self.is_whole && !self.is_scattered()
    }

    /// Where this chunk's results belong, on a rank that has them.
    fn target(&self) -> u64 {
        self.recv + (self.at * self.size()) as u64
    }

    /// Where the results are gathered.
    fn gathered(&self, scratch: u64) -> u64 {
        if self.is_aside() { self.results(scratch) } else { self.target() }
    }

    /// Copies what is sent, if it has to be.
    pub(super) fn stage(&self, stream: &CudaStream, scratch: u64) -> Result<()> {
        let peers = (0..self.ranks).filter(|peer| self.is_staged && *peer != self.rank);
        peers.map(|peer| (peer, self.of(peer).1)).filter(|(_, len)| *len > 0).try_for_each(
            |(peer, len)| {
                let (from, to) = (self.sent(peer), self.staged(scratch, peer));
                // SAFETY: the piece is in the operand, and the memory between has room for it; both
                // are used in stream order.
                unsafe { copy_from(stream, from, to, len * self.size()) }
            },
        )
    }

    /// Sends every rank its piece and receives the contributions to this rank's, in a group.
    pub(super) fn exchange(&self, on: (&Comm, &CudaStream), scratch: u64) -> Result<(), Failure> {
        for peer in (0..self.ranks).filter(|peer| *peer != self.rank) {
            let from = match self.is_staged {
                true => self.staged(scratch, peer),
                false => self.sent(peer),
            };
            let (sent, received) = (self.of(peer).1, self.of(self.rank).1);
            self.message(on, Half::SendTo, (from, sent), peer)?;
            self.message(on, Half::RecvFrom, (self.arrives(scratch, peer), received), peer)?;
        }
        Ok(())
    }

    /// Adds the contributions to this rank's piece.
    pub(super) fn add(&self, stream: &CudaStream, scratch: u64) -> Result<()> {
        let (start, count) = self.of(self.rank);
        if count == 0 {
            return Ok(());
        }
        let before = match self.root {
            // Another rank's results are a piece alone.
            Some(root) if self.is_aside() && root != self.rank => 0,
            _ => start * self.size(),
        };
        let addends = Addends {
            dtype: self.dtype,
            count,
            own: self.sent(self.rank),
            others: scratch,
            number: self.ranks - 1,
            stride: self.stride,
            by: self.by,
            to: self.gathered(scratch) + before as u64,
        };
        // SAFETY: the operands have these elements, and the memory between has this rank's piece of
        // every other rank; all of it is used in stream order. In place, the results replace this
        // rank's own contribution, after the others got theirs.
        unsafe { exact::enqueue(stream, &addends) }
    }

    /// Gathers the ranks' results, in a group.
    pub(super) fn gather(&self, on: (&Comm, &CudaStream), scratch: u64) -> Result<(), Failure> {
        if !self.is_gathered() {
            return Ok(());
        }
        let (at, (comm, stream)) = (self.gathered(scratch), on);
        let Some(root) = self.root else {
            let bytes = self.piece() * self.size();
            let own = address(at + (self.rank * bytes) as u64);
            let (to, kind) = (address(at), ncclDataType_t::ncclUint8);
            // SAFETY: all ranks' pieces fit there, and nothing else uses them until the stream has
            // passed the operation; communicator and stream are alive.
            let result = unsafe {
                (comm.nccl.all_gather)(own, to, bytes, kind, comm.handle, stream.handle())
            };
            return comm.done("ncclAllGather", self.call, result);
        };
        if root != self.rank {
            return self.message(on, Half::SendTo, (at, self.of(self.rank).1), root);
        }
        (0..self.ranks).filter(|peer| *peer != root).try_for_each(|peer| {
            let (start, len) = self.of(peer);
            let place = at + (start * self.size()) as u64;
            self.message(on, Half::RecvFrom, (place, len), peer)
        })
    }

    /// Copies gathered results to where they belong, if they are not there.
    pub(super) fn settle(&self, stream: &CudaStream, scratch: u64) -> Result<()> {
        if !self.is_aside() || self.root.is_some_and(|root| root != self.rank) {
            return Ok(());
        }
        let (from, to) = (self.results(scratch), self.target());
        // SAFETY: the results were gathered there, and the operand has room for them.
        unsafe { copy_from(stream, from, to, self.len * self.size()) }
    }

    /// Enqueues half of a message of this many elements.
    fn message(
        &self,
        (comm, stream): (&Comm, &CudaStream),
        half: Half,
        (place, len): (u64, usize),
        peer: usize,
    ) -> Result<(), Failure> {
        if len == 0 {
            return Ok(());
        }
        let bytes = (address(place), (len * self.size(), ncclDataType_t::ncclUint8));
        comm.message(stream, (half, self.call), bytes, peer as u32)
    }
}

fn address(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

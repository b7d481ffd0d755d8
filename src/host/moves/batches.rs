//! What a step reads of ranks on other machines: batches of chunks, each of which runs once its
//! bytes have come.

use std::ops::Range;

use super::super::far::{Address, Place};
use super::Moves;

/// How many bytes of other machines make a batch. A batch is used while it is in the cache.
const BYTES: usize = 1 << 20;

/// Chunks that run together.
#[derive(Default)]
pub(in crate::host) struct Batch {
    pub(in crate::host) chunks: Range<usize>,
    /// What they read of other machines.
    pub(in crate::host) reads: Vec<Read>,
}

/// Bytes of a rank on another machine, and where they are received.
pub(in crate::host) struct Read {
    pub(in crate::host) from: Place,
    pub(in crate::host) to: Address,
    pub(in crate::host) bytes: usize,
}

impl Moves {
    /// All chunks of a step.
    pub(in crate::host) fn batches(&self, step: usize) -> Vec<Batch> {
        let (mut batches, mut open) = (Vec::new(), Batch::default());
        for chunk in 0..self.chunks(step) {
            for touch in self.touches(step, chunk).iter().filter(|touch| !touch.write) {
                let Some(place) = touch.block.far() else { continue };
                let from = Place { offset: place.offset + touch.start as u64, ..place };
                let to = Address(touch.block.start().wrapping_add(touch.start));
                open.read(Read { from, to, bytes: touch.bytes });
            }
            open.chunks.end = chunk + 1;
            if open.reads.iter().map(|read| read.bytes).sum::<usize>() >= BYTES {
                let next = Batch { chunks: chunk + 1..chunk + 1, reads: Vec::new() };
                batches.push(std::mem::replace(&mut open, next));
            }
        }
        if !open.chunks.is_empty() {
            batches.push(open);
        }
        batches
    }
}

impl Batch {
    /// Adds bytes, or extends what they follow.
    fn read(&mut self, read: Read) {
        let is_before = |before: &&mut Read| {
            let end = before.from.offset + before.bytes as u64;
            before.from.link == read.from.link
                && before.from.rank == read.from.rank
                && end == read.from.offset
                && before.to.0.wrapping_add(before.bytes) == read.to.0
        };
        match self.reads.iter_mut().find(is_before) {
            Some(before) => before.bytes += read.bytes,
            None => self.reads.push(read),
        }
    }
}

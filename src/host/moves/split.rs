//! A collective whose ranks are in several processes: what this process moves of it.
//!
//! A process writes only the memory of its own ranks, so one that was stopped and continues later
//! cannot overwrite what the others have used since.

use std::ops::Range;

use super::blocks::plain;
use super::collective::Collective;
use super::{Held, past};

/// How many elements of a reduction make a share worthwhile.
const SHARE: usize = 256;

/// This process's part of a collective.
pub(super) struct Split {
    /// By rank, whether it is in this process.
    pub(super) own: Vec<bool>,
    /// A reduction that every rank receives takes two steps: each rank reduces its share, then
    /// each copies the others' shares.
    pub(super) shares: bool,
    /// Where ranks receive whose share is in other memory, as no other process can read theirs.
    private: Vec<Option<Box<Held>>>,
    /// The chunks that this process moves in each step.
    pub(super) chunks: [Vec<usize>; 2],
}

impl Split {
    /// The length of a chunk, so that every rank has a share.
    pub(super) fn chunk_len(&self, count: usize, most: usize) -> usize {
        count.div_ceil(self.own.len()).clamp(SHARE.min(most), most)
    }
}

impl Collective {
    /// Restricts it to what this process's ranks receive, in one step or, if each rank can reduce
    /// a share, in two. `private` is where ranks receive whose part has other memory instead.
    pub(super) fn split(&mut self, own: Vec<bool>, shares: bool, private: Vec<Option<Box<Held>>>) {
        let shares = shares && self.is_reduced_for_all();
        self.split = Some(Split { own, shares, private, chunks: Default::default() });
        let chunks = [0, 1].map(|step| self.chunks_here(step));
        if let Some(split) = &mut self.split {
            split.chunks = chunks;
        }
    }

    /// How many steps it takes. Every rank waits for the others after each.
    pub(super) fn steps(&self) -> usize {
        1 + usize::from(self.split.as_ref().is_some_and(|split| split.shares))
    }

    fn chunks_here(&self, step: usize) -> Vec<usize> {
        let Some(split) = &self.split else { return Vec::new() };
        let is_here = |chunk: &usize| match (split.shares, step) {
            (true, 0) => split.own[self.owner(*chunk)],
            (true, _) => self.sharers(self.owner(*chunk)).next().is_some(),
            (false, 0) => {
                let (block, _) = self.part(*chunk);
                self.receivers(&self.flow(block)).next().is_some()
            }
            (false, _) => false,
        };
        (0..self.all_chunks()).filter(is_here).collect()
    }

    /// The rank that reduces a chunk.
    pub(super) fn owner(&self, chunk: usize) -> usize {
        chunk * self.parts.len() / self.all_chunks()
    }

    /// Where this process copies a share of `owner`.
    pub(super) fn sharers(&self, owner: usize) -> impl Iterator<Item = &Held> {
        let own = self.split.iter().flat_map(|split| split.own.iter().zip(&split.private));
        own.enumerate().filter_map(move |(rank, (own, private))| match private {
            _ if !own => None,
            Some(private) => Some(&**private),
            None => self.parts[rank].recv.as_ref().filter(|_| rank != owner),
        })
    }

    /// Copies elements that a rank has reduced to the ranks of this process.
    ///
    /// # Safety
    /// As [`Collective::run`], after every rank has completed the first step.
    pub(super) unsafe fn copy_share(&self, rank: usize, range: Range<usize>) {
        let Some(from) = &self.parts[rank].recv else { return };
        let size = self.dtype.size();
        let (start, bytes) = (range.start * size, range.len() * size);
        // SAFETY: what a rank receives has all elements.
        let source = unsafe { from.at(start) };
        let copy = if self.is_large { past::copy } else { plain };
        for to in self.sharers(rank) {
            // SAFETY: as above.
            let target = unsafe { to.at(start) };
            // SAFETY: different ranks' memory; the source was written in the first step, and only
            // this thread writes this chunk of the target.
            unsafe { copy(source, target, bytes) };
        }
        if self.is_large {
            past::fence();
        }
    }
}

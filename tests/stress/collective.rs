//! The elements that a collective reads and writes, and its results.

use std::ops::Range;

use super::step::{InPlace, Kind};

impl Kind {
    /// How many elements each rank sends.
    pub(crate) fn sends(self, len: usize, ranks: usize) -> usize {
        match self {
            Self::ReduceScatter | Self::AllToAll | Self::Scatter(_) => ranks * len,
            _ => len,
        }
    }

    /// How many elements a receiving rank receives.
    pub(crate) fn receives(self, len: usize, ranks: usize) -> usize {
        match self {
            Self::AllGather | Self::AllToAll | Self::Gather(_) => ranks * len,
            _ => len,
        }
    }

    fn is_received_by(self, rank: usize) -> bool {
        match self {
            Self::Reduce(root) | Self::Gather(root) => rank == root,
            _ => true,
        }
    }

    /// What `rank` receives, given what the ranks send.
    pub(crate) fn received(self, sent: &[Vec<u32>], len: usize, rank: usize) -> Option<Vec<u32>> {
        let block = |of: usize| move |sent: &Vec<u32>| sent[of * len..(of + 1) * len].to_vec();
        self.is_received_by(rank).then(|| match self {
            Self::Sum | Self::Reduce(_) => fold(sent, u32::wrapping_add),
            Self::Max => fold(sent, u32::max),
            Self::AllGather | Self::Gather(_) => sent.concat(),
            Self::ReduceScatter => {
                fold(&sent.iter().map(block(rank)).collect::<Vec<_>>(), u32::wrapping_add)
            }
            Self::AllToAll => sent.iter().flat_map(block(rank)).collect(),
            Self::Broadcast(root) => sent[root].clone(),
            Self::Scatter(root) => block(rank)(&sent[root]),
        })
    }
}

fn fold(all: &[Vec<u32>], op: fn(u32, u32) -> u32) -> Vec<u32> {
    let mut all = all.iter().cloned();
    let first = all.next().unwrap_or_default();
    all.fold(first, |sum, next| sum.into_iter().zip(next).map(|(a, b)| op(a, b)).collect())
}

impl InPlace {
    /// How many elements the operand has on a rank.
    pub(crate) fn extent(&self, rank: usize, ranks: usize) -> usize {
        match self.kind {
            Kind::AllGather | Kind::ReduceScatter => ranks * self.len,
            Kind::Gather(root) | Kind::Scatter(root) if rank == root => ranks * self.len,
            _ => self.len,
        }
    }

    /// The range that a rank sends.
    pub(crate) fn sent(&self, rank: usize, ranks: usize) -> Range<usize> {
        match self.kind {
            Kind::AllGather => self.block(rank),
            Kind::Gather(root) if rank == root => self.block(rank),
            Kind::Scatter(root) if rank != root => self.at.start..self.at.start,
            _ => self.at.start..self.at.start + self.extent(rank, ranks),
        }
    }

    /// The range that a receiving rank writes.
    pub(crate) fn written(&self, rank: usize, ranks: usize) -> Range<usize> {
        match self.kind {
            Kind::ReduceScatter => self.block(rank),
            Kind::Scatter(root) if rank == root => self.block(rank),
            _ => self.at.start..self.at.start + self.extent(rank, ranks),
        }
    }

    fn block(&self, rank: usize) -> Range<usize> {
        let start = self.at.start + rank * self.len;
        start..start + self.len
    }
}

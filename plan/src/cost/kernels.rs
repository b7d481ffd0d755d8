//! The times of this library's own kernels, and the choice of algorithm: the only place with these
//! numbers.
//!
//! A kernel writes to the other GPUs' memory and waits for their writes, without NCCL. With n ranks
//! and S bytes per rank, this many bytes leave a GPU:
//!
//! | way | bytes | operations |
//! |---|---|---|
//! | a flag beside each word | 2 (n - 1) S | any number |
//! | a flag for each block of words | (n - 1) S | one |
//! | two shots, a flag beside each word | 4 (n - 1) / n S | one |
//! | messages, a flag beside each word | 2 S | any number |
//!
//! Measured on two H200s, consecutive launches of f32 sums (docs/measurements.md): words 3.4 us for
//! 1 KiB, 4.0 for 64 KiB, 5.3 to 5.9 for 256 KiB, 14.3 for 1 MiB; 64 of 1 KiB 4.3; blocks 4.7, 5.1,
//! 5.9, 8.7, and 21.4 us for 4 MiB; two shots 4.1 for 4 KiB, 4.8, 5.9, 13.7. Times for more ranks
//! are not measured but derived from the bytes that leave a GPU. So are those of messages, S bytes
//! in total, which are sent like words.

use super::topology::Link;
use crate::ir::CollectiveKind;

/// Times of an all_reduce kernel for each algorithm: `alpha` includes the launch, `beta` is per
/// byte that leaves a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTimes {
    /// A flag beside each word.
    pub words: Link,
    /// A flag for each block of words.
    pub blocks: Link,
    /// Two shots.
    pub two_shots: Link,
    /// Seconds that each operation adds.
    pub member: f64,
}

/// The algorithm of a reducing kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllReduceBy {
    /// Every rank sends everything to every other, with a flag beside each word.
    Words,
    /// The same with a flag for each block of words. One operation.
    Blocks,
    /// Each rank reduces a part, then sends it to all. One operation.
    TwoShots,
}

/// The most bytes that were measured, to all others together, for words and for the other
/// algorithms. Kernels take no more, whatever the model says.
const MOST: [f64; 2] = [(1 << 20) as f64, (4 << 20) as f64];

/// The most bytes of a rank's messages.
const MOST_OF_MESSAGES: f64 = (512 << 10) as f64;

impl KernelTimes {
    /// Nothing takes any time.
    pub(super) const FREE: Self = {
        let link = Link { alpha: 0.0, beta: 0.0 };
        Self { words: link, blocks: link, two_shots: link, member: 0.0 }
    };

    /// Lines through the measurements on two H200s.
    pub(super) const H200: Self = Self {
        words: Link { alpha: 3.5e-6, beta: 1.0 / 208.0e9 },
        blocks: Link { alpha: 4.9e-6, beta: 1.0 / 270.0e9 },
        two_shots: Link { alpha: 4.5e-6, beta: 1.0 / 208.0e9 },
        member: 0.005e-6,
    };

    /// The best algorithm for this many operations in one launch with this many bytes in total, and
    /// its seconds; `None` for more than was measured.
    pub fn all_reduce(
        &self,
        ranks: usize,
        operations: usize,
        bytes: f64,
    ) -> Option<(AllReduceBy, f64)> {
        let (ranks, others) = (ranks as f64, ranks.saturating_sub(1) as f64);
        let [most_words, most] = MOST;
        let ways = [
            (AllReduceBy::Words, self.words, 2.0 * others, most_words, true),
            (AllReduceBy::Blocks, self.blocks, others, most, operations == 1),
            (AllReduceBy::TwoShots, self.two_shots, 4.0 * others / ranks, most, operations == 1),
        ];
        let ways = ways.into_iter().filter(|(.., most, fits)| *fits && others * bytes <= *most);
        let takes = |(by, link, factor, ..): (_, Link, f64, f64, bool)| {
            (by, link.alpha + link.beta * factor * bytes + self.member * operations as f64)
        };
        ways.map(takes).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Seconds of a launch of this many messages of a rank with this many bytes in total; `None`
    /// for more than kernels take.
    pub fn messages(&self, messages: usize, bytes: f64) -> Option<f64> {
        let Link { alpha, beta } = self.words;
        let seconds = alpha + beta * 2.0 * bytes + self.member * messages as f64;
        (bytes <= MOST_OF_MESSAGES).then_some(seconds)
    }

    /// Seconds of a launch of this many collectives; `None` if they are not all_reduces or
    /// all_to_alls, or have more bytes than kernels take.
    pub(crate) fn collectives(
        &self,
        kind: &CollectiveKind<u32>,
        ranks: usize,
        many: usize,
        bytes: f64,
    ) -> Option<f64> {
        match kind {
            CollectiveKind::AllReduce(_) => {
                self.all_reduce(ranks, many, bytes).map(|(_, seconds)| seconds)
            }
            CollectiveKind::AllToAll => self.messages(many * ranks, bytes),
            _ => None,
        }
    }
}

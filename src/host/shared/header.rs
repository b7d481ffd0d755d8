//! What an arena's first pages hold.
//!
//! Every process that maps the arena can write all of it, so its owner keeps what it relies on
//! elsewhere and checks what it reads here.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Says that it is an arena, and of which layout.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"tNCCL\0\0\x02");

/// How many processes may read one log.
pub(super) const READERS: usize = 4096;

/// The ring's size in words of eight bytes.
pub(super) const RING: u64 = 1 << 17;

/// A cursor of a reader that reads no more, or that the owner waits for no longer.
pub(super) const LEFT: u64 = u64::MAX;

/// A cursor of a reader that was admitted and has not begun to read.
pub(super) const PENDING: u64 = LEFT - 1;

#[repr(C, align(4096))]
pub(super) struct Header {
    pub(super) magic: AtomicU64,
    pub(super) id: AtomicU64,
    pub(super) bell: Bell,
    /// Where the log ends: words that were ever written.
    pub(super) head: Line<AtomicU64>,
    /// How far each reader is.
    pub(super) cursors: [Line<AtomicU64>; READERS],
    ring: [AtomicU64; RING as usize],
}

/// Changes whenever there is news for the arena's owner.
#[repr(C, align(128))]
pub(super) struct Bell {
    pub(super) word: AtomicU32,
    pub(super) sleepers: AtomicU32,
    /// Threads that look for news, so that nobody needs to be woken.
    pub(super) pollers: AtomicU32,
}

/// Keeps what different processes write apart in their caches.
#[repr(C, align(128))]
pub(super) struct Line<T>(pub(super) T);

impl Header {
    /// The word of the ring at a position of the log.
    pub(super) fn word(&self, position: u64) -> &AtomicU64 {
        &self.ring[(position % RING) as usize]
    }

    /// The `count` words from a position of the log on, at most a ring: up to the ring's end, and
    /// from its start on.
    pub(super) fn words(&self, position: u64, count: usize) -> [&[AtomicU64]; 2] {
        let (before, after) = self.ring.split_at((position % RING) as usize);
        let first = count.min(after.len());
        [&after[..first], &before[..(count - first).min(before.len())]]
    }

    pub(super) fn is_of(&self, id: u64) -> bool {
        let magic = self.magic.load(Ordering::Relaxed);
        magic == MAGIC && self.id.load(Ordering::Relaxed) == id
    }
}

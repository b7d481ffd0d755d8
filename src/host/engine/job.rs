//! Jobs: the data movement of one complete collective, in chunks.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::moves::{Entry, Moves};

/// Jobs that touch fewer bytes run on the thread that completes them.
const SMALL: usize = 256 * 1024;

pub(super) struct Job {
    pub(super) comm: usize,
    pub(super) seq: u64,
    moves: Moves,
    chunks: usize,
    next: AtomicUsize,
    left: AtomicUsize,
}

impl Job {
    pub(super) fn new(comm: usize, seq: u64, parts: Vec<Box<Entry>>) -> Self {
        let moves = Moves::new(parts);
        let chunks = moves.chunks();
        Self { comm, seq, moves, chunks, next: AtomicUsize::new(0), left: AtomicUsize::new(chunks) }
    }

    pub(super) fn is_small(&self) -> bool {
        self.chunks <= 1 || self.moves.bytes() <= SMALL
    }

    /// Whether every chunk has a thread.
    pub(super) fn is_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.chunks
    }

    /// Takes chunks until there are none; true on the thread that completes the last one.
    pub(super) fn run_some(&self) -> bool {
        let mut last = false;
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.chunks {
                return last;
            }
            // SAFETY: the counter gives each chunk to one thread, and the round keeps every rank's
            // stream at this operation until all chunks are done.
            unsafe { self.moves.run(chunk) };
            // Release hands this thread's writes to whoever counts down to zero; acquire takes them.
            last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        }
    }

    /// Runs all of it; nobody else has it.
    pub(super) fn run_all(&self) {
        self.run_some();
    }
}

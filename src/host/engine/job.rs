//! Jobs: the data movement of one operation whose ranks are all there, in chunks.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::comm::Place;
use super::state::State;
use crate::backend::Slot;
use crate::host::moves::Moves;

/// Jobs that touch fewer bytes run on the thread that makes them ready.
const SMALL: usize = 256 * 1024;

pub(super) struct Job {
    pub(super) done: Done,
    moves: Moves,
    chunks: usize,
    next: AtomicUsize,
    left: AtomicUsize,
}

/// What is over when a job is.
#[derive(Clone, Copy)]
pub(super) enum Done {
    Round { place: Place, index: u64 },
    Transfer { place: Place, from: usize, to: usize, index: u64 },
    Put { from: Place, to: usize, slot: Slot },
}

impl Job {
    pub(super) fn new(done: Done, moves: Moves) -> Self {
        let chunks = moves.chunks();
        let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(chunks));
        Self { done, moves, chunks, next, left }
    }

    /// How many of the first jobs are small: one, or several that are small together.
    pub(super) fn count_small(jobs: &[Self]) -> usize {
        let mut bytes = 0;
        let together = jobs.iter().take_while(|job| {
            bytes += job.moves.bytes();
            bytes <= SMALL
        });
        let one = jobs.first().is_some_and(|job| job.chunks <= 1);
        together.count().max(usize::from(one))
    }

    /// Whether every chunk has a thread.
    pub(super) fn is_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.chunks
    }

    /// Takes chunks until there are none; true on the thread that completes the last one.
    pub(super) fn run(&self) -> bool {
        let mut last = self.chunks == 0;
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.chunks {
                return last;
            }
            // SAFETY: the counter gives each chunk to one thread, and the operation's ranks stay at
            // it until all chunks are done.
            unsafe { self.moves.run(chunk) };
            // Release hands this thread's writes to whoever counts down to zero; acquire takes them.
            last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        }
    }
}

impl State {
    /// A job's data has moved.
    pub(super) fn job_over(&mut self, done: Done) {
        match done {
            Done::Round { place, index } => self.round_over(place, index),
            Done::Transfer { place, from, to, index } => {
                self.transfer_over(place, from, to, index);
            }
            Done::Put { from, to, slot } => {
                self.raise(from, to, slot, None);
                self.op_over(from);
            }
        }
    }
}

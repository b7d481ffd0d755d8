//! Jobs: the data movement of one operation whose ranks are all there, in chunks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::comm::Place;
use super::meeting::Which;
use super::state::State;
use crate::backend::Slot;
use crate::error::Site;
use crate::host::moves::Moves;

/// Jobs that touch fewer bytes run on the thread that makes them ready.
const SMALL: usize = 256 * 1024;

pub(super) struct Job {
    pub(super) done: Done,
    moves: Moves,
    chunks: usize,
    next: AtomicUsize,
    left: AtomicUsize,
    /// A chunk of it was parked.
    parked: AtomicBool,
}

/// A chunk that a closure is in the way of.
pub(in crate::host) struct Parked {
    pub(super) job: Arc<Job>,
    chunk: usize,
}

/// What is over when a job is.
#[derive(Clone, Copy)]
pub(super) enum Done {
    Met { place: Place, which: Which, index: u64 },
    Put { from: Place, to: usize, slot: Slot, site: Site },
}

impl Job {
    pub(super) fn new(done: Done, moves: Moves) -> Self {
        let chunks = moves.chunks();
        let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(chunks));
        Self { done, moves, chunks, next, left, parked: AtomicBool::new(false) }
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

    /// Runs all chunks on this thread, which alone has the job; the first that a closure is in the way
    /// of comes back.
    pub(super) fn run_here(&self) -> Result<(), usize> {
        while let Some(chunk) = self.take() {
            self.try_run(chunk).ok_or(chunk)?;
        }
        Ok(())
    }

    /// Takes chunks until there are none; true on the thread that completes the last one.
    pub(super) fn run(self: &Arc<Self>) -> bool {
        let mut last = self.chunks == 0;
        while let Some(chunk) = self.take() {
            last = Parked { job: self.clone(), chunk }.run();
        }
        last
    }

    fn take(&self) -> Option<usize> {
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.chunks).then_some(chunk)
    }

    /// Runs a chunk that was taken, and says whether it was the last one to be; none if a closure is
    /// in the way.
    fn try_run(&self, chunk: usize) -> Option<bool> {
        // SAFETY: the counter gives each chunk to one thread, which runs it, or hands it on as it is;
        // and the operation's ranks stay at it until all chunks are done.
        unsafe { self.moves.run(chunk) }.ok()?;
        // Release hands this thread's writes to whoever counts down to zero; acquire takes them.
        Some(self.left.fetch_sub(1, Ordering::AcqRel) == 1)
    }
}

impl Parked {
    pub(super) fn new(job: Arc<Job>, chunk: usize) -> Self {
        Self { job, chunk }
    }

    /// Runs it, or parks it with the memory that a closure holds; true if it was its job's last.
    pub(super) fn run(self) -> bool {
        let mut next = self;
        loop {
            if let Some(last) = next.job.try_run(next.chunk) {
                return last;
            }
            let (job, chunk) = (next.job.clone(), next.chunk);
            match job.moves.park(chunk, next) {
                Some(back) => next = back,
                None => return false,
            }
        }
    }

    /// Whether it is the first of its job to be parked: what it met is told once.
    pub(in crate::host) fn is_first(&self) -> bool {
        !self.job.parked.swap(true, Ordering::Relaxed)
    }
}

impl fmt::Debug for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {} of {}", self.chunk, self.job.chunks)
    }
}

impl State {
    /// A job's data has moved.
    pub(super) fn job_over(&mut self, done: Done) {
        match done {
            Done::Met { place, which, index } => self.meeting_over(place, which, index),
            Done::Put { from, to, slot, site } => {
                self.raise(from, to, slot, Ok(site));
                self.op_over(from);
            }
        }
    }
}

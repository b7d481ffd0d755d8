//! Jobs: in chunks, the data movement of one operation that all ranks have reached, or of one task
//! of a stream.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Here;
use super::comm::MemberId;
use super::meeting::MeetingId;
use super::remote::Event;
use super::state::{Out, State};
use crate::backend::Slot;
use crate::error::Site;
use crate::host::moves::Moves;

/// Jobs that touch fewer bytes run on the thread that makes them ready.
const SMALL: usize = 256 * 1024;

pub(super) struct Job {
    pub(super) done: Done,
    moves: Moved,
    step: usize,
    /// Where its chunks end.
    chunks: usize,
    is_empty: bool,
    next: AtomicUsize,
    left: AtomicUsize,
    /// Whether a chunk of it was parked.
    parked: AtomicBool,
}

/// What a job moves.
#[expect(
    clippy::large_enum_variant,
    reason = "most operations take one step, without an allocation"
)]
enum Moved {
    Once(Moves),
    InSteps(Arc<Moves>),
}

impl Deref for Moved {
    type Target = Moves;

    fn deref(&self) -> &Moves {
        match self {
            Self::Once(moves) => moves,
            Self::InSteps(moves) => moves,
        }
    }
}

/// A chunk blocked by a closure.
pub(in crate::host) struct Parked {
    pub(super) job: Arc<Job>,
    chunk: usize,
}

/// What a completed job completes.
#[derive(Clone, Copy)]
pub(super) enum Done {
    Met(MeetingId),
    /// A stream's current task.
    Task(usize),
    Put {
        from: MemberId,
        to: usize,
        slot: Slot,
        site: Site,
    },
    /// A put of a rank on another machine, into a window of rank `own`.
    FarPut {
        own: MemberId,
        from: usize,
        number: u64,
    },
}

impl Job {
    pub(super) fn new(done: Done, moves: Moves) -> Self {
        let chunks = 0..moves.chunks(0);
        Self::of(done, Moved::Once(moves), 0, chunks)
    }

    /// Chunks of one step of moves whose ranks are in several processes.
    pub(super) fn step(done: Done, moves: Arc<Moves>, step: usize, chunks: Range<usize>) -> Self {
        Self::of(done, Moved::InSteps(moves), step, chunks)
    }

    fn of(done: Done, moves: Moved, step: usize, chunks: Range<usize>) -> Self {
        let (next, left) = (AtomicUsize::new(chunks.start), AtomicUsize::new(chunks.len()));
        let (is_empty, chunks) = (chunks.is_empty(), chunks.end);
        Self { done, moves, step, chunks, is_empty, next, left, parked: AtomicBool::new(false) }
    }

    /// How many leading jobs are small: one, or several that together are small.
    pub(super) fn count_small(jobs: &[Self]) -> usize {
        let mut bytes = 0;
        let together = jobs.iter().take_while(|job| {
            bytes += job.moves.bytes();
            bytes <= SMALL
        });
        let one = jobs.first().is_some_and(|job| job.chunks <= 1);
        together.count().max(usize::from(one))
    }

    /// Which jobs a worker does next that completes this one. Before it looks, it drops the job.
    pub(super) fn then(&self, here: Here) -> Here {
        if self.moves.may_run_owners() { Here::Nothing } else { here }
    }

    /// How many chunks no thread has taken yet.
    pub(super) fn untaken(&self) -> usize {
        self.chunks.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Runs all chunks on this thread, the only one with the job. Returns the first chunk that a
    /// closure blocks.
    pub(super) fn run_here(&self) -> Result<(), usize> {
        while let Some(chunk) = self.take() {
            self.try_run(chunk).ok_or(chunk)?;
        }
        Ok(())
    }

    /// Runs chunks until none are left; returns true on the thread that completes the last one.
    pub(super) fn run(self: &Arc<Self>) -> bool {
        let mut last = self.is_empty;
        while let Some(chunk) = self.take() {
            last = Parked { job: self.clone(), chunk }.run();
        }
        last
    }

    fn take(&self) -> Option<usize> {
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.chunks).then_some(chunk)
    }

    /// Runs a chunk, and returns whether it completed the job; `None` if a closure blocks it.
    fn try_run(&self, chunk: usize) -> Option<bool> {
        // SAFETY: the counter gives each chunk to one thread, which runs it or passes it on unrun.
        // The operation's ranks, or the stream, do not proceed until all chunks are done.
        unsafe { self.moves.run(self.step, chunk) }.ok()?;
        // Release publishes this thread's writes to the thread that reaches zero, and acquire
        // receives them.
        Some(self.left.fetch_sub(1, Ordering::AcqRel) == 1)
    }
}

impl Parked {
    pub(super) fn new(job: Arc<Job>, chunk: usize) -> Self {
        Self { job, chunk }
    }

    /// Runs it, or parks it at the memory that a closure holds; returns true if it completed its
    /// job.
    pub(super) fn run(self) -> bool {
        let mut next = self;
        loop {
            if let Some(last) = next.job.try_run(next.chunk) {
                return last;
            }
            let (job, chunk) = (next.job.clone(), next.chunk);
            match job.moves.park(job.step, chunk, next) {
                Some(back) => next = back,
                None => return false,
            }
        }
    }

    /// Whether it is the first parked chunk of its job: a conflict is reported once.
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
    /// Records that a job's data has moved.
    pub(super) fn job_over(&mut self, done: Done, out: &mut Out) {
        match done {
            Done::Met(id) => {
                match self.seen_comm(id.place).is_none_or(|comm| comm.remote.is_none()) {
                    true => self.meeting_over(id),
                    false => self.copied(id, out),
                }
            }
            Done::Task(stream) => self.task_over(stream, out),
            Done::Put { from, to, slot, site } => {
                self.say(from, &Event::Put);
                self.raise(from, to, slot, Ok(site));
                self.op_over(from);
            }
            Done::FarPut { own, from, number } => self.tell_written(own, from, number),
        }
    }
}

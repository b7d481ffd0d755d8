//! The state that the engine's lock guards, and the work to do after releasing it.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::Thread;

use slab::Slab;

use super::active_group::{Booked, HostOp};
use super::comm::{CommState, MemberId};
use super::job::{Job, Parked};
use super::spin::RankThreads;
use super::stream::{Closure, Progress, StreamState};
use super::wait::{Looked, Wait};
use super::window::Window;
use crate::communicator::Health;
use crate::error::Site;
use crate::host::moves::{Held, Moves};

/// Streams, communicators, and work that is ready.
#[derive(Default)]
pub(super) struct State {
    pub(super) streams: Slab<StreamState>,
    pub(super) comms: Slab<CommState>,
    /// Communicators by the id that their ranks share.
    pub(super) by_id: HashMap<u64, usize>,
    pub(super) ready: VecDeque<Work>,
    pub(super) workers: usize,
    /// How many workers are idle.
    pub(super) idle_workers: usize,
    /// How many workers are inside a closure.
    pub(super) in_closures: usize,
    /// Threads that wait for streams and for other ranks.
    pub(super) waits: Slab<Wait>,
    /// When the last search for endless waits was made.
    pub(super) looked: Looked,
    /// The threads that have ranks.
    pub(super) rank_threads: RankThreads,
    /// Steps to process before the lock is released.
    pub(super) todo: Vec<Step>,
    /// Empty lists of operations, for reuse.
    pub(super) spare: Vec<Vec<HostOp>>,
}

/// Something that may be able to proceed.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// A stream, with its next task.
    Stream(usize),
    /// A rank, with its current group.
    Member(MemberId),
}

/// Work for any thread (`Move`, `Resume`) or for a worker (`Run`).
pub(super) enum Work {
    Move(Arc<Job>),
    Resume(Parked),
    Run { stream: Arc<Progress>, work: Closure, site: Site },
}

/// Work found under the lock and done after releasing it, so that no user code, wake-up, other lock
/// or drop of memory happens under ours.
#[derive(Default)]
pub(super) struct Out {
    pub(super) jobs: Vec<Job>,
    pub(super) closures: Vec<Work>,
    pub(super) unpark: Vec<Thread>,
    pub(super) poisoned: Vec<Arc<Health>>,
    pub(super) void: Vec<Void>,
}

/// Values to drop after releasing the lock.
#[expect(dead_code, reason = "kept to be dropped")]
pub(super) enum Void {
    Job(Job),
    Moves(Arc<Moves>),
    Op(Booked),
    Held(Held),
    Comm(Box<CommState>),
    Window(Window),
}

thread_local! {
    static OUTS: RefCell<Vec<Out>> = const { RefCell::new(Vec::new()) };
}

impl Out {
    /// An empty one, with its lists' memory.
    pub(super) fn take() -> Self {
        // A communicator in a thread-local may be dropped after this thread-local is gone.
        OUTS.try_with(|outs| outs.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    /// Wakes the waiting threads, and drops what is over.
    pub(super) fn tell(&mut self) {
        for thread in self.unpark.drain(..) {
            thread.unpark();
        }
        for health in self.poisoned.drain(..) {
            health.tell_others();
        }
        self.void.clear();
    }

    /// Keeps the lists' memory for reuse.
    pub(super) fn keep(self) {
        let _ = OUTS.try_with(|outs| outs.borrow_mut().push(self));
    }

    /// How many leading jobs are small.
    pub(super) fn small_jobs(&self) -> usize {
        Job::count_small(&self.jobs)
    }
}

impl State {
    /// Processes `todo`: starts what can start, ends what is over.
    pub(super) fn settle(&mut self, out: &mut Out) {
        while let Some(step) = self.todo.pop() {
            match step {
                Step::Stream(key) => while self.start_next(key, out) {},
                Step::Member(place) => self.advance_group(place, out),
            }
        }
    }

    /// Work for a waiting thread: data movement only, as closures may take arbitrarily long.
    pub(super) fn help(&mut self) -> Option<Work> {
        self.take(|work| matches!(work, Work::Move(_) | Work::Resume(_)))
    }

    /// How many threads the ready work could use; no more than `most` are counted.
    pub(super) fn pieces(&self, most: usize) -> usize {
        let pieces = |work: &Work| match work {
            Work::Move(job) => job.untaken().max(1),
            Work::Resume(_) | Work::Run { .. } => 1,
        };
        let mut sum = 0;
        self.ready.iter().find(|work| {
            sum += pieces(work);
            sum >= most
        });
        sum.min(most)
    }

    /// Work for a worker.
    pub(super) fn any_work(&mut self) -> Option<Work> {
        self.take(|_| true)
    }

    /// Takes a closure, or joins a job, which stays for others as long as it has chunks for them.
    fn take(&mut self, may: impl Fn(&Work) -> bool) -> Option<Work> {
        let index = self.ready.iter().position(may)?;
        match &self.ready[index] {
            Work::Move(job) if job.untaken() > 1 => Some(Work::Move(job.clone())),
            Work::Move(_) | Work::Resume(_) => self.ready.remove(index),
            Work::Run { .. } => {
                self.in_closures += 1;
                self.ready.remove(index)
            }
        }
    }
}

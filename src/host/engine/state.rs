//! What the engine's lock guards, and what is done after it is let go.

use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::Arc;
use std::thread::Thread;

use slab::Slab;

use super::comm::CommState;
use super::job::Job;
use super::stream::{Closure, Point, Progress, StreamState};
use crate::communicator::Health;

/// Streams, communicators, and work that is ready.
#[derive(Default)]
pub(super) struct State {
    pub(super) streams: Slab<StreamState>,
    pub(super) comms: Slab<CommState>,
    /// Communicators by the id that their ranks share.
    pub(super) by_id: HashMap<u64, usize>,
    pub(super) ready: VecDeque<Work>,
    pub(super) workers: usize,
}

/// Work for any thread (`Move`) or for a worker (`Run`).
pub(super) enum Work {
    Move(Arc<Job>),
    Run { stream: Arc<Progress>, work: Closure, site: &'static Location<'static> },
}

/// What became due under the lock and is done after it: no user code, no wake-up and no other lock
/// under ours.
#[derive(Default)]
pub(super) struct Out {
    pub(super) jobs: Vec<Job>,
    pub(super) closures: Vec<Work>,
    pub(super) unpark: Vec<Thread>,
    pub(super) poisoned: Vec<Arc<Health>>,
    /// Dropped after the lock.
    pub(super) void: Vec<Box<super::Entry>>,
}

impl Out {
    /// Tells those who wait.
    pub(super) fn tell(&mut self) {
        for thread in self.unpark.drain(..) {
            thread.unpark();
        }
        for health in self.poisoned.drain(..) {
            health.tell_others();
        }
        self.void.clear();
    }
}

impl State {
    /// Work that a thread waiting for `point` may do: data of anyone, closures of its own stream.
    pub(super) fn help(&mut self, point: &Point) -> Option<Work> {
        self.take(|work| match work {
            Work::Move(_) => true,
            Work::Run { stream, .. } => Arc::ptr_eq(stream, point.stream()),
        })
    }

    /// Work that a worker may do.
    pub(super) fn any_work(&mut self) -> Option<Work> {
        self.take(|_| true)
    }

    /// Takes a closure, or joins a job, which stays for others until every chunk has a thread.
    fn take(&mut self, may: impl Fn(&Work) -> bool) -> Option<Work> {
        self.ready.retain(|work| !matches!(work, Work::Move(job) if job.is_taken()));
        let index = self.ready.iter().position(may)?;
        match &self.ready[index] {
            Work::Move(job) => Some(Work::Move(job.clone())),
            Work::Run { .. } => self.ready.remove(index),
        }
    }
}

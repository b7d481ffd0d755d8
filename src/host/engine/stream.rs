//! Streams: queues of tasks that run in order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use super::ENGINE;
use super::active_group::{ActiveGroup, HostOp};
use super::barrier::{At, Brings};
use super::comm::MemberId;
use super::job::{Done, Job};
use super::state::{Out, State, Step, Void, Work};
use crate::communicator::Health;
use crate::error::{Error, Site};
use crate::host::hazards::{self, StreamOrder};
use crate::host::moves::{Local, Moves};
use crate::lock::{Mutex, MutexGuard};

/// User compute, boxed.
pub(super) type Closure = Box<dyn FnOnce() + Send>;

/// The owner's handle of a stream. After the last clone is dropped, the stream completes its tasks
/// and is removed.
#[derive(Debug)]
pub struct StreamToken {
    pub(super) progress: Arc<Progress>,
}

impl StreamToken {
    /// How many of its tasks are not over.
    pub(super) fn ahead(&self) -> u64 {
        let Progress { issued, done, .. } = &*self.progress;
        issued.load(Ordering::Relaxed).saturating_sub(done.load(Ordering::Relaxed))
    }
}

impl Drop for StreamToken {
    fn drop(&mut self) {
        // The last clone may be dropped with a buffer that an operation held, possibly under the
        // engine's lock. So the stream is only noted here, and removed when the engine next
        // settles.
        ENGINE.closed(self.progress.key);
    }
}

/// A stream's progress, readable without the lock.
#[derive(Debug)]
pub(in crate::host) struct Progress {
    pub(super) key: usize,
    issued: AtomicU64,
    done: AtomicU64,
    /// Errors of closures, by task.
    errors: Mutex<VecDeque<(u64, Arc<Left>)>>,
    /// Work left undone by communicators that ended.
    voided: Mutex<VecDeque<Voided>>,
    /// What its tasks come after, if that is checked.
    order: Option<Box<StreamOrder>>,
}

/// Groups of a communicator that ended before their data had moved.
#[derive(Clone, Debug)]
struct Voided {
    health: Arc<Health>,
    error: Error,
    /// The first void task.
    first: u64,
    /// The last task enqueued when a task became void.
    last: u64,
}

/// A closure's error. Every stream that waits for the closure gets it, and the first host wait that
/// finds it reports it.
#[derive(Debug)]
struct Left {
    error: Error,
    told: AtomicBool,
    /// The time from which on the program may know of it: that of the first host wait behind it. 0
    /// for none.
    known: AtomicU64,
}

/// Counts the host waits that found errors of closures: a time for comparison with groups'.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// The time at which a group is enqueued.
pub(super) fn now() -> u64 {
    CLOCK.load(Ordering::Relaxed)
}

/// How many errors a stream keeps, and for how many ended communicators.
const KEPT: usize = 16;

impl Progress {
    /// What its tasks come after, if that is checked.
    pub(in crate::host) fn order(&self) -> Option<&StreamOrder> {
        self.order.as_deref()
    }

    /// Records that a call of a communicator did not happen, which might have established an order.
    pub(super) fn loses_order(&self, of: u64) {
        if let Some(order) = self.order() {
            order.clock(|own| own.lose_order(of));
        }
    }

    /// Stores an error of the stream's current task.
    pub(super) fn leave_error(&self, error: Error) {
        let (told, known) = (AtomicBool::new(false), AtomicU64::new(0));
        self.leave(Arc::new(Left { error, told, known }));
    }

    fn leave(&self, left: Arc<Left>) {
        let task = self.done.load(Ordering::Acquire) + 1;
        let mut errors = self.errors.lock();
        if errors.iter().any(|(_, known)| Arc::ptr_eq(known, &left)) {
            return;
        }
        if errors.len() == KEPT
            && let Some(at) = errors.iter().position(|(_, left)| left.told.load(Ordering::Relaxed))
        {
            errors.remove(at);
        }
        if errors.len() < KEPT {
            errors.push_back((task, left));
        }
    }

    /// The first panic up to here of which the program could not know at this time.
    fn unknown(&self, time: u64) -> Option<Error> {
        let mut errors = self.errors.lock();
        let is_known = |left: &Left| (1..=time).contains(&left.known.load(Ordering::Relaxed));
        // Later groups are of later times.
        errors.retain(|(_, left)| !left.told.load(Ordering::Relaxed) || !is_known(left));
        let panics = |left: &Left| matches!(left.error, Error::Panicked(_));
        let mut unknown = errors.iter().filter(|(_, left)| panics(left) && !is_known(left));
        unknown.next().map(|(_, left)| left.error.clone())
    }

    /// The first unreported error of the stream's first `seq` tasks.
    fn take_error(&self, seq: u64) -> Option<Error> {
        let errors = self.errors.lock();
        let behind = || errors.iter().filter(|(task, _)| *task <= seq).map(|(_, left)| left);
        for left in behind().filter(|left| left.known.load(Ordering::Relaxed) == 0) {
            left.known.store(CLOCK.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        let mut untold = behind().filter(|left| !left.told.swap(true, Ordering::Relaxed));
        untold.next().map(|left| left.error.clone())
    }

    fn voided(&self) -> MutexGuard<'_, VecDeque<Voided>> {
        self.voided.lock()
    }

    /// Records that the stream's current task does not happen.
    pub(super) fn void(&self, health: &Arc<Health>, error: Error) {
        let first = self.done.load(Ordering::Acquire) + 1;
        let last = self.issued.load(Ordering::Acquire);
        let mut voided = self.voided();
        match voided.iter_mut().find(|known| known.health.id() == health.id()) {
            Some(known) => known.last = last,
            None => {
                if voided.len() == KEPT {
                    voided.pop_front();
                }
                voided.push_back(Voided { health: health.clone(), error, first, last });
            }
        }
    }

    /// Why some of the first `seq` tasks did not happen. Waits for work enqueued by then report it;
    /// while the communicator exists, later waits do too.
    fn undone(&self, seq: u64) -> Option<Error> {
        let voided = self.voided();
        let is_behind = |it: &&Voided| it.first <= seq && (seq <= it.last || !it.health.is_over());
        voided.iter().find(is_behind).map(|it| it.error.clone())
    }

    /// Takes over errors and void tasks of another stream, as a wait for its point exposes their
    /// unfinished results.
    fn take_over(&self, point: &Point) {
        if let (Some(order), Some(other)) = (self.order(), point.progress.order()) {
            order.waits_for(other, point.seq);
        }
        let errors: Vec<_> = point.progress.errors.lock().iter().cloned().collect();
        for (_, left) in errors.into_iter().filter(|(task, _)| *task <= point.seq) {
            self.leave(left);
        }
        let voided: Vec<_> = point.progress.voided().iter().cloned().collect();
        for Voided { health, error, .. } in voided.into_iter().filter(|it| it.first <= point.seq) {
            self.void(&health, error);
        }
    }
}

/// The position after a stream's first `seq` tasks.
#[derive(Clone, Debug)]
pub struct Point {
    progress: Arc<Progress>,
    seq: u64,
}

impl Point {
    /// After everything enqueued so far.
    pub(in crate::host) fn now(stream: &StreamToken) -> Self {
        let progress = stream.progress.clone();
        // Tasks are issued by the stream's only owner, or before it handed the stream over.
        let seq = progress.issued.load(Ordering::Acquire);
        Self { progress, seq }
    }

    /// Pairs with the release in [`State::task_over`].
    pub(in crate::host) fn reached(&self) -> bool {
        self.progress.done.load(Ordering::Acquire) >= self.seq
    }

    /// Records that the host has seen it reached.
    pub(in crate::host) fn seen(&self) {
        if let Some(order) = self.progress.order() {
            order.seen(self.seq);
        }
    }

    /// The first error of work before the point.
    pub(in crate::host) fn take_error(&self) -> Option<Error> {
        self.progress.take_error(self.seq)
    }

    /// Why work before the point did not happen.
    pub(in crate::host) fn undone(&self) -> Option<Error> {
        self.progress.undone(self.seq)
    }

    pub(super) fn stream(&self) -> &Arc<Progress> {
        &self.progress
    }
}

/// An entry of a queue.
pub(super) enum Task {
    /// A group of a communicator's operations.
    Group { place: MemberId, unit: u64, ops: Vec<HostOp>, refused: Option<Error>, time: u64 },
    /// User compute, and its device communicators.
    Launch { work: Closure, site: Site, brings: Vec<Brings> },
    /// Work on one rank's memory.
    Local { work: Local, site: Site },
    /// Waits for another stream.
    Wait(Point),
    /// Records the time.
    Time(Arc<OnceLock<Instant>>),
    /// The beginning or the end of a graph's launch.
    Replay { begins: bool },
}

/// The graph launch that a stream is executing.
#[derive(Clone)]
enum Replay {
    Running,
    /// A closure in it failed: the rest is refused.
    Failed(Error),
}

/// A stream's current task.
pub(super) enum Current {
    /// A group, waiting for the other ranks or moving data.
    Group { place: MemberId },
    /// Work on one rank's memory.
    Local { site: Site },
    /// A closure, waiting for a thread, running, or at a barrier.
    Launch { site: Site, brings: Vec<Brings>, at: Option<At> },
}

pub(super) struct StreamState {
    pub(super) progress: Arc<Progress>,
    pub(super) queue: VecDeque<Task>,
    pub(super) current: Option<Current>,
    replay: Option<Replay>,
    /// Streams that wait until this one has completed so many tasks.
    dependents: BinaryHeap<Reverse<(u64, usize)>>,
    /// Whether the stream its next task waits for lists it as a dependent.
    is_listed: bool,
    /// Threads that wait likewise.
    watchers: Vec<(u64, Thread)>,
    /// Its handle was dropped.
    closed: bool,
}

impl State {
    pub(super) fn open_stream(&mut self) -> Arc<StreamToken> {
        let slot = self.streams.vacant_entry();
        let progress = Arc::new(Progress {
            key: slot.key(),
            issued: AtomicU64::new(0),
            done: AtomicU64::new(0),
            errors: Mutex::default(),
            voided: Mutex::default(),
            order: StreamOrder::open(),
        });
        slot.insert(StreamState {
            progress: progress.clone(),
            queue: VecDeque::new(),
            current: None,
            replay: None,
            dependents: BinaryHeap::new(),
            is_listed: false,
            watchers: Vec::new(),
            closed: false,
        });
        Arc::new(StreamToken { progress })
    }

    pub(super) fn close_stream(&mut self, key: usize) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.closed = true;
            if stream.current.is_none() && stream.queue.is_empty() {
                self.streams.remove(key);
            }
        }
    }

    /// Records that a stream's current group does not happen, as its communicator has ended.
    pub(super) fn void(&mut self, stream: usize, health: Option<Arc<Health>>, error: Error) {
        let (Some(stream), Some(health)) = (self.streams.get(stream), health) else { return };
        stream.progress.void(&health, error.clone().numbered(health.generation()));
        health.pend(error);
    }

    /// Enqueues a task.
    pub(super) fn push(&mut self, stream: &StreamToken, task: Task) {
        let key = stream.progress.key;
        if let Some(state) = self.streams.get_mut(key) {
            state.queue.push_back(task);
            if let Some(order) = stream.progress.order() {
                order.enqueued();
            }
            stream.progress.issued.fetch_add(1, Ordering::Release);
            self.todo.push(Step::Stream(key));
        }
    }

    /// Starts the stream's next task; returns true if it is over already.
    pub(super) fn start_next(&mut self, key: usize, out: &mut Out) -> bool {
        let Some(stream) = self.streams.get_mut(key) else {
            return false;
        };
        if stream.current.is_some() {
            return false;
        }
        match stream.queue.front() {
            None => {
                if stream.closed {
                    self.streams.remove(key);
                }
                return false;
            }
            Some(Task::Wait(point)) if !point.reached() => {
                let (on, seq) = (point.progress.key, point.seq);
                if !std::mem::replace(&mut stream.is_listed, true)
                    && let Some(other) = self.streams.get_mut(on)
                {
                    other.dependents.push(Reverse((seq, key)));
                }
                return false;
            }
            Some(Task::Group { place, unit, .. }) => {
                let (place, unit) = (*place, *unit);
                if !self.is_turn(place, unit, key) {
                    return false;
                }
            }
            Some(_) => {}
        }
        let Some(stream) = self.streams.get_mut(key) else {
            return false;
        };
        if let Some(order) = stream.progress.order() {
            order.begins();
        }
        match stream.queue.pop_front() {
            None => false,
            Some(Task::Wait(point)) => {
                stream.is_listed = false;
                stream.progress.take_over(&point);
                self.task_over(key, out);
                true
            }
            Some(Task::Time(time)) => {
                let _ = time.set(Instant::now());
                self.task_over(key, out);
                true
            }
            Some(Task::Replay { begins }) => {
                stream.replay = begins.then_some(Replay::Running);
                self.task_over(key, out);
                true
            }
            Some(Task::Launch { work, site, brings }) => {
                stream.current = Some(Current::Launch { site, brings, at: None });
                let stream = stream.progress.clone();
                out.closures.push(Work::Run { stream, work, site });
                false
            }
            Some(Task::Local { work, site }) => {
                stream.current = Some(Current::Local { site });
                if let Some(order) = stream.progress.order() {
                    hazards::local(order, &work, site);
                }
                self.start_local(key, work, out)
            }
            Some(Task::Group { place, ops, refused, time, .. }) => {
                stream.current = Some(Current::Group { place });
                let refused = match &stream.replay {
                    Some(Replay::Failed(error)) => Some(error.clone()),
                    // What a closure left unwritten must not reach other ranks as if it were right.
                    _ => refused.or_else(|| stream.progress.unknown(time)),
                };
                self.start_group(place, ActiveGroup::new(key, ops, refused), out);
                false
            }
        }
    }

    /// Starts work on one rank's memory; returns true if there is none.
    fn start_local(&mut self, key: usize, work: Local, out: &mut Out) -> bool {
        let job = Job::new(Done::Task(key), Moves::Local(work));
        if job.untaken() > 0 {
            out.jobs.push(job);
            return false;
        }
        self.task_over(key, out);
        out.void.push(Void::Job(job));
        true
    }

    /// Records that a stream's current closure failed.
    pub(super) fn closure_failed(&mut self, key: usize, error: Error) {
        let replay = self.streams.get_mut(key).and_then(|stream| stream.replay.as_mut());
        if let Some(replay @ Replay::Running) = replay {
            *replay = Replay::Failed(error);
        }
    }

    /// Completes the stream's current task, and advances what waits for it.
    pub(super) fn task_over(&mut self, key: usize, out: &mut Out) {
        let Self { streams, todo, .. } = self;
        let Some(stream) = streams.get_mut(key) else {
            return;
        };
        stream.current = None;
        if let Some(order) = stream.progress.order() {
            order.ends(stream.progress.done.load(Ordering::Relaxed) + 1);
        }
        let done = stream.progress.done.fetch_add(1, Ordering::Release) + 1;
        while let Some(first) = stream.dependents.peek_mut()
            && first.0.0 <= done
        {
            todo.push(Step::Stream(PeekMut::pop(first).0.1));
        }
        stream.watchers.retain(|(seq, thread)| {
            let free = *seq <= done;
            if free {
                out.unpark.push(thread.clone());
            }
            !free
        });
        todo.push(Step::Stream(key));
    }

    /// Wakes this thread when the point is reached.
    pub(super) fn watch(&mut self, point: &Point) {
        let me = std::thread::current();
        if let Some(stream) = self.streams.get_mut(point.progress.key) {
            let known = |(seq, thread): &(u64, Thread)| *seq == point.seq && thread.id() == me.id();
            if !stream.watchers.iter().any(known) {
                stream.watchers.push((point.seq, me));
            }
        }
    }
}

//! Streams: queues of tasks that run in order.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use super::ENGINE;
use super::barrier::{At, Brings};
use super::comm::Place;
use super::flight::{Flight, HostOp};
use super::state::{Out, State, Step, Work};
use crate::communicator::Health;
use crate::error::{Error, Site};
use crate::host::hazards::StreamOrder;
use crate::lock::{Mutex, MutexGuard};

/// User compute, boxed.
pub(super) type Closure = Box<dyn FnOnce() + Send>;

/// The owner's handle of a stream. When the last clone goes, the stream runs dry and is gone.
#[derive(Debug)]
pub struct StreamToken {
    progress: Arc<Progress>,
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
        // The last clone may go with a buffer that an operation held, so perhaps under the engine's
        // lock: the stream is only noted here, and forgotten with the next thing that settles.
        ENGINE.closed(self.progress.key);
    }
}

/// How far a stream has come; readable without the lock.
#[derive(Debug)]
pub(in crate::host) struct Progress {
    pub(super) key: usize,
    issued: AtomicU64,
    done: AtomicU64,
    /// What closures left behind, by the task that did.
    errors: Mutex<VecDeque<(u64, Arc<Left>)>>,
    /// What communicators that ended left undone.
    voided: Mutex<VecDeque<Voided>>,
    /// What its tasks come after, where that is checked.
    order: Option<Box<StreamOrder>>,
}

/// Groups of a communicator that ended before their data had moved.
#[derive(Clone, Debug)]
struct Voided {
    health: Arc<Health>,
    error: Error,
    /// The first task that is void.
    first: u64,
    /// The last one that was enqueued when one was.
    last: u64,
}

/// An error that a closure left behind. Every stream that waits for that closure has it, and the
/// first host wait that meets it tells it.
#[derive(Debug)]
struct Left {
    error: Error,
    told: AtomicBool,
}

/// How many errors a stream keeps, and of how many communicators that ended.
const KEPT: usize = 16;

impl Progress {
    fn errors(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<Left>)>> {
        let mut errors = self.errors.lock();
        errors.retain(|(_, left)| !left.told.load(Ordering::Relaxed));
        errors
    }

    /// What its tasks come after, where that is checked.
    pub(in crate::host) fn order(&self) -> Option<&StreamOrder> {
        self.order.as_deref()
    }

    /// The task that the stream is at leaves an error.
    pub(super) fn leave_error(&self, error: Error) {
        self.leave(Arc::new(Left { error, told: AtomicBool::new(false) }));
    }

    fn leave(&self, left: Arc<Left>) {
        let task = self.done.load(Ordering::Acquire) + 1;
        let mut errors = self.errors();
        if errors.len() < KEPT && !errors.iter().any(|(_, known)| Arc::ptr_eq(known, &left)) {
            errors.push_back((task, left));
        }
    }

    /// The first error of the stream's first `seq` tasks that nobody was told.
    fn take_error(&self, seq: u64) -> Option<Error> {
        let errors = self.errors();
        let untold = |(task, left): &&(u64, Arc<Left>)| {
            *task <= seq && !left.told.swap(true, Ordering::Relaxed)
        };
        errors.iter().find(untold).map(|(_, left)| left.error.clone())
    }

    fn voided(&self) -> MutexGuard<'_, VecDeque<Voided>> {
        self.voided.lock()
    }

    /// The task that the stream is at does not happen.
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

    /// Why some of the first `seq` tasks did not happen. Each wait for what was enqueued by then is told,
    /// and while the communicator is there each that comes after.
    fn undone(&self, seq: u64) -> Option<Error> {
        let voided = self.voided();
        let is_behind = |it: &&Voided| it.first <= seq && (seq <= it.last || !it.health.is_over());
        voided.iter().find(is_behind).map(|it| it.error.clone())
    }

    /// Who waits for a point of another stream may see what its errors left unfinished.
    fn take_over(&self, point: &Point) {
        if let (Some(order), Some(other)) = (self.order(), point.progress.order()) {
            order.waits_for(other, point.seq);
        }
        let errors: Vec<_> = point.progress.errors().iter().cloned().collect();
        for (_, left) in errors.into_iter().filter(|(task, _)| *task <= point.seq) {
            self.leave(left);
        }
        let voided: Vec<_> = point.progress.voided().iter().cloned().collect();
        for Voided { health, error, .. } in voided.into_iter().filter(|it| it.first <= point.seq) {
            self.void(&health, error);
        }
    }
}

/// The place after a stream's first `seq` tasks.
#[derive(Clone, Debug)]
pub struct Point {
    progress: Arc<Progress>,
    seq: u64,
}

impl Point {
    /// After everything enqueued so far.
    pub(in crate::host) fn now(stream: &StreamToken) -> Self {
        let progress = stream.progress.clone();
        // Tasks are issued by the stream's one owner, or before it handed the stream over.
        let seq = progress.issued.load(Ordering::Acquire);
        Self { progress, seq }
    }

    /// Pairs with the release in [`State::task_over`].
    pub(in crate::host) fn reached(&self) -> bool {
        self.progress.done.load(Ordering::Acquire) >= self.seq
    }

    /// The host has seen that it is reached.
    pub(in crate::host) fn seen(&self) {
        if let Some(order) = self.progress.order() {
            order.seen(self.seq);
        }
    }

    /// The first error of what is before the point.
    pub(super) fn take_error(&self) -> Option<Error> {
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

/// One entry of a queue.
pub(super) enum Task {
    /// A group of a communicator's operations.
    Group { place: Place, unit: u64, ops: Vec<HostOp> },
    /// User compute, and the device communicators that it is given.
    Launch { work: Closure, site: Site, brings: Vec<Brings> },
    /// Waits for another stream.
    Wait(Point),
    /// Notes the time.
    Time(Arc<OnceLock<Instant>>),
    /// The launch of a graph begins, or ends.
    Replay { begins: bool },
}

/// The launch of a graph that a stream is in.
#[derive(Clone)]
enum Replay {
    Running,
    /// A closure of it failed: what follows it is refused.
    Failed(Error),
}

/// The task that a stream is at.
pub(super) enum Current {
    /// A group, waiting for the other ranks or moving data.
    Group { place: Place },
    /// A closure, waiting for a thread, running, or at a barrier.
    Launch { site: Site, brings: Vec<Brings>, at: Option<At> },
}

pub(super) struct StreamState {
    pub(super) progress: Arc<Progress>,
    pub(super) queue: VecDeque<Task>,
    pub(super) current: Option<Current>,
    replay: Option<Replay>,
    /// Streams that wait for this one to be done with so many tasks.
    dependents: BinaryHeap<Reverse<(u64, usize)>>,
    /// What its next task waits for has it among its dependents.
    is_listed: bool,
    /// Threads that wait likewise.
    watchers: Vec<(u64, Thread)>,
    /// Its handle is gone.
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

    /// The group that a stream is at does not happen: its communicator has ended.
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

    /// Starts the stream's next task; true if it is over already.
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
            Some(Task::Group { place, ops, .. }) => {
                stream.current = Some(Current::Group { place });
                let refused = match &stream.replay {
                    Some(Replay::Failed(error)) => Some(error.clone()),
                    _ => None,
                };
                self.take_off(place, Flight::new(key, ops, refused), out);
                false
            }
        }
    }

    /// The closure that a stream is at failed.
    pub(super) fn closure_failed(&mut self, key: usize, error: Error) {
        let replay = self.streams.get_mut(key).and_then(|stream| stream.replay.as_mut());
        if let Some(replay @ Replay::Running) = replay {
            *replay = Replay::Failed(error);
        }
    }

    /// The stream's current task is over: whoever waits for that goes on.
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
                out.unpark(thread.clone());
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

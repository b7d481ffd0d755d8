//! The engine: streams, communicators and their progress, for the whole process.
//!
//! One lock guards all of it. Data movement and closures run outside it; under it there are only
//! queues and counters, and no user code. A single lock gives reports a consistent picture of all
//! waits, and there is no lock order to get wrong.
//!
//! Small work that becomes ready runs on the thread that made it ready (the last rank to arrive).
//! Other work runs on workers and on waiting threads, which spin for a moment before they park. A
//! helping thread moves data; it never runs another stream's closure.

mod active_group;
mod barrier;
mod comm;
mod deadlock;
mod fault;
mod job;
mod meeting;
mod order;
mod remote;
mod report;
mod signal;
mod sparse;
mod spin;
mod state;
mod story;
mod stream;
mod wait;
mod who;
mod window;
mod worker;

pub(super) use barrier::{Brings, announce, current};
pub(super) use comm::{Member, MemberId};
pub(super) use job::Parked;
use remote::Event;
pub(crate) use remote::Joining;
pub(super) use stream::{Point, StreamToken};

use std::any::Any;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use active_group::HostOp;
use comm::CommState;
use job::Job;
use meeting::Which;
use spin::{BusyThreads, SPIN, SPIN_FOR_NEWS, TRIES};
use state::{Out, State, Void, Work};
use stream::{Closure, Task};

use super::mirror::Ended;
use super::moves::{Held, Local};
use super::{HostBackend, shared};
use crate::backend::{Blame, Departure, Join, Op, Refusal, WindowId};
use crate::error::{Error, Panicked, Site, Surplus};
use crate::lock::{Mutex, MutexGuard};
use crate::memory::Allocation;
use crate::unwind;

/// How many tasks a stream may be behind its rank before the rank pauses for the others, and how
/// long.
const AHEAD: u64 = 64;
const SHORT: Duration = Duration::from_micros(5);

pub(super) static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::default);

#[derive(Default)]
pub(super) struct Engine {
    state: Mutex<State>,
    /// Idle workers wait here.
    work: Condvar,
    /// Streams whose handles were dropped. Locked last, and briefly.
    closed: Mutex<Vec<usize>>,
    /// Whether there are any.
    any_closed: AtomicBool,
    busy_threads: BusyThreads,
    /// Whether ranks of other processes may say something.
    listens: AtomicBool,
}

/// Which jobs that became ready a thread runs itself. Workers run the others.
#[derive(Clone, Copy)]
enum Here {
    Nothing,
    /// None yet, but it takes a piece of work right afterwards, as workers do.
    OneLater,
    /// The first small ones: enqueueing returns soon, however much was waiting for it.
    First,
    Small,
    /// Small ones, and all if no core is free for a worker.
    Any,
}

impl Engine {
    fn lock(&self) -> MutexGuard<'_, State> {
        // It is held for less time than a thread takes to sleep and wake.
        for _ in 0..TRIES {
            if let Some(state) = self.state.try_lock() {
                return state;
            }
            spin_loop();
        }
        // The lock guards only queues and counters, and nothing under it panics half-way.
        self.state.lock()
    }

    /// Records that a stream's handle was dropped.
    fn closed(&self, key: usize) {
        self.closed.lock().push(key);
        self.any_closed.store(true, Ordering::Release);
    }

    pub(super) fn open_stream(&self) -> Arc<StreamToken> {
        self.lock().open_stream()
    }

    pub(super) fn enqueue_wait(&self, stream: &StreamToken, point: Point) {
        self.enqueue(stream, Task::Wait(point));
    }

    pub(super) fn enqueue_time(&self, stream: &StreamToken, time: Arc<OnceLock<Instant>>) {
        self.enqueue(stream, Task::Time(time));
    }

    /// Marks the beginning or the end of a graph's launch on a stream.
    pub(super) fn enqueue_replay(&self, stream: &StreamToken, begins: bool) {
        self.enqueue(stream, Task::Replay { begins });
    }

    pub(super) fn enqueue_launch(&self, stream: &StreamToken, site: Site, work: Closure) {
        let brings = barrier::announced();
        self.enqueue(stream, Task::Launch { work, site, brings });
    }

    /// Enqueues work on one rank's memory.
    pub(super) fn enqueue_local(&self, stream: &StreamToken, site: Site, work: Local) {
        self.enqueue(stream, Task::Local { work, site });
    }

    fn enqueue(&self, stream: &StreamToken, task: Task) {
        self.change(Here::First, |state, _| state.push(stream, task));
    }

    /// Enqueues a group.
    pub(super) fn issue(&self, comm: &Member, stream: &StreamToken, ops: &[Op<'_, HostBackend>]) {
        let place = comm.place();
        self.change(Here::First, |state, _| {
            let mut list = state.spare.pop().unwrap_or_default();
            let Some(comm) = state.comm(place) else { return };
            list.extend(ops.iter().map(|op| comm.book(place.rank, op)));
            let member = &mut comm.members[place.rank];
            let unit = member.issued;
            member.issued += 1;
            state.push(
                stream,
                Task::Group { place, unit, ops: list, refused: None, time: stream::now() },
            );
        });
        // If a rank runs far ahead, its operations leave the cache before the other ranks reach
        // them.
        if stream.ahead() > AHEAD {
            let is_near = || {
                self.hear(Here::Small);
                stream.ahead() <= AHEAD
            };
            self.busy_threads.spin((SHORT, SHORT), || false, is_near);
        }
    }

    pub(super) fn refuse(&self, comm: &Member, refusals: &[Refusal], reason: &Error) {
        let place = comm.place();
        self.change(Here::Nothing, |state, out| {
            let mut said = Vec::new();
            for refusal in refusals {
                let index = state.refuse(place, refusal, None, reason, out);
                said.extend(index.map(|index| (*refusal, index)));
            }
            state.say_refused(place, said, reason);
        });
    }

    pub(super) fn exchanged(&self, comm: &Member, exchanges: u64) {
        // Peers can hear of what it does next before their exchange is over, and then know that it
        // will succeed.
        self.lock().say(comm.place(), &Event::Exchanged(exchanges));
    }

    pub(super) fn register(
        &self,
        comm: &Member,
        id: WindowId,
        allocation: &Arc<Allocation<HostBackend>>,
        bytes: usize,
    ) -> crate::Result<()> {
        let mut state = self.lock();
        let memory = Held::new(allocation.clone(), 0, bytes);
        state.register(comm.place(), id, memory.clone());
        state.say_window(comm.place(), id, &memory)
    }

    /// From now on two threads may use the memory.
    pub(super) fn lease(&self, comm: &Member, allocation: &Allocation<HostBackend>) {
        self.lock().lease(comm.place(), allocation);
    }

    pub(super) fn peer_address(&self, comm: &Member, id: WindowId, peer: usize) -> Option<*mut u8> {
        self.hear(Here::Nothing);
        self.lock().comm(comm.place())?.windows.get(&id)?.address(peer)
    }

    /// Whether some ranks are on other machines.
    pub(super) fn is_spread(&self, comm: &Member) -> bool {
        self.lock().comm(comm.place()).is_some_and(|comm| comm.is_spread())
    }

    pub(super) fn unregister(&self, comm: &Member, id: WindowId) {
        self.change(Here::Nothing, |state, out| {
            state.say(comm.place(), &Event::NoWindow(id));
            state.unregister(comm.place(), id, out);
        });
    }

    pub(super) fn join(&self, join: Join) -> Member {
        let mut state = self.lock();
        let member = state.join(join);
        self.busy_threads.note(&state);
        member
    }

    fn leave(&self, place: MemberId, home: ThreadId) {
        self.change(Here::Nothing, |state, out| {
            state.leave(place, home, out);
            self.busy_threads.note(state);
        });
    }

    /// Records that a rank will never join, and informs the ranks that have joined or will.
    pub(super) fn absent(&self, id: u64, rank: usize, why: &str) {
        let state = self.lock();
        let Some(&comm) = state.by_id.get(&id) else { return };
        drop(state);
        self.depart(MemberId { comm, id, rank }, why, Departure::AtOnce);
    }

    /// The signals to this rank that it never awaited.
    pub(super) fn unawaited(&self, comm: &Member) -> Vec<Surplus> {
        let place = comm.place();
        self.hear(Here::Nothing);
        let mut state = self.lock();
        state.comm(place).map_or_else(Vec::new, |comm| comm.signals.unawaited(place.rank))
    }

    /// What work holds that reads a peer's window; until it is dropped, the rank is not idle.
    pub(super) fn reading(&self, comm: &Member) -> Option<Arc<()>> {
        self.lock().comm(comm.place()).map(|state| state.members[comm.place().rank].reads.clone())
    }

    pub(super) fn is_idle(&self, comm: &Member) -> bool {
        self.lock().is_idle(comm.place())
    }

    /// Records that a rank enqueues nothing more.
    pub(super) fn depart(&self, place: MemberId, why: &str, how: Departure) {
        self.change(Here::Nothing, |state, out| {
            state.say_left(place, why, how);
            state.depart(place, why, how, out);
            state.sweep(place, out);
        });
    }

    pub(super) fn blame(&self, point: &Point) -> Option<Blame> {
        self.lock().blame(point)
    }

    /// Helps with work, or sleeps until the point may be reached.
    pub(super) fn pause(&self, point: &Point, at_most: Duration) {
        let polling = shared::opened().map(|_| shared::Polling::begin());
        let patience = if polling.is_some() { SPIN_FOR_NEWS } else { SPIN };
        let hear = || self.hear(Here::Any);
        let is_over = self.busy_threads.spin((at_most, patience), hear, || point.reached());
        drop(polling);
        if is_over {
            return;
        }
        let waiting = shared::Waiting::begin();
        self.hear(Here::Any);
        let mut state = self.lock();
        if point.reached() {
            return;
        }
        if let Some(work) = state.help() {
            self.busy_threads.note(&state);
            drop((state, waiting));
            return self.run(work, Here::Nothing);
        }
        state.watch(point);
        drop(state);
        std::thread::park_timeout(at_most);
    }

    /// Changes the state, then does what became ready.
    fn change<T>(&self, here: Here, change: impl FnOnce(&mut State, &mut Out) -> T) -> T {
        let mut out = Out::take();
        let mut state = self.lock();
        let result = change(&mut state, &mut out);
        self.finish(state, out, here);
        result
    }

    /// Advances runnable streams, releases the lock, then runs what became ready.
    fn finish<'s>(&'s self, mut state: MutexGuard<'s, State>, mut out: Out, mut here: Here) {
        if self.any_closed.load(Ordering::Acquire) {
            self.any_closed.store(false, Ordering::Relaxed);
            for key in self.closed.lock().drain(..) {
                state.close_stream(key);
            }
        }
        state.looked.changes += 1;
        loop {
            state.settle(&mut out);
            let own = match here {
                Here::Nothing | Here::OneLater => 0,
                Here::Any if !self.busy_threads.may_have_help() => out.jobs.len(),
                Here::First | Here::Small | Here::Any => out.small_jobs(),
            };
            let mut failed = None;
            if out.jobs.len() > own || !out.closures.is_empty() {
                state.ready.extend(out.jobs.drain(own..).map(|job| Work::Move(Arc::new(job))));
                state.ready.extend(out.closures.drain(..));
                // What is dropped or told first may take long.
                let is_next = out.void.is_empty() && out.poisoned.is_empty();
                let own = usize::from(is_next && matches!(here, Here::OneLater));
                failed = self.wake_workers(&mut state, own);
                self.busy_threads.note(&state);
            }
            drop(state);
            if let Some(error) = failed {
                log::warn!("no thread for a host worker: {error}");
            }
            out.tell();
            if own == 0 {
                return out.keep();
            }
            if let Here::First = here {
                here = if shared::opened().is_some() { Here::Small } else { Here::Nothing };
            }
            self.run_here(&mut out.jobs);
            state = self.lock();
            let mut jobs = std::mem::take(&mut out.jobs);
            for job in &jobs {
                state.job_over(job.done, &mut out);
            }
            out.void.extend(jobs.drain(..).map(Void::Job));
            // The next steps of operations that several processes move.
            jobs.append(&mut out.jobs);
            out.jobs = jobs;
        }
    }

    /// Runs jobs here. Jobs that remain in the list are complete.
    fn run_here(&self, jobs: &mut Vec<Job>) {
        let mut at = 0;
        while let Some(job) = jobs.get(at) {
            match job.run_here() {
                Ok(()) => at += 1,
                Err(chunk) => {
                    let job = Arc::new(jobs.remove(at));
                    self.run(Work::Resume(Parked::new(job.clone(), chunk)), Here::Nothing);
                    self.run(Work::Move(job), Here::Nothing);
                }
            }
        }
    }

    /// Closures released memory that moves wait for.
    pub(super) fn unpark(&self, parked: Vec<Parked>) {
        let mut state = self.lock();
        state.ready.extend(parked.into_iter().map(Work::Resume));
        self.busy_threads.note(&state);
        if let Some(error) = self.wake_workers(&mut state, 0) {
            drop(state);
            log::warn!("no thread for a host worker: {error}");
        }
    }

    fn over(&self, job: &Job, here: Here) {
        self.change(job.then(here), |state, out| state.job_over(job.done, out));
    }

    fn run(&self, work: Work, here: Here) {
        match work {
            Work::Move(job) => {
                if job.run() {
                    self.over(&job, here);
                }
            }
            Work::Resume(parked) => {
                let job = parked.job.clone();
                if parked.run() {
                    self.over(&job, here);
                }
            }
            Work::Run { stream, work, site } => {
                let work = std::panic::AssertUnwindSafe(work);
                let run = || std::panic::catch_unwind(work);
                let outcome = barrier::in_closure(stream.clone(), run);
                let failed = outcome.err().map(|panic| left_by(panic, site));
                if let Some(error) = &failed {
                    stream.leave_error(error.clone());
                }
                let has_failed = failed.is_some();
                self.change(here, |state, out| {
                    state.in_closures -= 1;
                    if let Some(error) = failed {
                        state.closure_failed(stream.key, error);
                    }
                    let brought = state.brought(stream.key);
                    if has_failed {
                        // It may not have come to barriers that the others passed.
                        brought.iter().for_each(|brings| stream.loses_order(brings.place.id));
                    }
                    state.task_over(stream.key, out);
                    brought.iter().for_each(|brings| state.check_barriers(brings.place, out));
                });
            }
        }
    }
}

/// The error of a closure that did not complete.
fn left_by(panic: Box<dyn Any + Send>, site: Site) -> Error {
    let panic = match panic.downcast::<Ended>() {
        Ok(ended) => return ended.0,
        Err(panic) => panic,
    };
    let message = unwind::message(&*panic);
    // Dropping the panic's payload may panic again, which is ignored.
    let dropped = std::panic::AssertUnwindSafe(move || drop(panic));
    std::mem::forget(std::panic::catch_unwind(dropped));
    Error::Panicked(Box::new(Panicked { message, site }))
}

impl CommState {
    /// Numbers an operation of a rank and holds its memory.
    fn book(&mut self, rank: usize, op: &Op<'_, HostBackend>) -> HostOp {
        let counted = match op {
            Op::Collective(_) => Some((Which::Collectives, rank)),
            Op::Transfer(one) => Some(Which::of(rank, one.peer, one.half)),
            Op::Put(_) | Op::Signal(_) | Op::Wait(_) => None,
        };
        let index = counted.map_or(0, |(which, member)| self.number(which, member));
        let call = op.call();
        self.members[rank].last = Some(call);
        let op = op.map(
            |span, _| Some(Held::of(span, call.dtype)),
            |scale| (*scale).clone(),
            |target| *target,
            |config| config.digest(),
        );
        HostOp { index, op, private: None }
    }
}

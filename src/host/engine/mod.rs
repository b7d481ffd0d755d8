//! The engine: streams, communicators and their progress, for the whole process.
//!
//! One lock guards all of it. Data moves and closures run outside it; under it there are queues and
//! counters only, and no user code. One lock means one consistent picture, which is what reports of
//! who waits for whom are made of, and no lock order to get wrong.
//!
//! Work that becomes ready runs on the thread that made it ready if it is small (the last rank to
//! arrive), else on workers and on threads that wait anyway. A helping thread moves data; it never
//! runs another stream's closure.

mod comm;
mod job;
mod report;
mod round;
mod state;
mod stream;
mod worker;

pub(super) use comm::Member;
pub(super) use stream::{Point, StreamToken};

use std::panic::Location;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use comm::Place;
use job::Job;
use state::{Out, State, Work};
use stream::{Closure, Task};

use super::HostBackend;
use super::moves::{Entry, Held};
use crate::backend::{Collective, Departure, Join};
use crate::error::{Error, Panicked};

pub(super) static ENGINE: LazyLock<Engine> = LazyLock::new(Engine::default);

#[derive(Default)]
pub(super) struct Engine {
    state: Mutex<State>,
    /// Workers rest here.
    work: Condvar,
}

impl Engine {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics half-way: queues and counters only.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open_stream(&self) -> Arc<StreamToken> {
        self.lock().open_stream()
    }

    pub(super) fn enqueue_wait(&self, stream: &StreamToken, point: Point) {
        self.enqueue(stream, Task::Wait(point));
    }

    pub(super) fn enqueue_launch(
        &self,
        stream: &StreamToken,
        site: &'static Location<'static>,
        work: Closure,
    ) {
        self.enqueue(stream, Task::Launch { work, site });
    }

    pub(super) fn enqueue_collective(
        &self,
        comm: &Member,
        stream: &StreamToken,
        collective: &Collective<'_, HostBackend>,
    ) {
        let entry = Entry {
            call: collective.call,
            reduction: collective.reduction.as_ref().map(Into::into),
            send: collective.send.as_ref().map(Held::of),
            recv: collective.recv.as_ref().map(Held::of),
        };
        let (place, seq) = (comm.place(), collective.seq);
        let mut out = Out::default();
        let mut state = self.lock();
        state.issued(place, seq, &entry.call);
        state.push(stream, Task::Collective { place, seq, entry: Box::new(entry) }, &mut out);
        self.go_on(state, out, true);
    }

    fn enqueue(&self, stream: &StreamToken, task: Task) {
        let mut out = Out::default();
        let mut state = self.lock();
        state.push(stream, task, &mut out);
        self.go_on(state, out, true);
    }

    pub(super) fn join(&self, join: Join) -> Member {
        self.lock().join(join)
    }

    pub(super) fn is_idle(&self, comm: &Member) -> bool {
        self.lock().is_idle(comm.place())
    }

    pub(super) fn refuse(&self, comm: &Member, seq: u64, reason: Error) {
        let mut out = Out::default();
        let mut state = self.lock();
        state.refuse(comm.place(), seq, reason, &mut out);
        self.go_on(state, out, false);
    }

    /// A rank will enqueue nothing more.
    pub(super) fn depart(&self, place: Place, why: &str, how: Departure) {
        let mut out = Out::default();
        let mut state = self.lock();
        state.depart(place, why, how, &mut out);
        self.go_on(state, out, false);
    }

    pub(super) fn blame(&self, point: &Point) -> Option<(u64, String)> {
        self.lock().blame(point)
    }

    pub(super) fn take_error(&self, point: &Point) -> Option<Error> {
        point.stream().take_error()
    }

    /// Helps, or rests until the point may be reached.
    pub(super) fn pause(&self, point: &Point, at_most: Duration) {
        let mut state = self.lock();
        if point.reached() {
            return;
        }
        if let Some(work) = state.help(point) {
            drop(state);
            return self.run(work);
        }
        state.watch(point);
        drop(state);
        std::thread::park_timeout(at_most);
    }

    /// Lets go of the lock and does what became due: one small job here if `inline`, the rest on
    /// workers.
    fn go_on(&self, mut state: MutexGuard<'_, State>, mut out: Out, inline: bool) {
        let own = match out.jobs.first() {
            Some(job) if inline && job.is_small() => Some(out.jobs.remove(0)),
            _ => None,
        };
        let hands = out.jobs.len() + out.closures.len();
        for job in out.jobs.drain(..) {
            state.ready.push_back(Work::Move(Arc::new(job)));
        }
        for closure in out.closures.drain(..) {
            state.ready.push_back(closure);
        }
        if hands > 0 {
            self.wake_workers(&mut state);
        }
        drop(state);
        out.tell();
        if let Some(job) = own {
            job.run_all();
            self.finish_job(&job);
        }
    }

    fn run(&self, work: Work) {
        match work {
            Work::Move(job) => {
                if job.run_some() {
                    self.finish_job(&job);
                }
            }
            Work::Run { stream, work, site } => {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                if let Err(panic) = outcome {
                    let message = panic_message(&*panic);
                    stream.leave_error(Error::Panicked(Box::new(Panicked { message, site })));
                }
                let mut out = Out::default();
                let mut state = self.lock();
                state.closure_done(&stream, &mut out);
                self.go_on(state, out, false);
            }
        }
    }

    fn finish_job(&self, job: &Job) {
        let mut out = Out::default();
        let mut state = self.lock();
        state.round_done(job.comm, job.seq, None, &mut out);
        self.go_on(state, out, false);
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|&text| text.to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gave no message".to_owned())
}

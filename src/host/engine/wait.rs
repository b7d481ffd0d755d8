//! Host waits that take a while: which thread waits for what.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::comm::Place;
use super::state::{Out, State};
use super::stream::Point;
use super::{ENGINE, Engine};
use crate::backend::{Exchange, HostWait, WaitsOn, Watched, Watcher};
use crate::communicator::Health;
use crate::error::Site;
use crate::host::HostBackend;

/// One thread's wait. It stays until the call returns.
pub(super) struct Wait {
    pub(super) thread: ThreadId,
    pub(super) on: On,
    pub(super) operation: &'static str,
    pub(super) site: Site,
    /// The communicator whose call it is, by its health: nobody else makes one meanwhile.
    pub(super) within: Option<u64>,
    users: Box<dyn Fn() -> Vec<Arc<Health>> + Send>,
}

pub(super) enum On {
    Point(Point),
    Idle(Place),
    Exchange(Exchange),
}

impl Wait {
    /// Whether the end of a communicator ends it now.
    pub(super) fn is_told(&self) -> bool {
        (self.users)().iter().any(|health| !health.is_well())
    }

    pub(super) fn uses(&self, health: u64) -> bool {
        (self.users)().iter().any(|user| user.id() == health)
    }
}

/// When it was last looked for waits that never end. It takes longer the more ranks there are, and is
/// done seldom enough to be no matter.
#[derive(Default)]
pub(super) struct Looked {
    /// Counts what may have changed the answer.
    pub(super) changes: u64,
    seen: u64,
    next: Option<Instant>,
    /// Every thread waited, so many changes ago and then.
    quiet: Option<(u64, Instant)>,
}

/// How long at least between two looks, and for how long a whole process waits before it is told.
const BETWEEN: Duration = Duration::from_millis(10);

/// How much longer than a look nobody looks.
const SHARE: u32 = 50;

struct Token {
    key: usize,
}

impl Watched for Token {
    fn look(&self) {
        ENGINE.look();
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut state = ENGINE.lock();
        state.looked.changes += 1;
        let wait = state.waits.try_remove(self.key);
        drop(state);
        drop(wait);
    }
}

impl Engine {
    pub(in crate::host) fn wait(&self, wait: HostWait<'_, HostBackend>) -> Watcher {
        let HostWait { on, operation, site, users, within } = wait;
        let on = match on {
            WaitsOn::Point(point) => On::Point(point.clone()),
            WaitsOn::Idle(comm) => On::Idle(comm.place()),
            WaitsOn::Exchange(exchange) => On::Exchange(exchange.clone()),
        };
        let thread = std::thread::current().id();
        let mut state = self.lock();
        state.looked.changes += 1;
        let key = state.waits.insert(Wait { thread, on, operation, site, within, users });
        drop(state);
        self.look();
        Box::new(Token { key })
    }

    /// Looks for waits that never end, and ends their communicators.
    fn look(&self) {
        let mut state = self.lock();
        let started = Instant::now();
        if state.looked.next.is_some_and(|next| started < next) {
            return;
        }
        let mut out = Out::take();
        let found = state.look(started, &mut out);
        state.looked.next = Some(started + BETWEEN.max(started.elapsed() * SHARE));
        match found {
            true => self.finish(state, out, false),
            false => drop(state),
        }
    }
}

impl State {
    fn look(&mut self, now: Instant, out: &mut Out) -> bool {
        let changes = self.looked.changes;
        if self.looked.seen != changes {
            self.looked.seen = changes;
            self.looked.quiet = None;
            if self.end_deadlock(false, out) {
                return true;
            }
        }
        if !self.is_quiet() {
            return false;
        }
        match self.looked.quiet {
            // Threads on their way out of a wait have had the time to go.
            Some((then, since)) if then == changes && now - since >= BETWEEN => {
                self.end_deadlock(true, out)
            }
            Some((then, _)) if then == changes => false,
            _ => {
                self.looked.quiet = Some((changes, now));
                false
            }
        }
    }

    /// Whether every thread of the process waits here, and nothing goes on in the background.
    fn is_quiet(&self) -> bool {
        let still =
            self.ready.is_empty() && self.todo.is_empty() && self.idle_workers == self.workers;
        still && crate::quiet::all_wait(self.waits.len() + self.workers)
    }
}

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
use crate::control::Submission;
use crate::error::Site;
use crate::host::HostBackend;
use crate::quiet::{self, Still};

/// One thread's wait. It stays until the call returns.
pub(super) struct Wait {
    pub(super) thread: ThreadId,
    /// Its number in the system, and how often it has looked.
    number: Option<u32>,
    looks: u64,
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
    Submission(Submission),
}

impl Wait {
    /// The communicators whose end ends it.
    pub(super) fn users(&self) -> Vec<Arc<Health>> {
        (self.users)()
    }

    /// Whether the end of a communicator ends it now.
    pub(super) fn is_told(&self) -> bool {
        self.users().iter().any(|health| !health.is_well())
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
    quiet: Option<Quiet>,
}

/// Every thread of the process waits.
struct Quiet {
    changes: u64,
    since: Instant,
    still: Still,
    /// How often each thread that waits here had looked.
    looks: Vec<(usize, u64)>,
}

/// How long at least between two looks, and for how long a whole process waits before it is told.
const BETWEEN: Duration = Duration::from_millis(10);

/// How often each thread looks meanwhile: what it holds for a moment, another one may wait for.
const LOOKS: u64 = 3;

/// How much longer than a look nobody looks.
const SHARE: u32 = 50;

struct Token {
    key: usize,
}

impl Watched for Token {
    fn look(&self) {
        ENGINE.look(Some(self.key));
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
            WaitsOn::Submission(submission) => On::Submission(submission.clone()),
        };
        let thread = std::thread::current().id();
        let mut state = self.lock();
        state.looked.changes += 1;
        let (number, looks) = (quiet::this_thread(), 0);
        let wait = Wait { thread, number, looks, on, operation, site, within, users };
        let key = state.waits.insert(wait);
        drop(state);
        self.look(None);
        Box::new(Token { key })
    }

    /// Looks for waits that never end, and ends their communicators.
    fn look(&self, key: Option<usize>) {
        let mut state = self.lock();
        if let Some(wait) = key.and_then(|key| state.waits.get_mut(key)) {
            wait.looks += 1;
        }
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
        let Some(still) = self.is_quiet() else {
            self.looked.quiet = None;
            return false;
        };
        match &self.looked.quiet {
            Some(quiet) if quiet.changes == changes && quiet.still == still => {
                // Threads on their way out of a wait have had the time to go.
                now - quiet.since >= BETWEEN
                    && quiet.looks.iter().all(|&(key, then)| self.has_looked(key, then + LOOKS))
                    && self.end_deadlock(true, out)
            }
            _ => {
                let looks = self.waits.iter().map(|(key, wait)| (key, wait.looks)).collect();
                self.looked.quiet = Some(Quiet { changes, since: now, still, looks });
                false
            }
        }
    }

    fn has_looked(&self, wait: usize, times: u64) -> bool {
        self.waits.get(wait).is_some_and(|wait| wait.looks >= times)
    }

    /// Whether every thread of the process waits, and nothing goes on in the background.
    fn is_quiet(&self) -> Option<Still> {
        let at_barriers = self.threads_at_barriers();
        let resting = self.idle_workers + at_barriers.len();
        let still = self.ready.is_empty() && self.todo.is_empty() && resting == self.workers;
        let known = self.waits.iter().map(|(_, wait)| wait.number).chain(at_barriers);
        still.then(|| quiet::all_wait(known))?
    }
}

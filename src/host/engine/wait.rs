//! Long host waits, and what each thread waits for.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::comm::MemberId;
use super::state::{Out, State};
use super::stream::Point;
use super::{ENGINE, Engine, Here};
use crate::backend::{Exchange, HostWait, Submission, WaitsOn, Watched, Watcher};
use crate::communicator::Health;
use crate::error::Site;
use crate::host::HostBackend;
use crate::quiet::{self, Still};

/// One thread's wait, registered until the call returns.
pub(super) struct Wait {
    pub(super) thread: ThreadId,
    /// The operating system's number of the thread, and how often it has checked.
    number: Option<u32>,
    looks: u64,
    pub(super) on: On,
    pub(super) operation: &'static str,
    pub(super) site: Site,
    /// The communicator, by its health, whose call this is. No other thread can call it meanwhile.
    pub(super) within: Option<u64>,
    users: Box<dyn Fn() -> Vec<Arc<Health>> + Send>,
}

pub(super) enum On {
    Point(Point),
    Idle(MemberId),
    Exchange(Box<dyn Exchange>),
    Submission(Box<dyn Submission>),
}

impl Wait {
    /// The communicators whose end ends the wait.
    pub(super) fn users(&self) -> Vec<Arc<Health>> {
        (self.users)()
    }

    /// Whether a communicator's end ends the wait now.
    pub(super) fn is_told(&self) -> bool {
        self.users().iter().any(|health| !health.is_well())
    }
}

/// When the last search for endless waits was made. A search takes longer the more ranks there are,
/// so searches are rare enough to cost little.
#[derive(Default)]
pub(super) struct Looked {
    /// Counts changes that may affect the result.
    pub(super) changes: u64,
    seen: u64,
    next: Option<Instant>,
    /// Since when nothing has changed, and whether other processes were told what this one waits
    /// for.
    since: Option<Instant>,
    is_said: bool,
    /// Since which change, and since when, every thread has been waiting.
    quiet: Option<Quiet>,
}

/// Every thread of the process waits.
struct Quiet {
    changes: u64,
    since: Instant,
    still: Still,
    /// How often each waiting thread had checked.
    looks: Vec<(usize, u64)>,
    is_said: bool,
}

/// The least time between two searches, and how long a whole process waits before a deadlock is
/// reported.
const BETWEEN: Duration = Duration::from_millis(10);

/// How often each thread must check in between, as another thread may wait for something it holds
/// briefly.
const LOOKS: u64 = 3;

/// How long a process waits before it says so to others.
const SETTLED: Duration = Duration::from_millis(50);

/// The pause between searches, as a multiple of a search's duration.
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
            WaitsOn::Exchange(exchange) => On::Exchange(exchange.kept()),
            WaitsOn::Submission(submission) => On::Submission(submission.kept()),
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

    /// Searches for waits that never end, and ends their communicators.
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
            true => self.finish(state, out, Here::Nothing),
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
            (self.looked.since, self.looked.is_said) = (Some(now), false);
            if self.end_deadlock(false, out) {
                return true;
            }
        }
        let is_settled = self.looked.since.is_some_and(|since| now - since >= SETTLED);
        if is_settled && !self.looked.is_said {
            self.looked.is_said = true;
            if self.say_blocked(false, out) {
                return true;
            }
        }
        let Some(still) = self.is_quiet() else {
            self.looked.quiet = None;
            return false;
        };
        match &self.looked.quiet {
            Some(quiet) if quiet.changes == changes && quiet.still == still => {
                // Threads about to leave a wait have had time to do so.
                let is_certain = now - quiet.since >= BETWEEN
                    && quiet.looks.iter().all(|&(key, then)| self.has_looked(key, then + LOOKS));
                if !is_certain {
                    return false;
                }
                if self.end_deadlock(true, out) {
                    return true;
                }
                let is_due = is_settled
                    && self
                        .looked
                        .quiet
                        .as_mut()
                        .is_some_and(|quiet| !std::mem::replace(&mut quiet.is_said, true));
                is_due && self.say_blocked(true, out)
            }
            _ => {
                let looks = self.waits.iter().map(|(key, wait)| (key, wait.looks)).collect();
                self.looked.quiet =
                    Some(Quiet { changes, since: now, still, looks, is_said: false });
                false
            }
        }
    }

    fn has_looked(&self, wait: usize, times: u64) -> bool {
        self.waits.get(wait).is_some_and(|wait| wait.looks >= times)
    }

    /// Whether every thread of the process waits and nothing runs in the background.
    fn is_quiet(&self) -> Option<Still> {
        let at_barriers: Vec<_> = self.at_barriers().map(|at| at.thread).collect();
        let resting = self.idle_workers + at_barriers.len();
        let still = self.ready.is_empty() && self.todo.is_empty() && resting == self.workers;
        let known = self.waits.iter().map(|(_, wait)| wait.number).chain(at_barriers);
        still.then(|| quiet::all_wait(known))?
    }
}

//! One rank's record of the windows that ranks pass to a plan, for ranks that share no memory.
//!
//! A rank sends its windows for a run when they differ from those of the previous run. A receiver
//! compares them with its own for that run, now or when it gets there. So two ranks that differ in
//! a run notice: they also differ in the last run up to it in which one of them changed. Nobody
//! waits, so both may have begun; then the communicator is over, since puts may have missed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::same::Names;
use crate::backend::{WindowId, Wire};
use crate::communicator::Health;
use crate::error::Site;
use crate::lock::Mutex;
use crate::{Rank, Result};

/// See the module.
pub(super) struct WindowRecord {
    pub(super) wire: Arc<dyn Wire>,
    health: Arc<Health>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many runs this rank has begun.
    begun: u64,
    /// Its windows, and the run from which they apply; `None` for a run that it refused.
    own: VecDeque<Given>,
    /// Others' windows for runs that this rank has not begun.
    ahead: BTreeMap<u64, Vec<(Rank, Vec<WindowId>)>>,
}

struct Given {
    from: u64,
    windows: Option<Vec<WindowId>>,
    site: Site,
}

/// How many of its own changes a rank keeps: it is hardly ever that many runs ahead of another.
const KEPT: usize = 256;

/// For how many future runs others' windows are kept.
const AHEAD: usize = 1024;

/// A message: a run, and the windows from it on.
type Message = (u64, Vec<WindowId>);

impl WindowRecord {
    pub(super) fn new(wire: Arc<dyn Wire>, health: Arc<Health>) -> Self {
        Self { wire, health, state: Mutex::default() }
    }

    /// Begins a run of this rank, or refuses it.
    pub(super) fn begin(
        &self,
        run: u64,
        windows: Option<&[WindowId]>,
        site: Site,
        differ: impl Fn(Rank, &[WindowId]) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.begun = run + 1;
        let last = state.own.back().and_then(|given| given.windows.as_deref());
        if state.ahead.is_empty() && last.is_some() && last == windows {
            return Ok(());
        }
        let later = state.ahead.split_off(&(run + 1));
        let ahead = std::mem::replace(&mut state.ahead, later);
        let theirs = ahead.get(&run).into_iter().flatten();
        let outcome = theirs.map(|(by, theirs)| differ(*by, theirs)).find(Result::is_err);
        let windows = windows.filter(|_| outcome.is_none());
        let last = state.own.back().map(|given| given.windows.as_deref());
        if last != Some(windows) {
            let given = Given { from: run, windows: windows.map(<[_]>::to_vec), site };
            state.own.push_back(given);
            if state.own.len() > KEPT {
                state.own.pop_front();
            }
            // Under the lock, to send in order; sending does not wait.
            if let Some(windows) = windows {
                self.wire.send(None, &(run, windows));
            }
        }
        outcome.unwrap_or(Ok(()))
    }

    /// Takes another rank's message.
    pub(super) fn hear(&self, names: &Names, by: Rank, message: &[u8]) {
        let Ok((run, theirs)) = postcard::from_bytes::<Message>(message) else {
            return log::warn!("rank {by} says what no rank says of the windows of a plan");
        };
        let mut state = self.state.lock();
        if run >= state.begun {
            if state.ahead.len() < AHEAD {
                let known = state.ahead.entry(run).or_default();
                // Of ranks with the same windows, one is enough; of two that differ, at least one
                // differs from this rank.
                if known.len() < 2 && known.iter().all(|(_, known)| *known != theirs) {
                    known.push((by, theirs));
                }
            }
            return;
        }
        let own = state.own.iter().rfind(|given| given.from <= run);
        let error = own.and_then(|Given { windows, site, .. }| {
            names.differ(windows.as_deref()?, by, &theirs, *site)
        });
        drop(state);
        if let Some(error) = error {
            self.health.fail(error);
        }
    }
}

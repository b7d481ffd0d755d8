//! One rank's copy of what the ranks give to a plan, where they share no memory.
//!
//! A rank tells the others what it gives for a run when that is not what it gave for the run before. Who
//! hears of it compares it with what it gives for that very run, now or when it comes to it. So two ranks
//! that differ in a run find out: at the last run up to there in which one of them changed, they differ
//! too. Nobody waits, so both may have begun; then the communicator is over, since puts may have missed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::same::Names;
use crate::backend::{WindowId, Wire};
use crate::communicator::Health;
use crate::error::Site;
use crate::lock::Mutex;
use crate::{Rank, Result};

/// See the module.
pub(super) struct Told {
    pub(super) wire: Arc<dyn Wire>,
    health: Arc<Health>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many runs this rank has begun.
    begun: u64,
    /// What it gave, from which run on; none for a run that it refused.
    own: VecDeque<Given>,
    /// What others gave for runs that this rank has not begun.
    ahead: BTreeMap<u64, Vec<(Rank, Vec<WindowId>)>>,
}

struct Given {
    from: u64,
    windows: Option<Vec<WindowId>>,
    site: Site,
}

/// How many changes of its own a rank remembers: it is hardly so many runs ahead of another.
const KEPT: usize = 256;

/// For how many runs to come is remembered what others gave.
const AHEAD: usize = 1024;

/// What is told: a run, and what is given from it on.
type Message = (u64, Vec<WindowId>);

impl Told {
    pub(super) fn new(wire: Arc<dyn Wire>, health: Arc<Health>) -> Self {
        Self { wire, health, state: Mutex::default() }
    }

    /// This rank begins a run, or refuses it.
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
            // Under the lock, so that they are told in their order; it does not wait.
            if let Some(windows) = windows {
                self.wire.send(None, &(run, windows));
            }
        }
        outcome.unwrap_or(Ok(()))
    }

    /// Another rank says what it gives from a run on.
    pub(super) fn hear(&self, names: &Names, by: Rank, message: &[u8]) {
        let Ok((run, theirs)) = postcard::from_bytes::<Message>(message) else {
            return log::warn!("rank {by} says what no rank says of the windows of a plan");
        };
        let mut state = self.state.lock();
        if run >= state.begun {
            if state.ahead.len() < AHEAD {
                let known = state.ahead.entry(run).or_default();
                // One of those who gave the same is enough, and two that differ are: one is not as here.
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

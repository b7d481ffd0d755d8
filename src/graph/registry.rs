//! The graphs of a communicator, and their parts that end with it.

use std::cell::RefCell;
use std::sync::Arc;

use crate::backend::{Backend, WindowId};
use crate::error::Site;
use crate::lock::{Mutex, MutexGuard};

/// The graphs that a communicator captured.
pub(crate) struct GraphRegistry<B: Backend>(RefCell<Vec<Arc<GraphEntry<B>>>>);

/// The state shared by a graph and its communicator.
pub(super) struct GraphEntry<B: Backend> {
    /// The windows and device communicators that it uses on any rank.
    names: Vec<WindowId>,
    state: Mutex<State<B>>,
}

pub(super) struct State<B: Backend> {
    /// Why it can no longer be launched.
    pub(super) stale: Option<String>,
    /// The device's graph, if the device captures graphs, until it is stale.
    pub(super) executable: Option<B::Graph>,
}

impl<B: Backend> GraphEntry<B> {
    pub(super) fn new(names: Vec<WindowId>, executable: Option<B::Graph>) -> Arc<Self> {
        Arc::new(Self { names, state: Mutex::new(State { stale: None, executable }) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock()
    }
}

impl<B: Backend> Default for GraphRegistry<B> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<B: Backend> GraphRegistry<B> {
    /// Adds a new graph, and forgets those that were dropped.
    pub(super) fn add(&self, entry: Arc<GraphEntry<B>>) {
        let mut all = self.0.borrow_mut();
        all.retain(|known| Arc::strong_count(known) > 1);
        all.push(entry);
    }

    /// Invalidates graphs that use a window or a device communicator about to be closed on all
    /// ranks.
    pub(crate) fn lose_naming(&self, what: &str, id: WindowId, site: Site) {
        let why = || format!("{what} #{id}, which it names, was closed (at {site})");
        self.lose(|entry| entry.names.contains(&id), why);
    }

    /// Invalidates all graphs.
    pub(crate) fn lose_all(&self, why: impl Fn() -> String) {
        self.lose(|_| true, why);
    }

    fn lose(&self, is_lost: impl Fn(&GraphEntry<B>) -> bool, why: impl Fn() -> String) {
        self.0.borrow_mut().retain(|entry| {
            let is_lost = is_lost(entry);
            if is_lost {
                let mut state = entry.state();
                state.stale.get_or_insert_with(&why);
                state.executable = None;
            }
            !is_lost
        });
    }
}

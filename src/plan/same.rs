//! The windows that the ranks give to a plan: the same ones in the same run.
//!
//! A put names a window by its number, so a rank that gives another window of that length would have its
//! peers' data where it does not look. The ranks compare what they give without waiting: whoever comes
//! later sees the difference, refuses its run, and the others are told.
//!
//! Ranks that share memory share what was given. Others tell each other, when it changes: see [`told`].

use std::collections::VecDeque;
use std::sync::Arc;

use super::told::Told;
use crate::backend::{Listener, WindowId};
use crate::error::{ArgumentFault, BadArgument, Error, Site};
use crate::lock::Mutex;
use crate::{Rank, Result};

/// What the ranks compare.
pub(super) struct Same {
    pub(super) names: Names,
    kind: Kind,
}

enum Kind {
    /// What all ranks have given.
    Shared(Mutex<State>),
    /// This rank's copy.
    Told(Told),
}

/// What things are called in messages.
pub(super) struct Names {
    pub(super) plan: String,
    /// The windows that are given, in the plan's order.
    pub(super) windows: Vec<String>,
}

struct State {
    /// What was given, from which run on, and by whom first; none by a rank that refused its run.
    changes: VecDeque<(u64, Rank, Option<Vec<WindowId>>)>,
    /// How many runs the foremost rank has begun.
    foremost: u64,
    /// How many each rank has.
    begun: Vec<u64>,
}

impl Names {
    /// What is wrong where rank `by` gave other windows; none if they are the same.
    pub(super) fn differ(
        &self,
        own: &[WindowId],
        by: Rank,
        theirs: &[WindowId],
        site: Site,
    ) -> Option<Error> {
        let at = own.iter().zip(theirs).position(|(own, theirs)| own != theirs)?;
        let why = ArgumentFault::OtherWindow { found: own[at], by, theirs: theirs[at] };
        let buffer = self.windows.get(at).cloned().unwrap_or_default();
        let plan = self.plan.clone();
        Some(BadArgument { plan, buffer, why, site }.into())
    }
}

impl Same {
    pub(super) fn new(names: Names, size: usize, told: Option<Told>) -> Self {
        let shared = || {
            let (changes, foremost, begun) = (VecDeque::new(), 0, vec![0; size]);
            Kind::Shared(Mutex::new(State { changes, foremost, begun }))
        };
        Self { names, kind: told.map_or_else(shared, Kind::Told) }
    }

    /// Hears the other ranks' copies from here on.
    pub(super) fn listen(self: &Arc<Self>) {
        if let Kind::Told(told) = &self.kind {
            let listener: Arc<dyn Listener> = self.clone();
            told.wire.listen(Arc::downgrade(&listener));
        }
    }

    /// A rank begins a run, or refuses it, where it has none to give.
    ///
    /// # Errors
    /// Another rank gave another window.
    pub(super) fn begin(
        &self,
        rank: Rank,
        run: u64,
        windows: Option<&[WindowId]>,
        site: Site,
    ) -> Result<()> {
        let differ = |by, theirs: &[WindowId]| {
            let error = self.names.differ(windows.unwrap_or_default(), by, theirs, site);
            error.map_or(Ok(()), Err)
        };
        match &self.kind {
            Kind::Told(told) => told.begin(run, windows, site, differ),
            Kind::Shared(state) => {
                let mut state = state.lock();
                let Some((by, theirs)) = state.begin(rank, run, windows) else { return Ok(()) };
                differ(by, theirs)
            }
        }
    }
}

impl State {
    /// What another rank has given for this run before.
    fn begin(
        &mut self,
        rank: Rank,
        run: u64,
        windows: Option<&[WindowId]>,
    ) -> Option<(Rank, &[WindowId])> {
        self.begun[rank.index()] = run + 1;
        if run >= self.foremost {
            self.foremost = run + 1;
            let last = self.changes.back().and_then(|(_, _, last)| last.as_deref());
            if last.is_none() || last != windows {
                self.changes.push_back((run, rank, windows.map(<[_]>::to_vec)));
                self.forget();
            }
            return None;
        }
        let (_, by, theirs) = self.changes.iter().rfind(|(from, ..)| *from <= run)?;
        Some((*by, theirs.as_deref()?))
    }

    /// Forgets what every rank has passed.
    fn forget(&mut self) {
        let passed = self.begun.iter().min().copied().unwrap_or(0);
        while self.changes.get(1).is_some_and(|(from, ..)| *from <= passed) {
            self.changes.pop_front();
        }
    }
}

impl Listener for Same {
    fn message(&self, from: Rank, message: &[u8]) {
        if let Kind::Told(told) = &self.kind {
            told.hear(&self.names, from, message);
        }
    }

    fn died(&self, _: Rank, _: &str) {
        // It gives nothing any more.
    }
}

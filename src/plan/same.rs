//! Checks that the ranks pass the same windows to a plan in the same run.
//!
//! A put refers to a window by number, so a rank that passes a different window of the same length
//! would miss its peers' data. The ranks compare their windows without waiting: the later one sees
//! the difference and refuses its run, and the others are told.
//!
//! Ranks that share memory share the record. Others send each other messages when their windows
//! change: see [`told`].

use std::collections::VecDeque;
use std::sync::Arc;

use super::window_record::WindowRecord;
use crate::backend::{Listener, WindowId};
use crate::error::{ArgumentFault, BadArgument, Error, Site};
use crate::lock::Mutex;
use crate::{Rank, Result};

/// The state that the ranks compare.
pub(super) struct Same {
    pub(super) names: Names,
    kind: Kind,
}

enum Kind {
    /// The record of all ranks.
    Shared(Mutex<State>),
    /// This rank's copy.
    Recorded(WindowRecord),
}

/// Names for messages.
pub(super) struct Names {
    pub(super) plan: String,
    /// The caller's windows, in the plan's order.
    pub(super) windows: Vec<String>,
}

struct State {
    /// The windows, the run from which they apply, and the first rank that passed them; `None`
    /// while all ranks that began the run have refused it.
    changes: VecDeque<(u64, Rank, Option<Vec<WindowId>>)>,
    /// How many runs the foremost rank has begun.
    foremost: u64,
    /// How many runs each rank has begun.
    begun: Vec<u64>,
}

impl Names {
    /// The error if rank `by` passed other windows; `None` if they are the same.
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
    pub(super) fn new(names: Names, size: usize, told: Option<WindowRecord>) -> Self {
        let shared = || {
            let (changes, foremost, begun) = (VecDeque::new(), 0, vec![0; size]);
            Kind::Shared(Mutex::new(State { changes, foremost, begun }))
        };
        Self { names, kind: told.map_or_else(shared, Kind::Recorded) }
    }

    /// Begins to receive the other ranks' messages.
    pub(super) fn listen(self: &Arc<Self>) {
        if let Kind::Recorded(told) = &self.kind {
            let listener: Arc<dyn Listener> = self.clone();
            told.wire.listen(Arc::downgrade(&listener));
        }
    }

    /// Begins a run of a rank, or refuses it, without windows.
    ///
    /// # Errors
    /// Another rank passed another window.
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
            Kind::Recorded(told) => told.begin(run, windows, site, differ),
            Kind::Shared(state) => {
                let mut state = state.lock();
                let Some((by, theirs)) = state.begin(rank, run, windows) else { return Ok(()) };
                differ(by, theirs)
            }
        }
    }
}

impl State {
    /// Returns the windows that another rank passed for this run before.
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
        let (_, by, theirs) = self.changes.iter_mut().rfind(|(from, ..)| *from <= run)?;
        match (&theirs, windows) {
            (Some(_), _) | (None, None) => Some((*by, theirs.as_deref()?)),
            // Ranks ahead refused this run: the next one compares itself with this rank.
            (None, Some(own)) => {
                (*by, *theirs) = (rank, Some(own.to_vec()));
                None
            }
        }
    }

    /// Drops entries that every rank has passed.
    fn forget(&mut self) {
        let passed = self.begun.iter().min().copied().unwrap_or(0);
        while self.changes.get(1).is_some_and(|(from, ..)| *from <= passed) {
            self.changes.pop_front();
        }
    }
}

impl Listener for Same {
    fn message(&self, from: Rank, message: &[u8]) {
        if let Kind::Recorded(told) = &self.kind {
            told.hear(&self.names, from, message);
        }
    }

    fn died(&self, _: Rank, _: &str) {
        // It passes nothing any more.
    }
}

#[cfg(test)]
mod tests {
    use super::{Names, Same};
    use crate::Rank;
    use crate::backend::WindowId;
    use crate::error::Site;

    fn same(ranks: usize) -> Same {
        let names = Names { plan: "plan".to_owned(), windows: vec!["u".to_owned()] };
        Same::new(names, ranks, None)
    }

    /// Whether a rank's run, with this window or refused, agrees with those before.
    fn agrees(same: &Same, rank: u32, run: u64, window: Option<WindowId>) -> bool {
        let windows = window.map(|id| [id]);
        same.begin(Rank(rank), run, windows.as_ref().map(|all| &all[..]), Site::caller()).is_ok()
    }

    #[test]
    fn two_ranks_behind_one_that_refused_are_compared() {
        let (one, other) = (1, 2);
        let same = same(3);
        assert!(agrees(&same, 0, 0, Some(one)));
        assert!(agrees(&same, 0, 1, None) && agrees(&same, 0, 2, Some(one)));
        assert!(agrees(&same, 1, 0, Some(one)) && agrees(&same, 2, 0, Some(one)));
        assert!(agrees(&same, 1, 1, Some(other)) && !agrees(&same, 2, 1, Some(one)));
        // The next run is the foremost rank's again.
        assert!(agrees(&same, 1, 2, Some(one)) && !agrees(&same, 2, 2, Some(other)));
    }

    #[test]
    fn a_refused_run_matches_any_other() {
        let same = same(2);
        assert!(agrees(&same, 0, 0, Some(1)) && agrees(&same, 1, 0, None));
        assert!(agrees(&same, 0, 1, None) && agrees(&same, 1, 1, None));
        assert!(agrees(&same, 0, 2, None) && agrees(&same, 1, 2, Some(2)));
    }
}

//! The windows that the ranks give to a plan: the same ones in the same run.
//!
//! A put names a window by its number, so a rank that gives another window of that length would have its
//! peers' data where it does not look. The ranks compare what they give without waiting: whoever comes
//! later sees the difference, refuses its run, and the others are told.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::Rank;
use crate::backend::WindowId;

/// What the ranks have given so far.
pub(super) struct Same {
    state: Mutex<State>,
}

struct State {
    /// What was given, from which run on, and by whom first; none by a rank that refused its run.
    changes: VecDeque<(u64, Rank, Option<Vec<WindowId>>)>,
    /// How many runs the foremost rank has begun.
    foremost: u64,
    /// How many each rank has.
    begun: Vec<u64>,
}

/// Another rank gave another window.
pub(super) struct Other {
    pub(super) by: Rank,
    /// Which of those that were given.
    pub(super) at: usize,
    pub(super) theirs: WindowId,
}

impl Same {
    /// Of ranks that share memory; `alone` is one that does not, which compares with itself only.
    pub(super) fn new(size: usize, alone: Option<Rank>) -> Self {
        // Those that never begin here hold up nothing.
        let begun =
            |rank| if alone.is_none_or(|alone| alone.index() == rank) { 0 } else { u64::MAX };
        let begun = (0..size).map(begun).collect();
        let state = State { changes: VecDeque::new(), foremost: 0, begun };
        Self { state: Mutex::new(state) }
    }

    /// A rank begins a run, or refuses it.
    pub(super) fn begin(
        &self,
        rank: Rank,
        run: u64,
        windows: Option<&[WindowId]>,
    ) -> Result<(), Other> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.begun[rank.index()] = run + 1;
        if run >= state.foremost {
            state.foremost = run + 1;
            let last = state.changes.back().and_then(|(_, _, last)| last.as_deref());
            if last.is_none() || last != windows {
                state.changes.push_back((run, rank, windows.map(<[_]>::to_vec)));
                state.forget();
            }
            return Ok(());
        }
        let given = state.changes.iter().rfind(|(from, ..)| *from <= run);
        let Some((_, by, Some(theirs))) = given else { return Ok(()) };
        let mut pairs = theirs.iter().zip(windows.into_iter().flatten());
        let differ = pairs.position(|(theirs, own)| theirs != own);
        differ.map_or(Ok(()), |at| Err(Other { by: *by, at, theirs: theirs[at] }))
    }
}

impl State {
    /// Forgets what every rank has passed.
    fn forget(&mut self) {
        let passed = self.begun.iter().min().copied().unwrap_or(0);
        while self.changes.get(1).is_some_and(|(from, ..)| *from <= passed) {
            self.changes.pop_front();
        }
    }
}

//! Warnings that others can cause: told at once, then seldom.

use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::lock::Mutex;

/// How long there is silence after one.
const REST: Duration = Duration::from_secs(10);

/// One kind of warning.
pub(crate) struct RateLimited(Mutex<State>);

struct State {
    told: Option<Instant>,
    /// Those that were not told since.
    untold: u64,
}

impl RateLimited {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State { told: None, untold: 0 }))
    }

    /// Warns, unless it just did.
    pub(crate) fn warn(&self, what: impl Display) {
        match self.tells(Instant::now()) {
            Some(0) => log::warn!("{what}"),
            Some(untold) => log::warn!("{what} ({untold} more of these were not told)"),
            None => {}
        }
    }

    /// Whether it is told, and how many were not before it.
    fn tells(&self, now: Instant) -> Option<u64> {
        let state = &mut *self.0.lock();
        if state.told.is_some_and(|told| now.saturating_duration_since(told) < REST) {
            state.untold += 1;
            return None;
        }
        state.told = Some(now);
        Some(std::mem::take(&mut state.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::{REST, RateLimited};
    use std::time::Instant;

    #[test]
    fn what_is_not_told_is_counted() {
        let (rate_limited, begun) = (RateLimited::new(), Instant::now());
        assert_eq!(rate_limited.tells(begun), Some(0));
        (0..1000).for_each(|_| assert_eq!(rate_limited.tells(begun), None));
        assert_eq!(rate_limited.tells(begun + REST), Some(1000));
        assert_eq!(rate_limited.tells(begun + REST), None);
        assert_eq!(rate_limited.tells(begun + REST * 2), Some(1));
    }
}

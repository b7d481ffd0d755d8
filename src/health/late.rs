//! Late ranks: those that have not made the calls that this rank has made.
//!
//! Calls are counted anyway, so detection adds no cost to them. When the program asks, or a wait
//! has a policy to follow, this rank compares its counts with those of the others. It remembers its
//! own counts as a mark; a rank is late from the time of the first mark that it has not reached. A
//! rank that is ahead in any count is not late, only in a different order.

use std::fmt;
use std::time::{Duration, Instant};

use crate::Rank;
use crate::backend::{Counts, Pace, Paced};
use crate::lock::Mutex;
use crate::rank::Generation;

/// What to do about a late rank.
///
/// ```
/// # use typed_nccl::{CommConfig, Stragglers};
/// use std::time::Duration;
///
/// let late = Stragglers::Report(Duration::from_secs(10));
/// assert_eq!(CommConfig::builder().stragglers(late).build().stragglers, late);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Stragglers {
    /// Nothing: other ranks wait for it within their deadline.
    /// [`health`](crate::Communicator::health) names it.
    #[default]
    Wait,
    /// After it has been late for this long, reports it once in the log and to the
    /// [`watch`](crate::CommConfig::watch), and again whenever it falls behind anew.
    Report(Duration),
    /// After it has been late for this long, treats it as lost: the communicator is poisoned with
    /// [`Error::PeerFailed`](crate::Error::PeerFailed), and
    /// [`recover`](crate::Communicator::recover) continues without it.
    LeaveOut(Duration),
}

impl Stragglers {
    /// How long a rank must lag to count as late.
    fn after(self) -> Duration {
        match self {
            Self::Wait => LATE,
            Self::Report(after) | Self::LeaveOut(after) => after,
        }
    }

    /// How often a waiting rank compares; `None` if the policy has no use for it.
    fn while_waiting(self) -> Option<Duration> {
        match self {
            Self::Wait => None,
            Self::Report(after) | Self::LeaveOut(after) => Some((after / 10).max(LEAST)),
        }
    }
}

/// The default for [`Stragglers::Wait`]: every rank lags for a moment.
const LATE: Duration = Duration::from_millis(100);

/// The least interval between comparisons for `health`.
const EVERY: Duration = Duration::from_millis(2);

/// The least interval during a wait, because each of many waiting ranks compares all others.
const LEAST: Duration = Duration::from_millis(10);

/// The extra time for a rank that has not reported its counts.
const SILENT: Duration = Duration::from_secs(1);

/// A rank that has not made the calls that this rank has made.
///
/// See the example of [`Communicator::health`](crate::Communicator::health).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// The late rank.
    pub rank: Rank,
    /// How many operations it has yet to call that this rank has called, as far as this rank knows:
    /// collectives, transfers between the two, and calls on the host such as `barrier`.
    pub operations: u64,
    /// When this rank first noticed. It may have been late for longer.
    pub since: Instant,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, operations, since } = self;
        let s = if *operations == 1 { "" } else { "s" };
        write!(f, "rank {rank} is late by {operations} operation{s}, for {:.1?}", since.elapsed())
    }
}

/// The state of a healthy communicator, as [`health`](crate::Communicator::health) returns it.
///
/// ```
/// # use typed_nccl::{Host, Late, Seat, Standing};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let standing: Standing = comm.health()?;
/// let late: &[Late] = standing.late();
/// assert!(late.iter().all(|late| late.operations > 0));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Standing {
    late: Vec<Late>,
}

impl Standing {
    /// The ranks that hold this one up, or will.
    pub fn late(&self) -> &[Late] {
        &self.late
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, others) = match self.late.split_first() {
            Some(split) => split,
            None => return f.write_str("nobody is late"),
        };
        first.fmt(f)?;
        others.iter().try_for_each(|late| write!(f, "; {late}"))
    }
}

/// How many exchanges each rank has posted, seen from one rank.
pub(crate) trait Posted: Send + Sync {
    fn own(&self) -> u64;
    fn of(&self, rank: Rank) -> u64;
}

/// Compares the ranks' calls on behalf of one of them.
pub(crate) struct Lateness {
    pace: Box<dyn Pace>,
    posted: Box<dyn Posted>,
    pub(crate) policy: Stragglers,
    generation: Generation,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    /// By rank.
    marks: Vec<Option<Mark>>,
    late: Vec<Late>,
}

/// This rank's counts at a time when another rank had not reached them.
struct Mark {
    called: Counts,
    since: Instant,
    is_late: bool,
}

impl Lateness {
    pub(crate) fn new(
        pace: Box<dyn Pace>,
        posted: Box<dyn Posted>,
        policy: Stragglers,
        generation: Generation,
    ) -> Self {
        Self { pace, posted, policy, generation, state: Mutex::default() }
    }

    /// How many exchanges this rank has contributed to.
    pub(crate) fn posted(&self) -> u64 {
        self.posted.own()
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing { late: self.state.lock().late.clone() }
    }

    /// Compares on behalf of `health`; returns ranks that were not late at the last comparison.
    pub(crate) fn look(&self) -> Vec<Late> {
        self.look_every(EVERY)
    }

    /// Compares on behalf of a host wait; returns nothing unless the policy needs it.
    pub(crate) fn look_while_waiting(&self) -> Vec<Late> {
        self.policy.while_waiting().map_or_else(Vec::new, |every| self.look_every(every))
    }

    fn look_every(&self, every: Duration) -> Vec<Late> {
        let (mut state, now) = (self.state.lock(), Instant::now());
        if state.looked.is_some_and(|then| now - then < every) {
            return Vec::new();
        }
        state.looked = Some(now);
        let State { marks, late, .. } = &mut *state;
        late.clear();
        let mut news = Vec::new();
        let posted = self.posted.own();
        self.pace.ask();
        for Paced { rank, own, theirs, heard } in self.pace.others() {
            let own = Counts { exchanges: posted, ..own };
            let theirs = Counts { exchanges: self.posted.of(rank), ..theirs };
            if marks.len() <= rank.index() {
                marks.resize_with(rank.index() + 1, || None);
            }
            let place = &mut marks[rank.index()];
            let Some(operations) = own.ahead_of(&theirs) else {
                *place = None;
                continue;
            };
            let mark = match place {
                Some(mark) if mark.called.ahead_of(&theirs).is_some() => mark,
                // It has reached the mark, and is behind again.
                _ => place.insert(Mark { called: own, since: now, is_late: false }),
            };
            if !mark.is_over(self.policy.after(), now, heard) {
                continue;
            }
            let rank = self.generation.of(rank);
            let found = Late { rank, operations, since: mark.since };
            late.push(found);
            if !std::mem::replace(&mut mark.is_late, true) {
                news.push(found);
            }
        }
        news
    }
}

impl Mark {
    /// Whether a rank that has not reached the mark is late, if its last report came at `heard`.
    fn is_over(&self, after: Duration, now: Instant, heard: Option<Instant>) -> bool {
        let waited = now - self.since;
        // An earlier report may have been sent before the mark was set.
        let is_known = heard.is_some_and(|heard| heard >= self.since + after / 2);
        waited >= after && (is_known || waited >= after + SILENT)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{Duration, EVERY, Lateness, Posted, Rank, Stragglers};
    use crate::backend::{Pace, Paced};
    use crate::rank::Generation;

    /// Counts comparisons.
    #[derive(Clone, Default)]
    struct Compared(Arc<AtomicUsize>);

    impl Pace for Compared {
        fn others(&self) -> Vec<Paced> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        }
    }

    struct NoExchanges;

    impl Posted for NoExchanges {
        fn own(&self) -> u64 {
            0
        }

        fn of(&self, _: Rank) -> u64 {
            0
        }
    }

    #[test]
    fn a_wait_compares_only_if_something_would_follow() {
        let hour = Duration::from_secs(3600);
        for (policy, waits) in
            [(Stragglers::Wait, 0), (Stragglers::Report(hour), 1), (Stragglers::LeaveOut(hour), 1)]
        {
            let compared = Compared::default();
            let (pace, posted) = (Box::new(compared.clone()), Box::new(NoExchanges));
            let lateness = Lateness::new(pace, posted, policy, Generation::default());
            for _ in 0..2 {
                lateness.look_while_waiting();
                std::thread::sleep(EVERY);
            }
            assert_eq!(compared.0.load(Ordering::Relaxed), waits, "{policy:?}, while it waits");
            lateness.look();
            assert_eq!(compared.0.load(Ordering::Relaxed), waits + 1, "{policy:?}, when asked");
        }
    }
}

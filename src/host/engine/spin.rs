//! Short waits. Parking and waking a thread costs more than a small collective, so a waiting thread
//! spins for a moment first, if no other thread needs its core.

use std::cell::Cell;
use std::collections::HashMap;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::state::State;
use super::worker::CORES;

/// How long to spin: about the cost of parking.
pub(super) const SPIN: Duration = Duration::from_micros(20);

/// How long to spin for the next news of other processes, which wake a thread that wakes another.
pub(super) const SPIN_FOR_NEWS: Duration = Duration::from_micros(60);

/// How often to try to lock before sleeping.
pub(super) const TRIES: usize = 100;

/// How many checks to make between two readings of the clock.
const LOOKS: usize = 32;

/// The most waits that skip spinning after it was in vain. The other ranks may be late, or the
/// cores needed by threads of other programs, which are not counted here.
const MOST_SKIPPED: u32 = 255;

thread_local! {
    static PATIENCE: Cell<SpinBudget> = const { Cell::new(SpinBudget { skips: 0, left: 0 }) };
}

/// Whether spinning has paid off for one thread.
#[derive(Clone, Copy)]
struct SpinBudget {
    /// How many waits skipped spinning after it was last in vain. The next time it is twice as many
    /// and one more.
    skips: u32,
    /// How many of these waits are left.
    left: u32,
}

impl SpinBudget {
    /// Returns whether the next wait spins.
    fn take(&mut self) -> bool {
        let spins = self.left == 0;
        self.left = self.left.saturating_sub(1);
        spins
    }

    fn learn(&mut self, it_paid: bool) {
        self.skips = if it_paid { 0 } else { (2 * self.skips + 1).min(MOST_SKIPPED) };
        self.left = self.skips;
    }
}

/// How many threads may have something to do. Read without the engine's lock, so slightly out of
/// date.
#[derive(Default)]
pub(super) struct BusyThreads {
    /// Threads that have ranks.
    ranks: AtomicUsize,
    /// Workers that are not idle.
    workers: AtomicUsize,
    /// Pieces of work that are ready.
    ready: AtomicUsize,
}

/// The threads that have ranks, as far as known.
#[derive(Default)]
pub(super) struct RankThreads {
    /// How many live ranks each thread has joined.
    threads: HashMap<ThreadId, usize>,
    /// The size of the largest communicator, as the engine does not see communicators move between
    /// threads.
    pub(super) widest: usize,
}

impl RankThreads {
    pub(super) fn enter(&mut self, thread: ThreadId, size: usize) {
        *self.threads.entry(thread).or_default() += 1;
        self.widest = self.widest.max(size);
    }

    pub(super) fn leave(&mut self, thread: ThreadId) {
        if let Some(ranks) = self.threads.get_mut(&thread) {
            *ranks -= 1;
            if *ranks == 0 {
                self.threads.remove(&thread);
            }
        }
    }

    fn count(&self) -> usize {
        self.threads.len().max(self.widest)
    }
}

impl BusyThreads {
    /// Updates the number of threads and of ready work.
    pub(super) fn note(&self, state: &State) {
        self.ranks.store(state.rank_threads.count(), Relaxed);
        self.workers.store(state.workers - state.idle_workers, Relaxed);
        self.ready.store(state.ready.len(), Relaxed);
    }

    /// Whether there may be a core for a worker beside the threads that have ranks.
    pub(super) fn may_have_help(&self) -> bool {
        self.ranks.load(Relaxed) < *CORES
    }

    /// Whether a spinning thread needs no other thread's core and has nothing better to do.
    fn may_spin(&self, cores: usize) -> bool {
        let threads = self.ranks.load(Relaxed) + self.workers.load(Relaxed);
        threads <= cores && self.ready.load(Relaxed) == 0
    }

    /// Spins for at most the first limit, and for the second one since `hear` last brought news.
    /// Returns whether the wait is over.
    pub(super) fn spin(
        &self,
        limits: (Duration, Duration),
        hear: impl Fn() -> bool,
        is_over: impl Fn() -> bool,
    ) -> bool {
        if !self.may_spin(*CORES) {
            return false;
        }
        PATIENCE.with(|budget| {
            let mut own = budget.get();
            let spun = own.take() && {
                let spun = self.spin_on(*CORES, limits, hear, is_over);
                own.learn(spun);
                spun
            };
            budget.set(own);
            spun
        })
    }

    fn spin_on(
        &self,
        cores: usize,
        (at_most, patience): (Duration, Duration),
        hear: impl Fn() -> bool,
        is_over: impl Fn() -> bool,
    ) -> bool {
        let started = Instant::now();
        let mut heard = Duration::ZERO;
        while self.may_spin(cores) {
            let spun = started.elapsed();
            if spun >= at_most || spun - heard >= patience {
                return false;
            }
            for _ in 0..LOOKS {
                if hear() {
                    heard = started.elapsed();
                }
                if is_over() {
                    return true;
                }
                spin_loop();
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;
    use std::time::Duration;

    use super::{BusyThreads, MOST_SKIPPED, RankThreads, Relaxed, SpinBudget};

    /// Whether a wait spins until the fifth check, with this many ranks, workers and pieces of work
    /// on two cores.
    fn spins(ranks: usize, workers: usize, ready: usize) -> bool {
        let busy_threads = BusyThreads::default();
        busy_threads.ranks.store(ranks, Relaxed);
        busy_threads.workers.store(workers, Relaxed);
        busy_threads.ready.store(ready, Relaxed);
        let looks = Cell::new(0);
        let is_over = || looks.replace(looks.get() + 1) == 4;
        let long = Duration::from_secs(600);
        let spun = busy_threads.spin_on(2, (long, long), || false, is_over);
        assert_eq!(looks.get(), if spun { 5 } else { 0 });
        spun
    }

    #[test]
    fn a_thread_spins_only_where_it_takes_nobodys_core() {
        assert!(spins(2, 0, 0) && spins(1, 1, 0));
        assert!(!spins(3, 0, 0) && !spins(2, 1, 0), "more threads than cores");
        assert!(!spins(2, 0, 1), "there is something to do");
    }

    #[test]
    fn spinning_in_vain_is_done_less_and_less() {
        let mut patience = SpinBudget { skips: 0, left: 0 };
        let mut spun = Vec::new();
        for wait in 0..2000 {
            if patience.take() {
                spun.push(wait);
                patience.learn(false);
            }
        }
        assert_eq!(&spun[..5], [0, 2, 6, 14, 30]);
        assert!(spun.len() < 20 && spun[10] - spun[9] == MOST_SKIPPED + 1, "{spun:?}");
        while !patience.take() {}
        patience.learn(true);
        assert!(patience.take());
        patience.learn(true);
        assert!(patience.take());
    }

    #[test]
    fn a_thread_with_many_ranks_is_one_and_a_communicator_may_have_moved() {
        let mut rank_threads = RankThreads::default();
        let own = thread::current().id();
        let other = thread::spawn(|| thread::current().id()).join().expect("it ends");
        rank_threads.enter(own, 2);
        rank_threads.enter(own, 2);
        rank_threads.enter(other, 2);
        assert_eq!(rank_threads.count(), 2);
        rank_threads.leave(own);
        assert_eq!(rank_threads.count(), 2);
        rank_threads.enter(own, 4);
        assert_eq!(rank_threads.count(), 4);
        rank_threads.widest = 0;
        rank_threads.leave(own);
        rank_threads.leave(own);
        assert_eq!(rank_threads.count(), 1);
        rank_threads.leave(other);
        assert_eq!(rank_threads.count(), 0);
    }
}

//! Workers: one thread per core, started on first use, and one more for each worker inside a
//! closure.

use std::sync::LazyLock;
use std::thread;

use super::state::{State, Work};
use super::{ENGINE, Engine, Here};
use crate::lock;

/// Read once, as the answer comes from files.
pub(super) static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// More idle workers than this end.
const IDLE: usize = 256;

impl Engine {
    /// Wakes as many workers as there are pieces of ready work, apart from those that this thread
    /// takes next. Starts workers the first time, and one more for each inside a closure, which may
    /// take arbitrarily long. Returns the error if one could not be started.
    #[must_use = "to be logged after the lock"]
    pub(super) fn wake_workers(&self, state: &mut State, own: usize) -> Option<std::io::Error> {
        let wanted = *CORES + state.in_closures;
        while state.workers < wanted {
            let name = format!("typed-nccl worker {}", state.workers);
            let spawned = thread::Builder::new().name(name).spawn(|| ENGINE.serve());
            match spawned {
                Ok(_) => state.workers += 1,
                Err(error) => {
                    self.work.notify_all();
                    return Some(error);
                }
            }
        }
        // Waking nobody would still be a call of the system.
        let idle = state.idle_workers;
        let pieces = match idle {
            0 => 0,
            _ => state.pieces(idle + own).saturating_sub(own),
        };
        match pieces {
            all if all == idle && idle > 0 => self.work.notify_all(),
            some => (0..some).for_each(|_| self.work.notify_one()),
        }
        None
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            let work = state.any_work();
            self.busy_threads.note(&state);
            match work {
                Some(work) => {
                    // The remaining work may be a closure that this worker's closure waits for.
                    if matches!(work, Work::Run { .. }) && !state.ready.is_empty() {
                        let _ = self.wake_workers(&mut state, 0);
                    }
                    drop(state);
                    self.run(work, Here::OneLater);
                    state = self.lock();
                }
                None if state.workers > *CORES + state.in_closures + IDLE => {
                    state.workers -= 1;
                    return;
                }
                None => {
                    state.idle_workers += 1;
                    self.busy_threads.note(&state);
                    state = lock::wait(&self.work, state);
                    state.idle_workers -= 1;
                }
            }
        }
    }
}

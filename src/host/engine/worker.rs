//! Workers: one thread a core, started when there is first something to do.

use super::state::State;
use super::{ENGINE, Engine};

impl Engine {
    /// Wakes workers for ready work; starts them the first time.
    pub(super) fn wake_workers(&self, state: &mut State) {
        let wanted = std::thread::available_parallelism().map_or(1, usize::from);
        while state.workers < wanted {
            let name = format!("typed-nccl worker {}", state.workers);
            let spawned = std::thread::Builder::new().name(name).spawn(|| ENGINE.serve());
            match spawned {
                Ok(_) => state.workers += 1,
                Err(error) => {
                    log::warn!("no thread for a host worker: {error}");
                    break;
                }
            }
        }
        self.work.notify_all();
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            match state.any_work() {
                Some(work) => {
                    drop(state);
                    self.run(work);
                    state = self.lock();
                }
                None => {
                    state =
                        self.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
            }
        }
    }
}

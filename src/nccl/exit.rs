//! The end of the process: no thread of ours is inside NCCL when its destructors run.
//!
//! Communicators end on threads that `main` does not wait for: the reaper's, those that join. A process
//! that ends meanwhile would take NCCL apart under them.

use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// How long the end of the process waits.
const LIMIT: Duration = Duration::from_secs(5);

struct State {
    inside: usize,
    ending: bool,
}

static STATE: Mutex<State> = Mutex::new(State { inside: 0, ending: false });
static LEFT: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says that a thread is inside NCCL with the life of a communicator.
pub(super) struct Inside(());

/// Enters; none when the process ends.
pub(super) fn enter() -> Option<Inside> {
    // After NCCL was loaded, so that it runs before NCCL's own destructors.
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(register);
    let mut state = state();
    if state.ending {
        return None;
    }
    state.inside += 1;
    Some(Inside(()))
}

impl Drop for Inside {
    fn drop(&mut self) {
        state().inside -= 1;
        LEFT.notify_all();
    }
}

fn register() {
    // SAFETY: the function is there as long as the process, takes nothing and does not unwind.
    if unsafe { libc::atexit(at_exit) } != 0 {
        log::debug!("no place among the functions that run when the process ends");
    }
}

extern "C" fn at_exit() {
    let until = Instant::now() + LIMIT;
    let mut state = state();
    state.ending = true;
    while state.inside > 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let waited = LEFT.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

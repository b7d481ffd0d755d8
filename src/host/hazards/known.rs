//! What the host knows, over all of its threads.
//!
//! The program's threads communicate in ways that are invisible here (a channel, a join, a barrier
//! of the standard library). So what one thread has observed (by a host wait, a reached mark, or
//! its own access) counts as known to everything that any thread enqueues later. This hides
//! mistakes and invents none.

use std::sync::{Arc, LazyLock};

use typed_nccl_match::{Clock, When};

use super::line::HOST;
use crate::lock::Mutex;

#[derive(Default)]
struct Known {
    clock: Arc<Clock>,
    /// The last access by the host itself.
    last: u64,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// What the host knows now.
pub(super) fn now() -> Arc<Clock> {
    KNOWN.lock().clock.clone()
}

/// Records that the host has learnt something.
pub(super) fn learn(what: impl FnOnce(&mut Clock)) {
    let mut known = KNOWN.lock();
    let clock = Arc::make_mut(&mut known.clock);
    what(clock);
    // What one communicator's calls failed to order must not silence all others of this process.
    clock.forget_losses();
}

/// Begins an access by the host itself.
pub(super) fn begins() -> When {
    let mut known = KNOWN.lock();
    known.last += 1;
    When { line: HOST, event: known.last, after: Clock::clone(&known.clock) }
}

/// Ends the access.
pub(super) fn ends(event: u64) {
    learn(|known| known.learn(HOST, event));
}

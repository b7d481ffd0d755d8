//! What the host knows: all of its threads together.
//!
//! The program's threads tell each other things in ways that nobody sees (a channel, a join, a barrier
//! of the standard library). So what one thread has seen (by a host wait, by a mark that is reached, by a
//! read or write of its own) counts as known to whatever any thread enqueues later. This hides mistakes
//! and invents none.

use std::sync::{Arc, LazyLock};

use typed_nccl_match::{Clock, When};

use super::line::HOST;
use crate::lock::Mutex;

#[derive(Default)]
struct Known {
    clock: Arc<Clock>,
    /// The last access of the host's own.
    last: u64,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// What the host knows now.
pub(super) fn now() -> Arc<Clock> {
    KNOWN.lock().clock.clone()
}

/// The host has learnt something.
pub(super) fn learn(what: impl FnOnce(&mut Clock)) {
    what(Arc::make_mut(&mut KNOWN.lock().clock));
}

/// An access of the host's own begins.
pub(super) fn begins() -> When {
    let mut known = KNOWN.lock();
    known.last += 1;
    When { line: HOST, event: known.last, after: Clock::clone(&known.clock) }
}

/// It is over.
pub(super) fn ends(event: u64) {
    learn(|known| known.learn(HOST, event));
}

//! A process that does not wait as a whole.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Runs `body` while another thread of the process waits for the clock: somebody might still make a
/// call, so a wait that nobody ends passes its deadline.
pub(crate) fn busy<R>(body: impl FnOnce() -> R) -> R {
    thread::scope(|threads| {
        let (_over, until) = channel::<()>();
        threads.spawn(move || until.recv_timeout(Duration::from_secs(600)));
        body()
    })
}

//! Ends the process with a message on a deadlock, which would otherwise block the test run.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Longer than a case whose communicators time out takes.
const LIMIT: Duration = Duration::from_secs(90);

pub(crate) fn watch<R>(body: impl FnOnce() -> R) -> R {
    let (done, watched) = channel::<()>();
    thread::spawn(move || {
        if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a case hangs: it took more than {LIMIT:?}");
            std::process::abort();
        }
    });
    let result = body();
    drop(done);
    result
}

//! A deadlock ends the process, with a word, where it would hold up whoever waits for the tests.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// More than a case takes whose communicators time out.
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

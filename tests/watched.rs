//! Tests that could hang.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{panic, thread};

use typed_nccl::Result;

/// Runs a test on its own thread; a deadlock fails it.
pub(crate) fn watched(body: impl FnOnce() -> Result<()> + Send + 'static) {
    let (done, over) = channel();
    let thread = thread::spawn(move || {
        let outcome = body();
        let _ = done.send(());
        outcome
    });
    if let Err(RecvTimeoutError::Timeout) = over.recv_timeout(Duration::from_secs(60)) {
        panic!("it hangs");
    }
    match thread.join() {
        Ok(outcome) => outcome.expect("no error"),
        Err(panicked) => panic::resume_unwind(panicked),
    }
}

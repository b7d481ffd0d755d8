//! The end of the process: what its ranks have said reaches the others, and those that never ended
//! say so.

use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::hub::{Command, Hub};

/// How long the end of the process waits at most until the other ranks know what this one has said:
/// a neighbour that reads nothing, and a meeting that failed, have their own, shorter, times.
const PATIENCE: Duration = Duration::from_secs(30);

static HUB: OnceLock<Arc<Hub>> = OnceLock::new();

pub(super) fn at_the_end_of(hub: &Arc<Hub>) {
    if HUB.set(hub.clone()).is_ok() {
        // SAFETY: the function may be called at any time and never unwinds.
        if unsafe { libc::atexit(end) } != 0 {
            log::debug!("the end of the process will not be told to the other ranks");
        }
    }
}

extern "C" fn end() {
    let Some(hub) = HUB.get() else { return };
    let (sender, done) = channel();
    hub.send(Command::End(sender));
    // Too late is as good as not at all: the others see the connections close.
    let _ = done.recv_timeout(PATIENCE);
}

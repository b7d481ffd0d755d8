//! Process exit: delivers the last messages, and reports ranks that never ended.

use std::process;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::hub::{Command, Hub};

/// The longest wait at exit. Peers that do not read and failed rendezvous have shorter limits of
/// their own.
const PATIENCE: Duration = Duration::from_secs(30);

/// The process that asked, and its hub.
static HUB: OnceLock<(u32, Arc<Hub>)> = OnceLock::new();

pub(super) fn flush_at_exit(hub: &Arc<Hub>) {
    if HUB.set((process::id(), hub.clone())).is_ok() {
        // SAFETY: `end` may run at any time and never unwinds.
        if unsafe { libc::atexit(end) } != 0 {
            log::debug!("atexit failed: this process will exit without telling the other ranks");
        }
    }
}

extern "C" fn end() {
    // A child made by `fork` has none of the threads that would answer.
    let Some((_, hub)) = HUB.get().filter(|(asked, _)| *asked == process::id()) else { return };
    let (sender, done) = channel();
    hub.send(Command::End(sender));
    // After a timeout the peers see the connections close.
    let _ = done.recv_timeout(PATIENCE);
    crate::exit::last();
}

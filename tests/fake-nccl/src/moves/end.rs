//! The end of the process: it does not come while NCCL holds up a thread, or while a stream waits for a
//! signal, as CUDA's and NCCL's destructors do not return then.

use std::sync::Once;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use super::os;

/// What the end waits for.
static HOLDS: AtomicUsize = AtomicUsize::new(0);

/// Keeps the process from ending, until it is dropped.
pub(crate) struct Hold(());

impl Hold {
    pub(crate) fn new() -> Self {
        HOLDS.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        HOLDS.fetch_sub(1, SeqCst);
    }
}

/// Called before the program can register anything that ends what holds on.
pub(crate) fn prepare() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| os::at_exit(wait));
}

extern "C" fn wait() {
    while HOLDS.load(SeqCst) > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

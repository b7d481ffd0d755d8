//! The end of the process. It waits while NCCL holds up a thread or a stream waits for a signal,
//! since the destructors of CUDA and NCCL would not return.

use std::sync::Once;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use super::os;

/// The number of reasons to wait.
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

/// Called before the program can register an exit handler that ends those waits.
pub(crate) fn prepare() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| os::at_exit(wait));
}

extern "C" fn wait() {
    while HOLDS.load(SeqCst) > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

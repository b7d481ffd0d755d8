//! Whether a whole process waits: only then is it certain that nobody makes the next call.
//!
//! A communicator may be in the hands of any thread, so every thread counts. Those that are known to
//! wait are counted where they do; the system says how many there are.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Threads that wait for other threads to end, or for communicators that are dropped.
static QUIET: AtomicUsize = AtomicUsize::new(0);

/// Communicators that were dropped and have not ended.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// This thread does nothing by itself for as long as it lives.
pub(crate) struct Quiet(());

impl Quiet {
    pub(crate) fn enter() -> Self {
        QUIET.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.fetch_sub(1, SeqCst);
    }
}

/// Something goes on in the background for as long as it lives.
pub(crate) struct Busy(());

impl Busy {
    pub(crate) fn new() -> Self {
        BUSY.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, SeqCst);
    }
}

/// Whether this process has no threads but `waiting` ones and those that are quiet. False where the
/// system does not tell.
pub(crate) fn all_wait(waiting: usize) -> bool {
    BUSY.load(SeqCst) == 0
        && threads().is_some_and(|threads| threads == waiting + QUIET.load(SeqCst))
}

#[cfg(target_os = "linux")]
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

#[cfg(not(target_os = "linux"))]
fn threads() -> Option<usize> {
    None
}

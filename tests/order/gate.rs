//! Blocked closures, and other helpers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use typed_nccl::error::Error;
use typed_nccl::{AnyDevice, Communicator, Host, Mark, Result, Seat};

/// Long enough for unblocked work to happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(30);

/// The longest time that a closure is blocked: a gate that is never opened opens itself, and its
/// test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Blocks closures until it is opened or dropped.
pub(crate) struct Gate {
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { open: Arc::default() }
    }

    /// A function that blocks the closure calling it.
    pub(crate) fn pass(&self) -> impl FnOnce() + Send + 'static {
        let open = self.open.clone();
        move || {
            let (open, changed) = &*open;
            let open = open.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(open, PATIENCE, |open| !*open);
            *waited.unwrap_or_else(PoisonError::into_inner).0 = true;
        }
    }

    /// Opens it after a while, from another thread.
    pub(crate) fn open_later(&self) {
        let open = self.open.clone();
        thread::spawn(move || {
            thread::sleep(A_WHILE);
            Self::set(&open);
        });
    }

    pub(crate) fn open(&self) {
        Self::set(&self.open);
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.open.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(open: &(Mutex<bool>, Condvar)) {
        *open.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        open.1.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

/// A communicator of one rank whose types are `'static`.
pub(crate) fn alone() -> Result<Communicator<Host<AnyDevice>>> {
    Seat::local(1).remove(0).init(Host::any(0)?)
}

/// Waits without checking for errors.
pub(crate) fn until_reached(mark: &Mark<Host>) -> Result<()> {
    while !mark.is_reached()? {
        thread::yield_now();
    }
    Ok(())
}

pub(crate) fn panicked(result: Result<()>) -> String {
    match result {
        Err(Error::Panicked(panicked)) => panicked.message,
        other => panic!("{other:?} instead of a panic"),
    }
}

//! Threads inside closures of launches and captures, where the host may not wait.

use std::cell::Cell;

thread_local! {
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is inside a capture's closure, where the host may not wait.
pub(crate) fn capturing() -> bool {
    CAPTURING.get()
}

/// Marks the thread while it lives, and unmarks it even after a panic.
pub(crate) struct Capturing {
    outer: bool,
}

impl Capturing {
    pub(crate) fn enter() -> Self {
        Self { outer: CAPTURING.replace(true) }
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        CAPTURING.set(self.outer);
    }
}

thread_local! {
    static LAUNCHING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is running a launched closure, which may not wait.
pub(crate) fn launching() -> bool {
    LAUNCHING.get()
}

/// Marks the thread while it lives, panics included. Closures that run at the call may launch
/// others.
pub(crate) struct Launching {
    outer: bool,
}

impl Launching {
    pub(crate) fn enter() -> Self {
        Self { outer: LAUNCHING.replace(true) }
    }
}

impl Drop for Launching {
    fn drop(&mut self) {
        LAUNCHING.set(self.outer);
    }
}

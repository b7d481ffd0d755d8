//! Threads of the library's own that look at devices while the program's threads do other work.

use std::cell::Cell;

thread_local! {
    static IS_NEW: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one of them.
pub(crate) fn begin() {
    IS_NEW.set(true);
}

/// Whether this is one of them, the first time that it is asked.
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only CUDA cares who asks"))]
pub(crate) fn is_new() -> bool {
    // Unavailable at the end of a thread.
    IS_NEW.try_with(|new| new.replace(false)).unwrap_or(false)
}

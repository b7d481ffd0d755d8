//! Whether this thread was told of a lost peer, for who asks which rank is the cause.

use std::cell::Cell;

use super::Error;

thread_local! {
    static TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Notes that this thread gets to see `error`.
pub(crate) fn told(error: Error) -> Error {
    if error.is_peer_failure() {
        TOLD.set(true);
    }
    error
}

/// Whether this thread saw a lost peer.
pub(crate) fn was_told() -> bool {
    TOLD.get()
}
